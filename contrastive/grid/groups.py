"""Group cells that train in one process and share passes of frozen blocks, order the groups, and estimate the makespan.

Groups of the same data and encoder start one after another, so that a process can reuse what it has loaded."""

import heapq
import math
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from contrastive.config.cell import Cell
from contrastive.data.locate import separable_blocks
from contrastive.grid import frozen_readers
from contrastive.grid.estimate import CostEstimator
from contrastive.grid.identity import pass_settings

UNKNOWN = 1e12  # seconds
AT_MOST = 8  # cells of a group; more save almost nothing, and devices wait longer for the last group


def group_cells(cells: Iterable[Cell], fit: CostEstimator, slots: int, room: int | None) -> list[list[Cell]]:
    """Divide cells that share passes into equal groups that keep all slots busy and fit in memory.

    `room`: bytes per slot. Groups of the same data and encoder follow one another, the longest first.
    """
    sharing: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        sharing.setdefault(sharing_key(cell, fit), []).append(cell)
    together = sum(len(group) for group in sharing.values() if len(group) > 1)
    most = fit.speed.together or min(AT_MOST, max(1, together // slots))
    parts = list[list[Cell]]()
    for group in sharing.values():
        count = math.ceil(len(group) / min(most, max_group_size(group, fit, room)))
        parts += [group[len(group) * part // count : len(group) * (part + 1) // count] for part in range(count)]
    return order_groups(parts, fit)


def sharing_key(cell: Cell, fit: CostEstimator) -> Hashable:
    """Return a key that is equal for cells whose frozen blocks compute the same passes, else unique to the cell."""
    no_passes = fit.speed.reuse == "none" or frozen_readers.trains_from_store(cell, fit.speed)
    if no_passes or cell.training.processes > 1 or separable_blocks(cell) == 0:
        return id(cell)
    return pass_settings(cell)


def max_group_size(group: list[Cell], fit: CostEstimator, room: int | None) -> int:
    """Return how many of these cells fit in `room` bytes, at least 1."""
    if room is None or len(group) == 1:
        return AT_MOST if fit.speed.together is None else fit.speed.together
    largest = max(map(fit.own, group))
    return max(1, int((room - fit.shared(group[0])) // max(1, largest)))


def order_groups(parts: list[list[Cell]], fit: CostEstimator) -> list[list[Cell]]:
    """Sort by total time of the same data and encoder, then by time, longest first; unknown times come first."""
    families: dict[Hashable, list[tuple[float, list[Cell]]]] = {}
    for part in parts:
        longest = sum(rank_seconds(cell, len(part), fit) for cell in part)
        families.setdefault((part[0].data, part[0].encoder.model), []).append((longest, part))
    longest_first = sorted(families.values(), key=lambda family: sum(time for time, _ in family), reverse=True)
    return [part for family in longest_first for _, part in sorted(family, key=lambda timed: timed[0], reverse=True)]


def rank_seconds(cell: Cell, together: int, fit: CostEstimator) -> float:
    """Return the sort key of a cell: expected seconds; cells of unknown encoders sort first, largest first."""
    seconds = fit.seconds(cell, together)
    return UNKNOWN + fit.work(cell) if seconds is None else seconds


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
