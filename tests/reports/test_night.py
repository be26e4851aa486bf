"""What is said of nights made by hand: verdicts, the page, and how often verdicts err over simulated nights."""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from reports.night import (
    PANEL,
    TIMINGS,
    Night,
    NightSettings,
    NightVerdict,
    comparable,
    judge_all,
    write_against,
    write_nights,
)
from tests.tiers import rest_is_full

SETTINGS = NightSettings(window=3, quality={"test.accuracy": 0.01}, speed=0.1)
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


def last(*nights: Night, row: str = "ce", name: str = "") -> str:
    """Return what the last of these nights says of a score or timing."""
    return kind_of(judge_all(nights)[-1], name or f"accuracy (test) of {row}")


def kind_of(verdict: NightVerdict, name: str) -> str:
    return next((kind for kind, names in verdict.names.items() if name in map(str, names)), "")


@pytest.mark.parametrize(
    ("tonight", "kind"),
    [
        (SEEDS, "same"),
        (SEEDS + 1e-16, "same"),  # the last digit
        (SEEDS - 0.05 + WOBBLE, "worse"),
        (SEEDS + 0.05 + WOBBLE, "better"),
        (SEEDS - 0.002 + 0.5 * WOBBLE, "equivalent"),
        (SEEDS - 0.015 + 12 * WOBBLE, "undecided"),
        (SEEDS - 0.015 + 8 * WOBBLE, "possibly worse"),
        (np.where(np.arange(6) == 2, np.nan, SEEDS), "not measured"),
    ],
)
def test_the_second_night_is_judged_in_the_words_of_all_reports(tonight, kind):
    verdict = judge_all([night(), night(tonight)])[-1]
    assert kind_of(verdict, "accuracy (test) of ce") == kind
    assert bool(verdict.failing) == (kind in ("worse", "not measured"))


def test_configurations_share_a_p_and_the_mean_of_all_has_its_own():
    draw = np.random.default_rng(0)
    then = dict.fromkeys("abc", SEEDS)
    now = {name: SEEDS + (0.01 * draw.normal(size=6) + 0.02 if name != "c" else 0) for name in "abc"}
    verdict = judge_all([night(rows=then), night(rows=now)])[-1]
    assert kind_of(verdict, "accuracy (test) of c") == "same"
    (compared,) = [each for score, each in verdict.sections[1].comparisons if score.row.label == "a"]
    p = stats.ttest_rel(now["a"], then["a"]).pvalue
    assert compared.p == pytest.approx(2 * p, rel=0.2)  # a and b


def test_a_loss_is_worse_where_it_is_higher_by_the_direction_of_the_earlier_night():
    """Code that turns a direction round makes no improvement of a loss."""
    loss = {"test.accuracy": False}
    worse = night(SEEDS + 0.05 + WOBBLE, higher={"test.accuracy": True})
    assert last(night(higher=loss), worse) == "worse"


def test_a_seed_that_the_first_night_lacks_takes_part_in_no_comparison_and_hides_no_loss():
    first = night([None, *SEEDS[1:]], rows={"ce": [None, *SEEDS[1:]], "other": SEEDS})
    worse = night(rows={"ce": SEEDS - 0.05 + WOBBLE, "other": SEEDS})
    assert last(first, worse) == "worse"
    assert last(night(SEEDS[:3]), night(SEEDS - 0.05 + 0.1 * WOBBLE)) == "worse"
    nothing = night([None] * 6)
    verdict = judge_all([nothing, night()])[-1]
    assert str(verdict.headline) == "1 not comparable (accuracy (test) of ce)" and not verdict.failing


def test_recipes_with_other_numbers_of_seeds_have_no_common_mean():
    unequal = {"ce": SEEDS, "short": SEEDS[:4]}
    then, now = night(rows=unequal), night(rows=unequal | {"ce": SEEDS - 0.05 + WOBBLE})
    assert last(then, now) == "worse" and then.values("test.accuracy", PANEL) is None and PANEL not in then.rows


def test_what_was_not_measured_fails_the_night():
    empty = replace(night(), scores={}, timings={})
    failing = judge_all([night(), empty])[-1].failing
    assert len(failing) == 1 + len(TIMINGS) and all(kind == "not measured" for kind, _name in failing)


def test_the_first_night_of_an_environment_is_what_scores_are_compared_with_until_one_is_acknowledged():
    """A decline of a little each night is seen, which a comparison with last night would never do."""
    nights = [night(SEEDS - 0.004 * number + 0.1 * WOBBLE * number) for number in range(12)]
    assert last(*nights[:2]) == "equivalent" and last(*nights) == "worse"
    nights[10] = replace(nights[10], acknowledged="a smaller model")
    assert last(*nights) == "equivalent" and last(*nights[:11]) == "worse"
    other = night(SEEDS - 0.2, environment={"python": "4"})
    assert last(*nights, other) == "" and last(*nights, other, other) == "same"
    assert comparable([*nights, other, nights[0]], 13)[0] is nights[10]


def test_a_timing_is_slower_where_two_nights_stand_out_of_the_window():
    window = [night(seconds=10 * (1 + drift)) for drift in (0, 0.001, -0.001)]
    slow, usual = night(seconds=20), night()

    def slower(*nights: Night) -> list[str]:
        return [str(name) for name in judge_all([*window, *nights])[-1].names["slower"]]

    assert not slower() and not slower(usual) and not slower(usual, usual) and not slower(usual, slow)
    assert slower(slow, slow) == ["training seconds", "texts per second"]
    assert not slower(night(seconds=5), night(seconds=5))


def test_the_page_says_what_is_worse_since_when_and_what_was_acknowledged(tmp_path):
    nights = [night(number=1), night(number=2), night(SEEDS - 0.05 + WOBBLE, number=3, failed=["ce, seed 1: failed"])]
    path, verdict = write_nights(nights, tmp_path)
    page = path.read_text()
    assert page.startswith("# Nightly: 1 worse (accuracy (test) of ce)\n")
    assert "Compared with the night of 2026-01-01, commit c1." in page and "- ce, seed 1: failed" in page
    assert "| ce, c1 (baseline) | " in page and re.search(r"\| ce \| [^|]+ \| ▼ worse −5.00 ± ", page)
    assert "did not fail\n\n- c3 work\n" in page and "c2 work" not in page
    assert [str(name) for _kind, name in verdict.failing] == ["accuracy (test) of ce"]
    assert "▼ worse" in (tmp_path / "scores" / "README.md").read_text()
    nights[2] = replace(nights[2], acknowledged="a smaller *model*")
    moved = night(number=4, environment={"python": "4"})
    page = write_nights([*nights, moved], tmp_path)[0].read_text()
    assert r"; acknowledged: a smaller \*model\* |" in page and "first night of its environment" in page


def test_a_page_against_a_commit_has_no_timing(tmp_path):
    path, verdict = write_against(night(), night(SEEDS - 0.05 + WOBBLE, seconds=99, number=2), tmp_path)
    page = path.read_text()
    assert page.startswith("# Against c1: 1 worse (accuracy") and "training" not in page and "- c2 work" in page
    assert verdict.failing


SIMULATED = NightSettings(quality={"test.accuracy": 0.003, "test.svm_accuracy": 0.003}, speed=0.05)
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


def simulate(truth: Truth, nights: int, draw: np.random.Generator) -> list[NightVerdict]:
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
    return judge_all(made)


def called(verdict: NightVerdict) -> bool:
    return bool(verdict.failing)


def allowed(nights: int) -> float:
    """So many calls are within chance at the level that is promised: one of a hundred of 1 000 nights."""
    expected = nights * SIMULATED.false_alarms
    return expected + 2.24 * expected**0.5


SMALL, THREE = Truth(neutral=1.0, seeds=5, configurations=2), Truth(neutral=1.0, seeds=3, configurations=1)
SHORT = [(Truth(neutral=1.0), 100), (SMALL, 100)]
LONG = (Truth(neutral=1.0), Truth(neutral=1.0, redrawn=0.1), Truth(neutral=0, nightly=1.0), SMALL, THREE)


@pytest.mark.parametrize(("truth", "count"), rest_is_full([*SHORT, *((truth, 1000) for truth in LONG)], SHORT))
def test_scores_are_called_without_a_cause_in_one_night_of_a_hundred_at_most(truth, count):
    """Each second night brings other code to a first night of its own: what was called once is called until there is
    other code, so that nights of one history are no thousand."""
    draw = np.random.default_rng(0)
    assert sum(called(simulate(truth, 2, draw)[1]) for _ in range(count)) <= allowed(count)


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


@pytest.mark.parametrize(("truth", "sign", "row", "power", "tries"), rest_is_full(STEPS, STEPS[:2]))
def test_a_step_of_one_standard_deviation_is_called_on_the_second_night(truth, sign, row, power, tries):
    draw, planted = np.random.default_rng(1), replace(truth, step=float(sign), at=1)
    verdicts = [kind_of(simulate(planted, 2, draw)[1], f"accuracy (test) of {row}") for _ in range(tries)]
    right, wrong = ("better", "worse")[:: 1 if sign > 0 else -1]
    assert verdicts.count(right) >= power * tries and wrong not in verdicts


@pytest.mark.parametrize("tries", rest_is_full([20, 60], [20]))
def test_a_machine_that_became_half_as_fast_is_called_within_three_nights(tries):
    draw, at = np.random.default_rng(2), SIMULATED.window + 1
    slower, seen = Truth(slowdown=1.0, at=at, neutral=0), dict.fromkeys(("training seconds", "texts per second"), 0)
    for _ in range(tries):
        after = [name for verdict in simulate(slower, at + 3, draw)[at:] for name in verdict.names["slower"]]
        for name in seen:
            seen[name] += name in after
    assert min(seen.values()) >= 0.95 * tries, seen
