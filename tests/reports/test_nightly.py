"""What is said of nights made by hand: verdicts, the page, and how often verdicts err over simulated nights."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from reports.nightly import (
    PANEL,
    TIMINGS,
    Change,
    Night,
    Nightly,
    changes_of_all,
    comparable,
    write_against,
    write_nightly,
)
from tests.tiers import rest_is_full

SETTINGS = Nightly(window=3, quality={"test.accuracy": 0.01}, speed=0.1)
SEEDS = np.array([0.60, 0.61, 0.59, 0.62, 0.58, 0.605])
WOBBLE = 0.001 * np.array([1, -1, 2, -2, 1, -1])


def night(
    values: Any = SEEDS, seconds: float = 10.0, rows: dict[str, Any] | None = None, number: int = 1, **more: Any
) -> Night:
    scores = {"test.accuracy": {name: list(own) for name, own in (rows or {"ce": values}).items()}}
    timings = {"training_seconds": [seconds], "texts_per_second": [100 / seconds]}
    given = {"environment": {"python": "3"}, "settings": SETTINGS, "higher": {"test.accuracy": True}} | more
    return Night(f"2026-01-{number:02}", f"c{number}", [(f"c{number}", "work")], scores=scores,
                 texts={"test.accuracy": 200}, timings=timings, **given)  # fmt: skip


def last(*nights: Night, score: str = "test.accuracy", row: str = "ce") -> Change:
    return next(change for change in changes_of_all(nights)[-1] if (change.score, change.row) == (score, row))


@pytest.mark.parametrize(
    ("tonight", "verdict", "why"),
    [
        (SEEDS, "equivalent", "the same at every seed"),
        (SEEDS + 1e-16, "equivalent", "the same at every seed"),  # the last digit
        (SEEDS - 0.05 + WOBBLE, "worse", ""),
        (SEEDS + 0.05 + WOBBLE, "better", ""),
        (SEEDS - 0.002 + 0.5 * WOBBLE, "equivalent", ""),
        (SEEDS - 0.015 + 10 * WOBBLE, "undecided", ""),
        (np.where(np.arange(6) == 2, np.nan, SEEDS), "not comparable", "1 of 6 cells have no such score"),
        (SEEDS[:5], "not comparable", "the earlier night has no such score"),
    ],
)
def test_the_second_night_is_judged_in_the_words_of_all_reports(tonight, verdict, why):
    change = last(night(), night(tonight))
    assert (change.verdict, str(change.why)) == (verdict, why)
    assert change.fails == (verdict == "worse" or "cells" in why)


def test_half_of_the_level_is_for_the_whole_panel_and_only_what_moved_shares_it():
    draw = np.random.default_rng(0)
    then = dict.fromkeys("abc", SEEDS)
    now = {name: SEEDS + (0.01 * draw.normal(size=6) if name != "c" else 0) for name in "abc"}
    nights = night(rows=then), night(rows=now)
    assert str(last(*nights, row="c").why) == "the same at every seed"
    for row, tests in (("a", 4), ("b", 4), (PANEL, 2)):  # half of the level, for two rows and for one
        ours, theirs = (each.values("test.accuracy", row) for each in (nights[1], nights[0]))
        low, high = stats.ttest_rel(ours, theirs).confidence_interval(1 - SETTINGS.false_alarms / tests)
        assert last(*nights, row=row).half_width == pytest.approx((high - low) / 2, rel=0.05), row


def test_a_loss_is_worse_where_it_is_higher_by_the_direction_of_the_earlier_night():
    """Code that turns a direction round makes no improvement of a loss."""
    loss = {"test.accuracy": False}
    worse = night(SEEDS + 0.05 + WOBBLE, higher={"test.accuracy": True})
    assert last(night(higher=loss), worse).verdict == "worse"


def test_what_was_not_measured_fails_the_night():
    empty = replace(night(), scores={}, timings={})
    changes = changes_of_all([night(), empty])[-1]
    assert len(changes) == 1 + len(TIMINGS) and all(change.fails for change in changes)


def test_the_first_night_of_an_environment_is_what_scores_are_compared_with_until_one_is_acknowledged():
    """A decline of a little each night is seen, which a comparison with last night would never do."""
    nights = [night(SEEDS - 0.004 * number + 0.1 * WOBBLE * number) for number in range(12)]
    assert last(*nights[:2]).verdict == "equivalent" and last(*nights).verdict == "worse"
    nights[10] = replace(nights[10], acknowledged="a smaller model")
    assert last(*nights).verdict == "equivalent" and last(*nights[:11]).verdict == "worse"
    other = night(SEEDS - 0.2, environment={"python": "4"})
    assert last(*nights, other).verdict == "too early" and last(*nights, other, other).verdict == "equivalent"
    assert comparable([*nights, other, nights[0]], 13)[0] is nights[10]


def test_a_timing_is_called_where_two_nights_stand_out_of_the_window():
    window = [night(seconds=10 * (1 + drift)) for drift in (0, 0.001, -0.001)]
    slow, usual = night(seconds=20), night()

    def verdict(*nights: Night, name: str = "training_seconds") -> str:
        return last(*window, *nights, score=name, row=PANEL).verdict

    assert last(*window, score="training_seconds", row=PANEL).verdict == "too early"
    assert verdict(usual) == "too early" and verdict(usual, usual) == "equivalent"
    assert verdict(usual, slow) == "undecided" and verdict(slow, slow) == "worse"
    assert verdict(slow, slow, name="texts_per_second") == "worse"
    assert verdict(night(seconds=5), night(seconds=5)) == "better"


def test_the_page_says_what_is_worse_since_when_and_what_was_acknowledged(tmp_path):
    nights = [night(number=1), night(number=2), night(SEEDS - 0.05 + WOBBLE, number=3, failed=["ce, seed 1: failed"])]
    said = write_nightly(nights, tmp_path)
    page = said.path.read_text()
    assert page.startswith("# Nightly: 1 worse (accuracy (test) of ce), 2 too early\n")
    assert "compared with the night of 2026-01-01, commit c1." in page and "- ce, seed 1: failed" in page
    assert "| accuracy (test) of ce | 55.08 | −5.00 ± 0.33 | **▼ worse** |" in page
    assert "was worse\n\n- c3 work\n" in page and "c2 work" not in page
    assert [str(change.name) for change in said.failing] == ["accuracy (test) of ce"]
    assert "# 夜间回归：1 项更差" in (tmp_path / "README.zh.md").read_text()
    nights[2] = replace(nights[2], acknowledged="a smaller *model*")
    moved = night(number=4, environment={"python": "4"})
    page = write_nightly([*nights, moved], tmp_path).path.read_text()
    assert r"- 2026-01-03: a smaller \*model\*" in page and "**new environment**: python 3 → 4" in page


def test_a_page_against_a_commit_has_no_timing(tmp_path):
    said = write_against(night(), night(SEEDS - 0.05 + WOBBLE, seconds=99, number=2), tmp_path)
    page = said.path.read_text()
    assert page.startswith("# Against c1: 1 worse (accuracy") and "time" not in page and "- c2 work" in page
    assert said.failing and "# 与 c1 比较" in (tmp_path / "against.zh.md").read_text()


SIMULATED = Nightly(quality={"test.accuracy": 0.003, "test.svm_accuracy": 0.003}, speed=0.05)
SEED_NOISE = 0.02  # standard deviation of a seed's score
AFTER = 20  # nights after the window, in a history


@dataclass(frozen=True)
class Truth:
    """How nights come about.

    `neutral`: how often a night brings code that only reorders sums; it redraws `redrawn` of every seed's noise, which
    then stays the same until the next such night. `nightly`: noise of each night anew, as a share of a seed's. A step
    comes at night `at`, in standard deviations of a seed's noise, in all configurations or the first `stepping` ones.
    """

    configurations: int = 4
    seeds: int = 20
    neutral: float = 0.3
    redrawn: float = 1.0
    nightly: float = 0.0
    step: float = 0.0
    stepping: int | None = None
    at: int = 0
    slowdown: float = 0.0  # relative, of the timings, from night `at` on


def simulate(truth: Truth, nights: int, draw: np.random.Generator) -> list[list[Change]]:
    shape = (len(SIMULATED.quality), truth.configurations, truth.seeds)
    seeds = draw.normal(size=(len(SIMULATED.quality), 1, truth.seeds))  # what a seed does to all configurations
    code, made = draw.normal(size=shape), []
    for number in range(nights):
        if draw.random() < truth.neutral or (truth.step and number == truth.at):
            code = (1 - truth.redrawn) ** 0.5 * code + truth.redrawn**0.5 * draw.normal(size=shape)
        shift = np.zeros((1, truth.configurations, 1))
        shift[:, : truth.stepping] = truth.step if number >= truth.at else 0.0
        noise = 0.5 * seeds + code + shift + truth.nightly * draw.normal(size=shape)
        scores = {
            name: {str(row): list(0.6 + SEED_NOISE * values) for row, values in enumerate(own)}
            for name, own in zip(SIMULATED.quality, noise, strict=True)
        }
        busy = 0.03 * draw.standard_t(3)  # heavy tails of nights, which slow everything at once
        slower = np.log1p(truth.slowdown) if number >= truth.at else 0.0
        timings = {
            name: list(np.exp((-1 if higher else 1) * (busy + 0.02 * draw.standard_t(3) + slower) + np.zeros(1)))
            for name, higher in TIMINGS.items()
        }
        made.append(Night(str(number), "", [], {}, SIMULATED, scores, dict.fromkeys(SIMULATED.quality, True),
                          dict.fromkeys(SIMULATED.quality, 300), timings))  # fmt: skip
    return changes_of_all(made)


def called(changes: list[Change]) -> bool:
    return any(change.verdict in ("better", "worse") for change in changes)


def allowed(nights: int) -> float:
    """So many calls are within chance at the level that is promised: one of a hundred of 1 000 nights."""
    expected = nights * SIMULATED.false_alarms
    return expected + 2.24 * expected**0.5


SMALL, THREE = Truth(neutral=1.0, seeds=5, configurations=2), Truth(neutral=1.0, seeds=3, configurations=1)
SHORT = [(Truth(neutral=1.0), 200), (SMALL, 200)]
LONG = (Truth(neutral=1.0), Truth(neutral=1.0, redrawn=0.1), Truth(neutral=0, nightly=1.0), SMALL, THREE)


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "count"), rest_is_full([*SHORT, *((truth, 1000) for truth in LONG)], SHORT))
def test_scores_are_called_without_a_cause_in_one_night_of_a_hundred_at_most(truth, count):
    """Each second night brings other code to a first night of its own: what was called once is called until there is
    other code, so that nights of one history are no thousand."""
    draw = np.random.default_rng(0)
    assert sum(called(simulate(truth, 2, draw)[1]) for _ in range(count)) <= allowed(count)


@pytest.mark.slow
@pytest.mark.parametrize("count", rest_is_full([200, 1000], [200]))
def test_timings_are_called_without_a_cause_in_one_night_of_a_hundred_at_most(count):
    truth, draw, calls = Truth(seeds=5, configurations=1, neutral=0), np.random.default_rng(0), 0
    for _ in range(count // AFTER):
        calls += sum(map(called, simulate(truth, SIMULATED.window + AFTER, draw)[SIMULATED.window :]))
    assert calls <= allowed(count)


STEPS = [
    (Truth(), 1, PANEL, 0.95, 70),  # the step draws every seed's noise anew
    (Truth(stepping=1, redrawn=0.2), -1, "0", 0.95, 70),
    (Truth(), 1, PANEL, 0.95, 200),
    (Truth(), -1, PANEL, 0.95, 200),
    (Truth(seeds=5, redrawn=0.02), -1, PANEL, 0.95, 200),
    (Truth(stepping=1, redrawn=0.2), -1, "0", 0.95, 200),
    (Truth(neutral=0, nightly=1.0), -1, PANEL, 0.7, 200),
]


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "sign", "row", "power", "tries"), rest_is_full(STEPS, STEPS[:2]))
def test_a_step_of_one_standard_deviation_is_called_on_the_second_night(truth, sign, row, power, tries):
    draw, planted = np.random.default_rng(1), replace(truth, step=float(sign), at=1)
    verdicts = [
        next(c.verdict for c in simulate(planted, 2, draw)[1] if (c.score, c.row) == ("test.accuracy", row))
        for _ in range(tries)
    ]
    right, wrong = ("better", "worse")[:: 1 if sign > 0 else -1]
    assert verdicts.count(right) >= power * tries and wrong not in verdicts


@pytest.mark.slow
@pytest.mark.parametrize("tries", rest_is_full([20, 60], [20]))
def test_a_machine_that_became_half_as_fast_is_called_within_three_nights(tries):
    draw, at = np.random.default_rng(2), SIMULATED.window + 1
    slower, seen = Truth(slowdown=1.0, at=at, neutral=0), dict.fromkeys(TIMINGS, 0)
    for _ in range(tries):
        after = [change for changes in simulate(slower, at + 3, draw)[at:] for change in changes]
        for name in seen:
            seen[name] += any(change.score == name and change.verdict == "worse" for change in after)
    assert min(seen.values()) >= 0.95 * tries, seen
