"""How often the nightly verdict errs, and how often it sees what is there, over simulated nights."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from reports.nightly.alarms import false_alarms, repeated
from reports.nightly.judgement import Judgement
from reports.nightly.measured import AT, Metric, Night, Rules
from reports.nightly.settings import TIMINGS, Nightly
from reports.nightly.verdict import judge_nights
from tests.tiers import rest_is_full

pytestmark = pytest.mark.slow
SETTINGS = Nightly(quality={"test.accuracy": 0.003, "test.svm_accuracy": 0.003}, speed=0.05)
TEXTS = {"test.accuracy": 300, "test.svm_accuracy": 300}
SEED_NOISE = 0.02  # standard deviation of a seed's score
LEVELS = {"test.accuracy": 0.6, "test.svm_accuracy": 0.55}


@dataclass(frozen=True)
class Truth:
    """How nights come about.

    `neutral`: how often a night brings code that only reorders sums; it redraws `redrawn` of every seed's noise, which
    then stays the same until the next such night: all others have the same bits. `nightly`: noise of each night anew,
    as a share of a seed's. A step comes at night `at`, in standard deviations of a seed's noise, in all configurations
    or the first `stepping` ones, and redraws as neutral code does.
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


def metrics(truth: Truth) -> list[Metric]:
    parts = [f"{name}{AT}{part}" for name in SETTINGS.quality for part in range(truth.configurations)]
    return [
        *(Metric(name, True, SETTINGS.quality[name.partition(AT)[0]]) for name in (*SETTINGS.quality, *parts)),
        *(Metric(name, higher, SETTINGS.speed) for name, higher in TIMINGS.items()),
    ]


def judged(nights: list[Night], truth: Truth) -> list[list[Judgement]]:
    return judge_nights(nights, [Rules(metrics(truth), SETTINGS)] * len(nights))


def simulate(truth: Truth, nights: int, draw: np.random.Generator) -> list[Night]:
    shape = (len(SETTINGS.quality), truth.configurations, truth.seeds)
    seeds = draw.normal(size=(len(SETTINGS.quality), 1, truth.seeds))  # what a seed does to all configurations
    code, made = draw.normal(size=shape), []
    for number in range(nights):
        if draw.random() < truth.neutral or (truth.step and number == truth.at):
            code = (1 - truth.redrawn) ** 0.5 * code + truth.redrawn**0.5 * draw.normal(size=shape)
        shift = np.zeros((1, truth.configurations, 1))
        shift[:, : truth.stepping] = truth.step if number >= truth.at else 0.0
        scores = quality(0.5 * seeds + code + shift + truth.nightly * draw.normal(size=shape))
        slower = truth.slowdown if number >= truth.at else 0.0
        made.append(Night(str(number), "one", scores | timings(truth, slower, draw), {"texts": TEXTS}))
    return made


def quality(noise: np.ndarray) -> dict[str, np.ndarray]:
    found = {}
    for name, rows in zip(SETTINGS.quality, noise, strict=True):
        values = LEVELS[name] + SEED_NOISE * rows
        found[name] = values.mean(0)
        found |= {f"{name}{AT}{part}": row for part, row in enumerate(values)}
    return found


def timings(truth: Truth, slower: float, draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Heavy tails both of nights, which slow everything at once, and of single measurements."""
    night = 0.03 * draw.standard_t(3)
    found = {}
    for name, higher in TIMINGS.items():
        count = truth.seeds if name != "report_seconds" else 5
        noise = night + 0.02 * draw.standard_t(3) + 0.05 * draw.standard_t(3, size=count) + np.log1p(slower)
        found[name] = np.exp(-noise if higher else noise)
    return found


CALLED = ("improved", "regressed")
AFTER = 20  # nights after the window, in a history


def allowed(nights: int) -> float:
    """So many calls are within chance at the level that is promised: one of a hundred of 1 000 nights."""
    expected = nights * SETTINGS.false_alarms
    return expected + 2.24 * expected**0.5


SMALL, THREE = Truth(neutral=1.0, seeds=5, configurations=2), Truth(neutral=1.0, seeds=3, configurations=1)
SHORT = [(Truth(neutral=1.0), 200), (SMALL, 200)]
LONG = (Truth(neutral=1.0), Truth(neutral=1.0, redrawn=0.1), Truth(neutral=0, nightly=1.0), SMALL, THREE)


@pytest.mark.parametrize(("truth", "count"), rest_is_full([*SHORT, *((truth, 1000) for truth in LONG)], SHORT))
def test_scores_are_called_without_a_cause_in_one_night_of_a_hundred_at_most(truth, count):
    """Each second night brings other code to a first night of its own: what was called once is called until there is
    other code, so that nights of one history are no thousand."""
    draw = np.random.default_rng(0)
    second = [judged(simulate(truth, 2, draw), truth)[1] for _ in range(count)]
    assert sum(any(said.verdict in CALLED for said in night) for night in second) <= allowed(count)


@pytest.mark.parametrize("count", rest_is_full([200, 1000], [200]))
def test_timings_are_called_without_a_cause_in_one_night_of_a_hundred_at_most(count):
    truth, draw, calls = Truth(seeds=5, configurations=1, neutral=0), np.random.default_rng(0), 0
    for _ in range(count // AFTER):
        nights = judged(simulate(truth, SETTINGS.window + AFTER, draw), truth)[SETTINGS.window :]
        calls += sum(any(said.verdict in CALLED for said in night) for night in nights)
    assert calls <= allowed(count)


STEPS = [
    (Truth(), 1, "test.accuracy", 0.95, 70),  # the step draws every seed's noise anew
    (Truth(stepping=1, redrawn=0.2), -1, "test.accuracy @ 0", 0.95, 70),
    (Truth(), 1, "test.accuracy", 0.95, 200),
    (Truth(), -1, "test.accuracy", 0.95, 200),
    (Truth(seeds=5, redrawn=0.02), -1, "test.accuracy", 0.95, 200),
    (Truth(stepping=1, redrawn=0.2), -1, "test.accuracy @ 0", 0.95, 200),
    (Truth(neutral=0, nightly=1.0), -1, "test.accuracy", 0.7, 200),
]


@pytest.mark.parametrize(("truth", "sign", "name", "power", "tries"), rest_is_full(STEPS, STEPS[:2]))
def test_a_step_of_one_standard_deviation_is_called_on_the_second_night(truth, sign, name, power, tries):
    draw, planted = np.random.default_rng(1), replace(truth, step=float(sign), at=1)
    verdicts = [
        next(said.verdict for said in judged(simulate(planted, 2, draw), planted)[1] if said.metric.name == name)
        for _ in range(tries)
    ]
    assert verdicts.count("improved" if sign > 0 else "regressed") >= power * tries
    assert ("regressed" if sign > 0 else "improved") not in verdicts


@pytest.mark.parametrize("tries", rest_is_full([20, 60], [20]))
def test_a_machine_that_became_half_as_fast_is_called_within_three_nights(tries):
    draw, at = np.random.default_rng(2), SETTINGS.window + 1
    slower = Truth(slowdown=1.0, at=at, neutral=0)
    seen = {"training_seconds": 0, "texts_per_second": 0}
    for _ in range(tries):
        nights = judged(simulate(slower, at + 3, draw), slower)[at:]
        for name in seen:
            of_name = [said for night in nights for said in night if said.metric.name == name]
            seen[name] += any(said.verdict == "regressed" for said in of_name)
    assert min(seen.values()) >= 0.95 * tries, seen


@pytest.mark.full
def test_the_rate_on_comparisons_that_hold_nothing_is_the_allowed_one_also_while_something_changes():
    draw, alarms, looked = np.random.default_rng(3), 0, 0
    for _ in range(25):
        truth = Truth(slowdown=1.0, at=20)
        counts = false_alarms(simulate(truth, SETTINGS.window + AFTER, draw), metrics(truth), SETTINGS)
        alarms, looked = alarms + counts[0], looked + counts[1]
    assert looked == 25 * AFTER and alarms <= looked / 40  # before any confirmation, and of three looks the best


def test_nights_of_one_commit_that_differ_in_a_bit_are_counted():
    commits = ["a", "a", "b", "b", "b+", "b+", ""]
    same = simulate(Truth(neutral=0), len(commits), np.random.default_rng(0))
    nights = [replace(night, document={"commit": commit}) for night, commit in zip(same, commits, strict=True)]
    assert repeated(nights, metrics(Truth())) == (2, 2)
    nights[3] = replace(nights[3], values=nights[3].values | {"test.accuracy @ 0": np.zeros(20)})
    assert repeated(nights, metrics(Truth())) == (1, 2)
