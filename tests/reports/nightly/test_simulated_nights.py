"""How often the nightly verdict errs, and how often it sees what is there, over simulated nights."""

from dataclasses import replace

import numpy as np
import pytest

from reports.nightly.alarms import false_alarms
from tests.reports.nightly.nights import SETTINGS, Truth, judged, metrics, simulate

pytestmark = pytest.mark.slow
CALLED = ("improved", "regressed")
AFTER = 20  # nights after the window, in a history
HISTORIES = 25  # an alarm without a cause stays until other code comes


@pytest.mark.parametrize(
    "truth",
    [
        Truth(),
        Truth(neutral=0.05, redrawn=0.1),
        Truth(neutral=0, nightly=1.0),
        Truth(seeds=6, configurations=2),
    ],
    ids=["neutral code, drawn anew", "neutral code, small changes", "each run its own numbers", "a small panel"],
)
def test_at_most_one_night_in_a_hundred_is_called_without_a_cause(truth):
    draw = np.random.default_rng(0)
    nights = [
        night
        for _ in range(HISTORIES)
        for night in judged(simulate(truth, SETTINGS.window + AFTER, draw), truth)[SETTINGS.window :]
    ]
    assert len(nights) == HISTORIES * AFTER
    assert sum(any(one.verdict in CALLED for one in night) for night in nights) <= len(nights) / 100


@pytest.mark.parametrize(
    ("truth", "sign"),
    [
        (Truth(), 1),  # the step draws every seed's noise anew
        (Truth(), -1),
        (Truth(neutral=1.0), -1),
        (Truth(neutral=0, nightly=1.0), -1),
        (Truth(seeds=5, neutral=0.1, redrawn=0.02), -1),
    ],
    ids=["better", "worse", "each night its own code", "each run its own numbers", "five seeds that stay alike"],
)
def test_a_step_of_one_standard_deviation_is_called_within_three_nights(truth, sign):
    draw, tries, seen, at = np.random.default_rng(1), 50, 0, SETTINGS.window + 1
    planted = replace(truth, step=float(sign), at=at)
    for _ in range(tries):
        nights = judged(simulate(planted, at + 3, draw), planted)[at:]
        verdicts = {one.verdict for night in nights for one in night if one.metric.name == "test.accuracy"}
        seen += ("improved" if sign > 0 else "regressed") in verdicts
        assert ("regressed" if sign > 0 else "improved") not in verdicts
    assert seen / tries >= 0.95, seen


def test_a_machine_that_became_half_as_fast_is_called_within_three_nights():
    draw, tries, at = np.random.default_rng(2), 60, SETTINGS.window + 1
    slower = Truth(slowdown=1.0, at=at)
    seen = {"training_seconds": 0, "texts_per_second": 0}
    for _ in range(tries):
        nights = judged(simulate(slower, at + 3, draw), slower)[at:]
        for name in seen:
            seen[name] += any(
                one.verdict == "regressed" for night in nights for one in night if one.metric.name == name
            )
    assert min(seen.values()) >= 0.95 * tries, seen


def test_the_rate_on_comparisons_that_hold_nothing_is_the_allowed_one_also_while_something_changes():
    draw, alarms, looked = np.random.default_rng(3), 0, 0
    for _ in range(HISTORIES):
        truth = Truth(step=-2.0, at=20)
        found = false_alarms(simulate(truth, SETTINGS.window + AFTER, draw), metrics(truth), SETTINGS)
        alarms, looked = alarms + found[0], looked + found[1]
    assert looked == HISTORIES * AFTER and alarms <= looked / 40  # before any confirmation, and of three looks the best
