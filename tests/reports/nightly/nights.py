"""Simulated nights: what a panel would have measured under a known truth."""

from dataclasses import dataclass

import numpy as np

from reports.nightly.judgement import Judgement
from reports.nightly.measured import AT, Metric, Night, Rules
from reports.nightly.settings import TIMINGS, Nightly
from reports.nightly.verdict import judge_nights

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
