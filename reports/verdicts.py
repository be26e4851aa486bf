"""What a comparison shows, from its interval and from the margin of what matters."""

import math
from typing import Literal

Verdict = Literal[
    "better", "worse", "equivalent", "undecided", "one seed", "no spread", "not comparable", "too early", "baseline", ""
]
DECIDED = ("better", "worse", "equivalent")
TESTED = (*DECIDED, "undecided")


def verdict(difference: float, half_width: float, higher: bool, margin: float | None, seeds: int) -> Verdict:
    """`seeds` are those that both rows have."""
    if not math.isfinite(half_width):
        return "one seed" if seeds < 2 else "no spread"
    if margin is not None and abs(difference) + half_width < margin:
        return "equivalent"
    sign = side(difference, half_width, higher)
    return "undecided" if sign == 0 else "better" if sign > 0 else "worse"


def side(difference: float, half_width: float, higher: bool) -> int:
    """1 where the interval says better, −1 where it says worse, whether or not that matters; 0 where it holds 0."""
    if not math.isfinite(half_width) or abs(difference) <= half_width:
        return 0
    return 1 if (difference > 0) == higher else -1
