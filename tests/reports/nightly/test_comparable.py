"""What may be compared at all, and how little may be called."""

import numpy as np
import pytest

from reports.nightly.judgement import Judgement
from reports.nightly.measured import Metric, Night, Rules
from reports.nightly.settings import TIMINGS, Nightly
from reports.nightly.verdict import judge_nights

SETTINGS = Nightly(window=3, quality={"test.accuracy": 0.001}, speed=0.1)
ACCURACY = Metric("test.accuracy", True, SETTINGS.quality["test.accuracy"])
SECONDS = Metric("training_seconds", TIMINGS["training_seconds"], SETTINGS.speed)
FIVE = (0.70, 0.72, 0.69, 0.71, 0.73)


def night(values, metric: Metric = ACCURACY, **document: object) -> Night:
    return Night("", "one", {metric.name: np.array(values, dtype=float)}, document)


def last(*nights: Night, metric: Metric = ACCURACY) -> Judgement:
    return judge_nights(nights, [Rules([metric], SETTINGS)] * len(nights))[-1][0]


@pytest.mark.parametrize("before", [[0.70], [0.70, 0.75]])
def test_a_score_at_fewer_than_three_seeds_is_never_called(before):
    worse = night(np.array(before) - 0.3, texts={"test.accuracy": 100})
    said = last(*[night(before)] * 10, worse, worse)
    assert said.verdict == "inconclusive" and "three seeds are needed" in said.why.en and "三个种子" in said.why.zh
    assert np.isnan(said.p) and np.isnan(said.detectable)
    assert last(night(before), night(before)).verdict == "unchanged"  # the same bits need no spread


def test_a_timing_of_one_value_is_still_compared_over_nights():
    window = [night([10 * (1 + drift)], SECONDS) for drift in (0, 0.01, -0.01)]
    slow = night([30], SECONDS)
    assert last(*window, slow, slow, metric=SECONDS).verdict == "regressed"


def test_seeds_that_all_lost_one_text_may_be_chance():
    row, texts = np.array(FIVE)[:3], {"test.accuracy": 100}
    said = last(night(row, texts=texts), night(row - 0.01, texts=texts))
    assert said.verdict == "inconclusive" and 0.005 < said.p < 1


def test_a_difference_without_any_spread_is_inconclusive_where_no_step_is_known():
    row = np.array(FIVE)
    said = last(night(row), night(row - 0.3))
    assert said.verdict == "inconclusive" and "nothing varies" in said.why.en
    assert np.isnan(said.p) and np.isnan(said.half_width)
    assert last(night(row), night(row - 0.3, texts={"test.accuracy": 100})).verdict == "regressed"


def test_a_score_that_is_the_same_at_all_seeds_every_night_measured_nothing():
    said = last(*[night([0.5] * 5)] * 5)
    assert said.verdict == "measured nothing" and "all seeds have the same value" in said.why.en


@pytest.mark.parametrize("then", [True, False])
def test_a_direction_turned_round_is_said_and_never_an_improvement(then):
    metric = Metric("test.accuracy", not then, ACCURACY.margin)
    window = [night(FIVE, directions={"test.accuracy": then})] * 3
    moved = np.array(FIVE) + (-0.3 if then else 0.3) + [0.001, 0, -0.001, 0, 0]
    said = last(*window, night(moved, directions={"test.accuracy": not then}), metric=metric)
    words = ("lower is better", "higher") if then else ("higher is better", "lower")
    assert said.verdict == "inconclusive" and all(word in said.why.en for word in words) and "越低越好" in said.why.zh


@pytest.mark.parametrize(
    ("values", "seeds", "said"),
    [
        ([0.7], None, "values 0.7 now, seeds 0, 1, 2, 3, 4 before"),
        ([0.7], [0], "seeds 0 now, seeds 0, 1, 2, 3, 4 before"),
        (FIVE, [5, 6, 7, 8, 9], "seeds 5, 6, 7, 8, 9 now, seeds 0, 1, 2, 3, 4 before"),
    ],
)
def test_other_seeds_than_those_of_before_are_not_compared(values, seeds, said):
    window = [night(FIVE, seeds=[0, 1, 2, 3, 4])] * 3
    other = night(values, **({} if seeds is None else {"seeds": seeds}))
    refused = last(*window, other)
    assert refused.verdict == "inconclusive" and refused.why.en == said and refused.why.zh
    assert last(*window, other, window[0], other, window[0]).verdict == "unchanged"  # and it counts for nothing
