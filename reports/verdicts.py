"""What a comparison shows, and how large a difference it would have needed."""

import math
from typing import Any, Literal

import pandas as pd

from reports.statistics import ALPHA, POWER, Difference, detectable, pooled

LIMITS = {"accuracy": (0, 1), "f1": (0, 1), "nmi": (0, 1), "ari": (-1, 1), "precision": (0, 1), "map": (0, 1)}
Verdict = Literal["better", "worse", "not shown", "impossible", "not comparable", "baseline", ""]


def smallest_differences(
    frame: pd.DataFrame, differences: dict[Any, Difference], hypotheses: int
) -> dict[str, float | None]:
    """Of each value, at the strictest step of Holm, with the variance of all its comparisons taken together."""
    values = frame["value"].tolist()
    of_value: dict[str, list[Difference]] = {}
    for position, difference in differences.items():
        of_value.setdefault(values[position], []).append(difference)
    spreads = {value: pooled(group) for value, group in of_value.items()}
    alpha = ALPHA / max(1, hypotheses)
    return {value: None if spread is None else detectable(spread, alpha, POWER) for value, spread in spreads.items()}


def verdict(line: dict[Any, Any], smallest: float | None) -> Verdict:
    if not math.isfinite(line["p_holm"]):
        return "impossible"
    if line["p_holm"] < ALPHA and line["difference"] != 0:
        return "better" if (line["difference"] > 0) == line["higher"] else "worse"
    return "impossible" if beyond_reach(line, smallest) else "not shown"


def beyond_reach(line: dict[Any, Any], smallest: float | None) -> bool:
    """Whether the smallest difference that would be found is larger than any that there can be."""
    name = line["value"].rpartition(".")[2]
    bounds = next((limits for kind, limits in LIMITS.items() if name.endswith(kind)), None)
    if smallest is None or bounds is None:
        return False
    baseline = line["mean"] - line["difference"]
    return smallest > max(bounds[1] - baseline, baseline - bounds[0])
