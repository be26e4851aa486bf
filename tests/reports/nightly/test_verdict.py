"""The nightly verdict on nights made by hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from reports.nightly.evidence import compare_nights
from reports.nightly.holm import holm
from reports.nightly.measured import Metric, Night, Rules, metrics_of
from reports.nightly.settings import TIMINGS, Limits, Nightly
from reports.nightly.verdict import Judgement, judge

SETTINGS = Nightly(
    window=3,
    quality={"test.accuracy": Limits(practical=0.01, widest=0.5)},
    speed=Limits(practical=0.1, widest=9),
)
SEEDS = np.array([0.60, 0.61, 0.59, 0.62, 0.58, 0.605])
ACCURACY = Metric("test.accuracy", True, SETTINGS.quality["test.accuracy"])
SECONDS = Metric("training_seconds", False, SETTINGS.speed)
WOBBLE = 0.001 * np.array([1, -1, 2, -2, 1, -1])


def judged(nights: Sequence[Night], metrics: Sequence[Metric], settings: Nightly = SETTINGS) -> list[list[Judgement]]:
    return judge(nights, [Rules(metrics, settings)] * len(nights))


def verdicts(*nights: Night, metric: Metric = ACCURACY, settings: Nightly = SETTINGS) -> list[str]:
    return [night[0].verdict for night in judged(nights, [metric], settings)]


def of(values: np.ndarray, again: np.ndarray | None = None, epoch: str = "one", name: str = "test.accuracy") -> Night:
    return Night("", epoch, {name: values}, {} if again is None else {name: again})


BEFORE = [of(SEEDS)] * 3


def test_nothing_is_said_until_the_window_is_full():
    assert verdicts(*BEFORE, of(SEEDS)) == ["inconclusive"] * 3 + ["unchanged"]
    last = judged([of(SEEDS)] * 2, [ACCURACY])[-1][0]
    assert last.why.en == "night 2 of the window of 3"


def test_the_test_is_students_paired_one_where_nights_are_alike():
    tonight = SEEDS - 0.004 * np.array([1, 2, 0, 3, 1, 2])
    found = compare_nights(np.stack([SEEDS] * 3), tonight[None])
    oracle = stats.ttest_rel(tonight, SEEDS)
    assert found.p == pytest.approx(oracle.pvalue) and found.difference == pytest.approx(np.mean(tonight - SEEDS))
    low, high = oracle.confidence_interval(0.95)
    assert found.half_width == pytest.approx((high - low) / 2)


def test_nights_that_differ_widen_the_interval():
    window = np.stack([SEEDS, SEEDS + 0.02, SEEDS - 0.02])
    found = compare_nights(window, (SEEDS + 0.03 + WOBBLE)[None])
    oracle = stats.t.sf(found.difference / (0.02 * (1 / 3 + 1) ** 0.5), 2) * 2
    assert found.p == pytest.approx(oracle) and found.spread.freedom == 2


def test_the_same_bits_are_unchanged_and_so_is_another_last_digit_of_all_seeds():
    nights = [*BEFORE, of(SEEDS + 1e-16), replace(of(SEEDS + 1e-6), document={"texts": {"test.accuracy": 200}})]
    assert verdicts(*nights)[3:] == ["unchanged", "unchanged"]


def test_a_second_run_confirms_and_another_night_does_too():
    worse = SEEDS - 0.05 + WOBBLE
    assert verdicts(*BEFORE, of(worse, worse))[3:] == ["regressed"]
    assert verdicts(*BEFORE, of(worse), of(worse))[3:] == ["inconclusive", "regressed"]
    assert verdicts(*BEFORE, of(worse, SEEDS), of(SEEDS))[3] == "inconclusive"
    assert "regressed" not in verdicts(*BEFORE, of(worse, SEEDS), of(SEEDS + WOBBLE))


def test_a_better_score_improves_and_a_longer_time_regresses():
    better = SEEDS + 0.05 + WOBBLE
    assert verdicts(*BEFORE, of(better, better))[3:] == ["improved"]
    window = [of(np.exp(SEEDS + drift), name="training_seconds") for drift in (0, 0.01, -0.01)]
    slow = of(np.exp(SEEDS + 0.5), of(np.exp(SEEDS + 0.5)).values["test.accuracy"], name="training_seconds")
    assert verdicts(*window, slow, metric=SECONDS)[3:] == ["inconclusive"]  # a second run meets the same machine
    assert verdicts(*window, slow, slow, metric=SECONDS)[3:] == ["inconclusive", "regressed"]


def test_the_baseline_is_pinned():
    """A decline of a little each night is seen, which a comparison with last night would never do."""
    nights = [of(SEEDS - 0.004 * number + WOBBLE * number) for number in range(12)]
    assert verdicts(*BEFORE, *nights)[-1] == "regressed"


def test_another_environment_opens_a_new_window():
    worse = of(SEEDS - 0.2, SEEDS - 0.2, epoch="two")
    assert verdicts(*BEFORE, of(SEEDS), *[worse] * 4)[4:] == ["inconclusive"] * 3 + ["unchanged"]
    assert verdicts(*BEFORE, worse, of(SEEDS))[-1] == "unchanged"  # and the earlier one is there when it comes back


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (None, "nothing has this name"),
        (np.array([]), "nothing has this name"),
        (np.where(np.arange(6) == 2, np.nan, SEEDS), "1 of 6 values are missing"),
        (np.full(6, 0.5), "all seeds have the same value"),
    ],
)
def test_a_metric_that_measured_nothing_fails(values, said):
    night = Night("", "one", {} if values is None else {"test.accuracy": values})
    (last,) = judged([*BEFORE, night], [ACCURACY])[-1]
    assert last.verdict == "measured nothing" and last.fails and said in last.why.en and last.why.zh


def test_a_night_without_a_number_counts_for_nothing():
    lost = of(np.full(6, np.nan))
    assert verdicts(of(SEEDS), lost, of(SEEDS), of(SEEDS), of(SEEDS)) == [
        "inconclusive", "measured nothing", "inconclusive", "inconclusive", "unchanged"
    ]  # fmt: skip


def test_what_is_too_noisy_is_inconclusive():
    blunt = SETTINGS.model_copy(update={"quality": {"test.accuracy": Limits(practical=0.01, widest=0.02)}})
    noisy = SEEDS + 0.1 * np.array([1, -1, 1, -1, 1, -0.9])
    (last,) = judged([*BEFORE, of(noisy)], [Metric("test.accuracy", True, blunt.quality["test.accuracy"])], blunt)[-1]
    assert last.verdict == "inconclusive" and "noisy" in last.why.en


def test_p_is_corrected_over_the_metrics_of_a_night_and_half_goes_to_the_configurations():
    names = ("a", "b", "a @ x", "a @ y")
    metrics = [Metric(name, True, Limits(practical=1e-9, widest=9)) for name in names]
    draw = np.random.default_rng(0)
    moved = {name: SEEDS + 0.01 * draw.normal(size=6) for name in names}
    nights = [Night("", "one", dict.fromkeys(names, SEEDS))] * 3 + [Night("", "one", moved)]
    p = {name: compare_nights(np.stack([SEEDS] * 3), moved[name][None]).p for name in names}
    found = {one.metric.name: one.p for one in judged(nights, metrics)[-1]}
    for family in (names[:2], names[2:]):
        corrected = np.minimum(1, 2 * holm(np.array([p[name] for name in family])))
        assert [found[name] for name in family] == pytest.approx(corrected.tolist())


def test_every_night_has_to_measure_the_scores_the_configurations_and_the_timings():
    night = Night("", "one", {}, {}, {"directions": {"test.accuracy": True}, "configurations": ["ce", "rdrop"]})
    names = [one.name for one in metrics_of(SETTINGS, night)]
    assert names == ["test.accuracy", *TIMINGS, "test.accuracy @ ce", "test.accuracy @ rdrop"]
    assert all(one.verdict == "measured nothing" for one in judged([night], metrics_of(SETTINGS, night))[0])
