"""How often the nightly verdict errs, and how often it sees what is there, over simulated nights."""

from dataclasses import replace

import numpy as np
import pytest

from reports.nightly.alarms import false_alarms, repeated
from tests.reports.nightly.nights import SETTINGS, Truth, judged, metrics, simulate
from tests.tiers import rest_is_full

pytestmark = pytest.mark.slow
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


def test_scores_of_the_same_bits_are_unchanged_from_the_second_night_on():
    truth = Truth(neutral=0)
    nights = judged(simulate(truth, 12, np.random.default_rng(0)), truth)
    scores = [{said.verdict for said in night if not said.metric.is_timing} for night in nights]
    assert scores == [{"inconclusive"}, *[{"unchanged"}] * 11]


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
            seen[name] += any(
                said.verdict == "regressed" for night in nights for said in night if said.metric.name == name
            )
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
