"""The chance that further seeds decide a comparison, against what happened in simulated studies."""

import numpy as np
import pytest

from reports.statistics.cutoffs import Pair, looks_up_to
from reports.statistics.decide import DECIDED, Decided, Family, Measurements, decide, verdict
from reports.statistics.futility import FUTILE, chance_of_deciding

PAIRS: tuple[Pair, ...] = ((1, 0), (2, 0))
MOST, MARGIN = 8, 0.5


def looks(values: np.ndarray) -> dict[int, list[Decided]]:
    return {seeds: decide(Measurements(values[:, :seeds]), PAIRS, most_seeds=MOST) for seeds in looks_up_to(MOST)}


def is_decided(each: Decided) -> bool:
    return verdict(each.difference, each.half_width, True, MARGIN, each.seeds) in DECIDED


def chance(each: Decided, margin: float | None = MARGIN, most: int = MOST) -> float:
    return chance_of_deciding(each, Family(3, PAIRS, most_seeds=most), margin)


def test_of_comparisons_with_a_chance_about_that_share_is_decided_later():
    draw = np.random.default_rng(0)
    chances, came = list[float](), list[bool]()
    for _ in range(300):
        effects = np.array([0.0, *draw.uniform(-4, 4, size=2)])  # in standard deviations of a seed
        found = looks(effects[:, None] + draw.normal(size=(3, MOST)))
        for pair in range(2):
            for seeds, lines in found.items():
                if is_decided(lines[pair]):
                    break
                if seeds in (3, 4):
                    chances.append(chance(lines[pair]))
                    came.append(any(is_decided(later[pair]) for at, later in found.items() if at > seeds))
    said, happened = np.array(chances), np.array(came)
    assert len(said) > 300 and (said < FUTILE).sum() > 20
    assert happened[said < FUTILE].mean() < 0.1
    assert happened.mean() == pytest.approx(said.mean(), abs=0.06)
    assert happened[said > 0.6].mean() > 0.6 > 0.35 > happened[said < 0.3].mean()


def test_more_seeds_give_no_chance_where_the_texts_decide_or_no_look_is_left():
    draw = np.random.default_rng(1)
    (each, _) = decide(Measurements(np.array([[0.0], [1.0], [0.0]]) + draw.normal(size=(3, 4))), PAIRS, most_seeds=MOST)
    assert chance(each) > 0.2 and chance(each, most=4) == 0
    assert chance(each) <= chance(each, most=20)
    by_texts = Decided(each.difference, 9.0, 1.0, 4, each.from_seeds, 4.0, each.freedom)
    assert chance(by_texts) < 0.02
