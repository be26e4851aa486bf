"""The nightly verdict, and the nightly report, of nights made by hand."""

import json
import re
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from scipy import stats

from reports.nightly import history
from reports.nightly.against import write_against
from reports.nightly.evidence import compare_nights
from reports.nightly.history import EXPERIMENT, NIGHT, read_history
from reports.nightly.judgement import Judgement
from reports.nightly.measured import Metric, Night, Rules, metrics_of, rules_of
from reports.nightly.page import since_good, text, write_nightly
from reports.nightly.settings import TIMINGS, Nightly
from reports.nightly.verdict import judge_by_documents, judge_nights
from tests.reports.made import in_chinese

SETTINGS = Nightly(window=3, quality={"test.accuracy": 0.01}, speed=0.1)
SEEDS = np.array([0.60, 0.61, 0.59, 0.62, 0.58, 0.605])
ACCURACY = Metric("test.accuracy", True, 0.01)
SECONDS = Metric("training_seconds", False, 0.1)
WOBBLE = 0.001 * np.array([1, -1, 2, -2, 1, -1])
TEXTS = {"texts": {"test.accuracy": 200}}


def judged(nights: Sequence[Night], metrics: Sequence[Metric], settings: Nightly = SETTINGS) -> list[list[Judgement]]:
    return judge_nights(nights, [Rules(metrics, settings)] * len(nights))


def verdicts(*nights: Night, metric: Metric = ACCURACY) -> list[str]:
    return [night[0].verdict for night in judged(nights, [metric])]


def last(*nights: Night, metric: Metric = ACCURACY) -> Judgement:
    return judged(nights, [metric])[-1][0]


def of(values: np.ndarray, epoch: str = "one", name: str = "test.accuracy") -> Night:
    return Night("", epoch, {name: values}, TEXTS)


def seconds(drift: float) -> Night:
    return of(np.exp(SEEDS + drift), name="training_seconds")


WINDOW = [seconds(drift) for drift in (0, 0.01, -0.01)]


def test_a_score_of_the_same_bits_is_unchanged_on_the_second_night():
    assert verdicts(of(SEEDS), of(SEEDS)) == ["inconclusive", "unchanged"]
    said = last(of(SEEDS), of(SEEDS))
    assert said.difference == said.half_width == 0 and str(said.why) == "the same at every seed"
    assert str(last(of(SEEDS)).why).startswith("the first measurement")
    # another last digit of all seeds is no change
    assert verdicts(of(SEEDS), of(SEEDS + 1e-16), of(SEEDS + 1e-6)) == ["inconclusive", "unchanged", "unchanged"]


def test_a_score_that_moved_is_called_on_the_second_night():
    assert verdicts(of(SEEDS), of(SEEDS - 0.05 + WOBBLE)) == ["inconclusive", "regressed"]
    assert verdicts(of(SEEDS), of(SEEDS + 0.05 + WOBBLE)) == ["inconclusive", "improved"]
    loss = Metric("test.accuracy", False, 0.01)
    assert verdicts(of(SEEDS), of(SEEDS + 0.05 + WOBBLE), metric=loss)[-1] == "regressed"


def test_the_interval_of_a_score_is_students_at_the_level_that_is_left_to_it():
    tonight = SEEDS - 0.004 * np.array([1, 2, 0, 3, 1, 2])
    said, oracle = last(of(SEEDS), of(tonight)), stats.ttest_rel(tonight, SEEDS)
    low, high = oracle.confidence_interval(1 - SETTINGS.false_alarms)
    assert said.half_width == pytest.approx((high - low) / 2, rel=0.03)  # by Monte Carlo
    assert said.p == pytest.approx(oracle.pvalue, rel=0.1) and said.difference == pytest.approx((low + high) / 2)


def test_half_of_the_level_is_for_configurations_and_only_what_moved_shares_it():
    names = ("a", "b", "c", "a @ x", "a @ y", "a @ z")
    metrics = [Metric(name, True, 1e-9) for name in names]
    draw = np.random.default_rng(0)
    moved = {name: SEEDS + 0.01 * draw.normal(size=6) for name in names} | {"c": SEEDS}
    night = judged([Night("", "one", dict.fromkeys(names, SEEDS)), Night("", "one", moved)], metrics)[-1]
    for said, tests in zip(night, (4, 4, 0, 6, 6, 6), strict=True):
        if tests:
            p = stats.ttest_rel(moved[said.metric.name], SEEDS).pvalue
            assert said.p == pytest.approx(min(1, tests * p), rel=0.1)
        else:
            assert said.verdict == "unchanged" and np.isnan(said.p)


@pytest.mark.parametrize(
    ("shift", "scatter", "verdict", "why"),
    [
        (-0.02, 0.1, "regressed", ""),
        (-0.002, 0.5, "unchanged", "moved by less than matters"),
        (-0.015, 40, "inconclusive", "more than 64 seeds would decide it"),
        (-0.015, 10, "inconclusive", "14 seeds would decide it"),
        (-0.009, 0.5, "inconclusive", "reaches beyond 0.01"),  # surely lower, and perhaps by what matters
    ],
)
def test_what_an_interval_says(shift, scatter, verdict, why):
    said = last(of(SEEDS), of(SEEDS + shift + scatter * (WOBBLE - WOBBLE.mean())))
    assert said.verdict == verdict and why in str(said.why), said


@pytest.mark.parametrize(("seeds", "verdict"), [(12, "inconclusive"), (14, "regressed")])
def test_the_number_of_seeds_that_is_advised_decides(seeds, verdict):
    """At the difference and the spread of the night for which 14 are advised; the cut-offs are simulated, 13 may do."""
    rest = np.random.default_rng(0).normal(size=seeds)
    rest = (rest - rest.mean()) / rest.std(ddof=1) * (10 * WOBBLE).std(ddof=1)
    row = np.resize(SEEDS, seeds)
    assert last(of(row), of(row - 0.015 + rest)).verdict == verdict


def test_the_first_night_is_pinned():
    """A decline of a little each night is seen, which a comparison with last night would never do."""
    nights = [of(SEEDS - 0.004 * number + 0.1 * WOBBLE * number) for number in range(12)]
    said = verdicts(*nights)
    assert said[1] == "unchanged" and said[-1] == "regressed"
    # another environment has a first night of its own
    worse = of(SEEDS - 0.2 + WOBBLE, epoch="two")
    assert verdicts(of(SEEDS), worse, worse) == ["inconclusive", "inconclusive", "unchanged"]
    assert verdicts(of(SEEDS), worse, of(SEEDS))[-1] == "unchanged"  # the earlier one is there when it comes back


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
    judgement = last(of(SEEDS), night)
    assert judgement.verdict == "measured nothing" and judgement.fails
    assert said in str(judgement.why)
    assert verdicts(night, of(SEEDS), night, of(SEEDS))[1::2] == ["inconclusive", "unchanged"]  # it counts for nothing


def test_the_test_of_timings_is_students_paired_one_where_nights_are_alike():
    tonight = SEEDS - 0.004 * np.array([1, 2, 0, 3, 1, 2])
    evidence, oracle = compare_nights(np.stack([SEEDS] * 3), tonight[None]), stats.ttest_rel(tonight, SEEDS)
    assert evidence.p == pytest.approx(oracle.pvalue)
    assert evidence.difference == pytest.approx(np.mean(tonight - SEEDS))
    low, high = oracle.confidence_interval(0.95)
    assert evidence.half_width == pytest.approx((high - low) / 2)
    # nights that differ widen it
    window = np.stack([SEEDS, SEEDS + 0.02, SEEDS - 0.02])
    evidence = compare_nights(window, (SEEDS + 0.03 + WOBBLE)[None])
    oracle = stats.t.sf(evidence.difference / (0.02 * (1 / 3 + 1) ** 0.5), 2) * 2
    assert evidence.p == pytest.approx(oracle) and evidence.spread.freedom == 2


def test_timings_wait_for_their_window_and_a_longer_time_is_called_by_the_night_after():
    said = judged(WINDOW, [SECONDS])
    assert [str(night[0].why) for night in said] == [f"night {number} of the window of 3" for number in (1, 2, 3)]
    assert verdicts(*WINDOW, seconds(0), metric=SECONDS)[3:] == ["unchanged"]
    assert verdicts(*WINDOW, seconds(0.5), metric=SECONDS)[3:] == ["inconclusive"]
    assert verdicts(*WINDOW, seconds(0.5), seconds(0.5), metric=SECONDS)[3:] == ["inconclusive", "regressed"]
    assert "regressed" not in verdicts(*WINDOW, seconds(0.5), seconds(0), seconds(0.5), metric=SECONDS)
    # and of a noisy machine not at all
    noisy = [seconds(drift) for drift in (0, 0.1, -0.1)]
    said = last(*noisy, seconds(0.02), metric=SECONDS)
    assert said.verdict == "inconclusive" and str(said.why) == "the interval reaches beyond 10%"


def test_p_of_a_timing_is_times_the_timings():
    other = Metric("texts_per_second", True, 0.1)
    night = {"training_seconds": np.exp(SEEDS + 0.013), "texts_per_second": np.exp(SEEDS - 0.02)}
    window = [Night("", "one", dict.fromkeys(night, seen.values["training_seconds"])) for seen in WINDOW]
    alone, both = (judged([*window, Night("", "one", night)], some)[-1][0] for some in ([SECONDS], [SECONDS, other]))
    assert 0 < alone.p < 0.5 and both.p == pytest.approx(2 * alone.p)


def test_every_night_has_to_measure_the_scores_the_configurations_and_the_timings():
    night = Night("", "one", {}, {"directions": {"test.accuracy": True}, "configurations": ["ce", "rdrop"]})
    names = [metric.name for metric in metrics_of(SETTINGS, night)]
    assert names == ["test.accuracy", *TIMINGS, "test.accuracy @ ce", "test.accuracy @ rdrop"]
    assert all(said.verdict == "measured nothing" for said in judged([night], metrics_of(SETTINGS, night))[0])


FIVE = (0.70, 0.72, 0.69, 0.71, 0.73)


def night(values, metric: Metric = ACCURACY, **document: object) -> Night:
    return Night("", "one", {metric.name: np.array(values, dtype=float)}, document)


@pytest.mark.parametrize("before", [[0.70], [0.70, 0.75]])
def test_a_score_at_fewer_than_three_seeds_is_never_called(before):
    worse = night(np.array(before) - 0.3, texts={"test.accuracy": 100})
    said = last(*[night(before)] * 10, worse, worse)
    assert said.verdict == "inconclusive" and "three seeds are needed" in str(said.why)
    assert "三个种子" in in_chinese(said.why)
    assert np.isnan(said.p) and np.isnan(said.detectable)
    assert last(night(before), night(before)).verdict == "unchanged"  # the same bits need no spread


def test_a_timing_of_one_value_is_still_compared_over_nights_and_texts_tell_the_step_of_a_score():
    window = [night([10 * (1 + drift)], SECONDS) for drift in (0, 0.01, -0.01)]
    slow = night([30], SECONDS)
    assert last(*window, slow, slow, metric=SECONDS).verdict == "regressed"

    # seeds that all lost one text may be chance
    row, texts = np.array(FIVE)[:3], {"test.accuracy": 100}
    said = last(night(row, texts=texts), night(row - 0.01, texts=texts))
    assert said.verdict == "inconclusive" and 0.005 < said.p < 1

    # without any spread nothing is said where no step is known
    row = np.array(FIVE)
    said = last(night(row), night(row - 0.3))
    assert said.verdict == "inconclusive" and "nothing varies" in str(said.why)
    assert np.isnan(said.p) and np.isnan(said.half_width)
    assert last(night(row), night(row - 0.3, texts={"test.accuracy": 100})).verdict == "regressed"


@pytest.mark.parametrize("then", [True, False])
def test_a_direction_turned_round_is_said_and_never_an_improvement(then):
    metric = Metric("test.accuracy", not then, ACCURACY.margin)
    window = [night(FIVE, directions={"test.accuracy": then})] * 3
    moved = np.array(FIVE) + (-0.3 if then else 0.3) + [0.001, 0, -0.001, 0, 0]
    said = last(*window, night(moved, directions={"test.accuracy": not then}), metric=metric)
    words = ("lower is better", "higher") if then else ("higher is better", "lower")
    assert said.verdict == "inconclusive" and all(word in str(said.why) for word in words)
    assert "越低越好" in in_chinese(said.why)


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
    assert refused.verdict == "inconclusive" and str(refused.why) == said
    assert last(*window, other, window[0], other, window[0]).verdict == "unchanged"  # and it counts for nothing


ROW = [0.70, 0.72, 0.69, 0.71]


def document(number: int, configurations: list[str], epoch: str = "one", **changed: Any) -> dict[str, Any]:
    names = ["test.accuracy", *(f"test.accuracy @ {part}" for part in configurations), *TIMINGS]
    scale = np.random.default_rng(number).uniform(0.99, 1.01, size=4)
    values = {name: list(ROW * scale) if name in TIMINGS else ROW for name in names}
    content = {
        "version": 2, "when": f"2026-01-{number:02}", "commit": f"c{number}", "commits": [[f"c{number}", "work"]],
        "environment": {"panel": epoch}, "epoch": epoch, "configurations": configurations,
        "directions": {"test.accuracy": True}, "values": values, "failed": [],
        "settings": {"window": 2, "quality": {"test.accuracy": 0.01}, "speed": 0.1},
    }  # fmt: skip
    return content | changed


def made(number: int, configurations: list[str], **changed: Any) -> Night:
    return history.night(document(number, configurations, **changed))


def test_a_configuration_that_is_added_does_not_change_what_was_said_of_earlier_nights():
    earlier = [made(number, ["ce", "rdrop"]) for number in (1, 2, 3)]
    nights = [*earlier, made(4, ["ce", "rdrop", "simcse"], epoch="two")]
    judged = judge_by_documents(nights)
    assert str(judged[:3]) == str(judge_by_documents(earlier))  # NaN is not equal to itself
    page = text(nights, judged, rules_of(nights[-1]), "en")
    assert "measured nothing" not in page
    for said in (page, text(nights, judged, rules_of(nights[-1]), "zh")):
        assert not re.search(r"[^|\s]  +[^|\s]", said)  # no sentence has two spaces
    assert since_good(nights, judged) == ["c4 work"]
    # nor do settings that change
    other = {"window": 5, "quality": {"test.macro_f1": 0.01}, "speed": 0.1}
    nights = [*(made(number, ["ce"]) for number in (1, 2, 3)), made(4, ["ce"], settings=other)]
    judged = judge_by_documents(nights)
    assert judged[2][0].metric.name == "test.accuracy" and judged[2][0].verdict == "unchanged"
    assert judged[3][0].metric.name == "test.macro_f1" and judged[3][0].verdict == "measured nothing"


@pytest.mark.slow
def test_nights_of_another_version_are_left_out_and_counted(tmp_path, empty_store):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment(EXPERIMENT, f"{tmp_path}/artifacts")
    for content in ({"version": 1, "runs": []}, document(2, ["ce"])):
        run = client.create_run(experiment, tags={"ablate.kind": "night"}).info.run_id
        (tmp_path / NIGHT).write_text(json.dumps(content))
        client.log_artifact(run, str(tmp_path / NIGHT))
        client.set_terminated(run, "FINISHED")
    recorded = read_history(uri)
    assert [member.when for member in recorded.nights] == ["2026-01-02"] and recorded.older == 1
    page = write_nightly(uri, tmp_path / "pages").path.read_text()
    assert "Nights of an older version of ablate are left out: 1." in page


def test_a_page_against_a_commit_judges_what_scores_both_have_and_no_timing(tmp_path):
    then, now = document(1, ["ce"]), document(2, ["ce"], failed=["ce, seed number 5: failed"])
    now["values"] = {name: [0.5, 0.51, 0.48, 0.53] if name not in TIMINGS else [99.0] * 4 for name in now["values"]}
    said = write_against(history.night(then), history.night(now), tmp_path)
    assert said.headline == "1 regressed (test.accuracy)" and [one.metric.name for one in said.failing]
    page = said.path.read_text()
    assert page.startswith("# Against c1: 1 regressed") and "seconds" not in page.partition("Timings are not")[0]
    assert "- c2 work" in page and "## Cells without a result\n\n- ce, seed number 5: failed" in page
    assert "# 与 c1 比较：1 项退步" in (tmp_path / "against.zh.md").read_text()
    # what a commit did not measure is no failure
    now = document(2, ["ce"])
    then["values"] = {}
    said = write_against(history.night(then), history.night(now), tmp_path)
    assert not said.failing and "the first measurement of it" in said.path.read_text()
    assert write_against(history.night(now), history.night(then), tmp_path).failing[0].verdict == "measured nothing"
