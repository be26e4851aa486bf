"""The order in which cells train, and the makespan of an order.

Cells of the same data and encoder follow one another, so that a process can reuse what it has loaded.
"""

import heapq
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from contrastive.config.cell import Cell
from contrastive.grid.estimate import CostEstimator

UNKNOWN = 1e12  # seconds


def in_order(cells: Iterable[Cell], fit: CostEstimator) -> list[Cell]:
    """Sort by total time of the same data and encoder, then by time, longest first; unknown times come first."""
    families: dict[Hashable, list[tuple[float, Cell]]] = {}
    for cell in cells:
        seconds = fit.seconds(cell)
        rank = UNKNOWN + fit.work(cell) if seconds is None else seconds
        families.setdefault((cell.data, cell.encoder.model), []).append((rank, cell))
    longest_first = sorted(families.values(), key=lambda family: sum(rank for rank, _ in family), reverse=True)
    return [cell for family in longest_first for _, cell in sorted(family, key=lambda ranked: ranked[0], reverse=True)]


class CellTime(NamedTuple):
    """Seconds of training and evaluation of a cell, and the devices and threads per device of its training."""

    train: float
    evaluate: float
    devices: int = 1
    threads: int = 1


def makespan(times: Iterable[CellTime], slots: int, evaluators: int = 0) -> float:
    """Return seconds from the first start to the last end, with cells in this order. `evaluators`: number of slots for
    evaluation alone; 0 if it occupies a training slot."""
    free, evaluate = [0.0] * slots, 0.0
    for time in times:
        taken = [heapq.heappop(free) for _ in range(min(time.devices, slots))]
        for _ in taken:
            heapq.heappush(free, max(taken) + time.train + (0.0 if evaluators else time.evaluate))
        evaluate += time.evaluate
    return max(*free, evaluate / evaluators) if evaluators else max(free)
