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


def makespan(parts: Iterable[CellTime], slots: int, evaluators: int = 0) -> float:
    """Return seconds from the first start to the last end, with cells in this order; without `evaluators`, evaluation
    occupies a training slot."""
    free = [0.0] * slots
    trained = []
    for part in parts:
        taken = [heapq.heappop(free) for _ in range(min(part.devices, slots))]
        end = max(taken) + part.train
        trained.append((end, part.evaluate))
        for number in range(len(taken)):
            heapq.heappush(free, end + (part.evaluate if not evaluators and number == 0 else 0.0))
    if not evaluators:
        return max(free)
    idle = [0.0] * evaluators
    for end, seconds in sorted(trained):
        heapq.heappush(idle, max(heapq.heappop(idle), end) + seconds)
    return max(idle)
