"""What a comparison shows, from its interval and from the margin of what matters."""

import math
from typing import Literal

Verdict = Literal[
    "better", "worse", "equivalent", "undecided", "one seed", "no spread", "not comparable", "baseline", ""
]
DECIDED = ("better", "worse", "equivalent")
TESTED = (*DECIDED, "undecided")
COMPARED = (*TESTED, "one seed", "no spread", "not comparable")


def verdict(difference: float, half_width: float, higher: bool, margin: float | None, seeds: int) -> Verdict:
    """`seeds` are those that both rows have."""
    if not math.isfinite(half_width):
        return "one seed" if seeds < 2 else "no spread"
    low, high = difference - half_width, difference + half_width
    if low > 0 or high < 0:
        return "better" if (low > 0) == higher else "worse"
    return "equivalent" if margin is not None and max(-low, high) < margin else "undecided"


def matters_little(difference: float, half_width: float, margin: float | None) -> bool:
    """Whether the whole interval lies within the margin."""
    return margin is not None and math.isfinite(half_width) and abs(difference) + half_width < margin
