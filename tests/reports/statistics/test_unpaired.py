"""Rows with other seeds: the choice between shared seeds and all runs, and how often its verdicts err."""

import pytest

from benchmarks import ragged
from benchmarks.simulated_worlds import WORLDS
from reports.statistics.decide import worth_pairing

GRIDS = 200


@pytest.mark.parametrize(
    ("shared", "counts", "freedom", "paired"),
    [
        (2, (2, 2), 1, True),  # the same seeds are always paired
        (1, (5, 5), 20, False),
        (0, (3, 4), 0, False),
        (2, (5, 5), 1, False),  # Student's cut-off at one degree of freedom is 12.7
        (3, (5, 5), 2, False),
        (3, (5, 5), 20, True),  # other rows tell the variance
        (4, (5, 4), 3, True),
    ],
)
def test_the_choice_is_by_numbers_of_runs(shared: int, counts: tuple[int, int], freedom: float, paired: bool):
    assert worth_pairing(shared, counts, freedom, tests=1) is paired
    assert worth_pairing(shared, counts[::-1], freedom, tests=1) is paired


@pytest.mark.parametrize("world", ["nothing differs", "the baseline varies 3 times as much"])
@pytest.mark.parametrize("design", ragged.DESIGNS)
def test_verdicts_err_no_more_than_five_times_in_a_hundred(design: str, world: str):
    found = ragged.outcomes_of(WORLDS[world], 3, design, GRIDS)
    wrong = sum(outcome.wrong for outcome in found["rule"]) / GRIDS
    assert wrong <= 0.05 + 2 * (0.05 * 0.95 / GRIDS) ** 0.5


def test_the_rule_finds_what_the_better_of_its_halves_finds():
    world = WORLDS["one row is better by 4 sd"]
    for design in ragged.DESIGNS:
        found = {way: ragged.seen(outcomes) for way, outcomes in ragged.outcomes_of(world, 3, design, GRIDS).items()}
        assert found["rule"] >= max(found["shared"], found["all"]) - 0.05
        assert found["rule"] > 0.25  # in each design, rows can be told apart
