"""What the tests of a report are worth, by simulated grids: errors where nothing differs, coverage, power."""

import pytest

from benchmarks import simulation as simulated
from benchmarks.simulation import DATA, GRIDS
from reports.statistics import POWER

pytestmark = pytest.mark.slow
ERROR = 0.05 + 2 * (0.05 * 0.95 / GRIDS) ** 0.5


@pytest.mark.parametrize(
    ("data", "seeds"),
    [
        ("seeds and texts", 2),
        ("seeds and texts", 3),
        ("the same recipe", 3),
        ("macro-F1, seeds", 2),
        ("macro-F1, seeds", 3),
        ("seeds and texts", 5),
        ("macro-F1, no seed effect", 5),
    ],
)
def test_without_effect_families_err_and_intervals_miss_as_seldom_as_they_say(data, seeds):
    found = simulated.no_effect(DATA[data], seeds)
    assert found.family <= ERROR and found.unbold <= ERROR and 0.93 <= found.coverage <= 0.97


@pytest.mark.parametrize(("seeds", "over_texts"), [(2, True), (3, False), (5, True)])
def test_a_planted_effect_is_found_as_often_as_is_printed(seeds, over_texts):
    found, on_average = simulated.planted(seeds, over_texts)
    assert found == pytest.approx(POWER, abs=0.03) and on_average == pytest.approx(POWER, abs=0.03)


def test_mcnemar_over_trained_models():
    assert simulated.mcnemar() <= ERROR


@pytest.mark.parametrize("seeds", [2, 5])
def test_axes_and_their_levels(seeds):
    family, coverage = simulated.axes(seeds)
    assert family <= ERROR and 0.93 <= coverage <= 0.97


@pytest.mark.parametrize("seeds", [2, 5])
def test_axes_of_recipes_that_differ_by_the_luck_of_the_texts(seeds):
    assert simulated.axes_over_texts(seeds, 500) <= 0.05 + 2 * (0.05 * 0.95 / 500) ** 0.5


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_means_over_seeds(seeds):
    assert 0.93 <= simulated.summaries(seeds) <= 0.97


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_interquartile_mean(seeds):
    assert 0.93 <= simulated.interquartile(seeds, count=1000) <= 0.97
