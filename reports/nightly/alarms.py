"""How often the nightly verdict errs, on comparisons that cannot hold anything."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from reports.nightly.evidence import compare_nights
from reports.nightly.measured import Metric, Night, complete_values
from reports.nightly.settings import Nightly
from reports.nightly.timings import LOOKS

FEWEST = 2  # pairs of cells


def repeated(nights: Sequence[Night], metrics: Sequence[Metric]) -> tuple[int, int]:
    """Nights of the same commit and environment as the night before, and how many of them have the same bits in every
    score: elsewhere scores move by themselves."""
    scores, same, repeats = [metric.name for metric in metrics if not metric.is_timing], 0, 0
    for before, night in pairwise(nights):
        commit = night.document["commit"]
        if night.epoch != before.epoch or commit != before.document["commit"] or commit.endswith("+") or not commit:
            continue
        repeats += 1
        same += all(
            np.array_equal(night.values.get(name, ()), before.values.get(name, ()), equal_nan=True) for name in scores
        )
    return same, repeats


def false_alarms(nights: Sequence[Night], metrics: Sequence[Metric], settings: Nightly) -> tuple[int, int]:
    """Nights in which a timing would have been suspected, and the nights in which one could have been.

    One half of the cells less the other half: whatever slows the one slows the other.
    """
    measured: dict[tuple[str, str], list[np.ndarray]] = {}
    alarms = judged = 0
    for night in nights:
        p = []
        for metric in (metric for metric in metrics if metric.is_timing):
            values = complete_values(night.values, metric)
            if values is None or len(values) < 2 * FEWEST:
                continue
            rows = measured.setdefault((night.epoch, metric.name), [])
            apart = halves(metric.scaled(values))
            if rows and apart.shape != rows[0].shape:
                continue
            rows.append(apart)
            if len(rows) > settings.window:
                window, since = np.stack(rows[: settings.window]), rows[settings.window :]
                looks = [compare_nights(window, np.stack(since[-k:])).p for k in LOOKS if k <= len(since)]
                p += [len(looks) * min(tests)] if (tests := [value for value in looks if not math.isnan(value)]) else []
        judged += bool(p)
        alarms += bool(p) and len(p) * min(p) <= settings.false_alarms
    return alarms, judged


def halves(values: np.ndarray) -> np.ndarray:
    half = len(values) // 2
    return values[:half] - values[half : 2 * half]
