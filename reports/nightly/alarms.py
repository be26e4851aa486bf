"""How often the nightly test errs, on comparisons that cannot hold anything: the same configurations at other seeds."""

import math
from collections.abc import Sequence

import numpy as np

from reports.nightly.evidence import compare_nights
from reports.nightly.holm import holm
from reports.nightly.measured import Metric, Night, complete_values, step_of
from reports.nightly.settings import Nightly
from reports.nightly.verdict import LOOKS

FEWEST = 2  # pairs of seeds


def false_alarms(nights: Sequence[Night], metrics: Sequence[Metric], settings: Nightly) -> tuple[int, int]:
    """Nights in which a metric of the panel would have been suspected, and the nights in which one could have been.

    One half of the seeds less the other half: whatever a change does to a metric, it does to both.
    """
    measured: dict[tuple[str, str], list[np.ndarray]] = {}
    alarms = judged = 0
    for night in nights:
        p = []
        for metric in (metric for metric in metrics if not metric.is_part):
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
                step = step_of(night.document.get("texts", {}), metric)
                looks = [compare_nights(window, np.stack(since[-k:]), step).p for k in LOOKS if k <= len(since)]
                if tested := [p_value for p_value in looks if not math.isnan(p_value)]:
                    p.append(min(1.0, len(looks) * min(tested)))
        judged += bool(p)
        alarms += bool(p) and bool((holm(np.array(p)) <= settings.false_alarms).any())
    return alarms, judged


def halves(values: np.ndarray) -> np.ndarray:
    half = len(values) // 2
    return values[:half] - values[half : 2 * half]
