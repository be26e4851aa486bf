"""Which cells train together in one process, those that share the passes of their frozen blocks; in which order they
begin, so that what a process has read stays of use; and how long all of them take where several run at a time."""

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
AT_MOST = 8  # from there on, a further cell of a group saves nearly nothing, and devices wait longer for the last one


def group_cells(cells: Iterable[Cell], fit: CostEstimator, slots: int, room: int | None) -> list[list[Cell]]:
    """Equal parts of those that share, as many as keep the slots busy and have room in the bytes that each slot has.

    Those of the same data and encoder begin after one another, the longest of them first.
    """
    sharing: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        sharing.setdefault(sharing_key(cell, fit), []).append(cell)
    together = sum(len(group) for group in sharing.values() if len(group) > 1)
    most = fit.speed.together or min(AT_MOST, max(1, together // slots))
    parts = [
        part for group in sharing.values() for part in equal_parts(group, min(most, max_group_size(group, fit, room)))
    ]
    return order_groups(parts, fit)


def sharing_key(cell: Cell, fit: CostEstimator) -> Hashable:
    """Equal for cells whose frozen blocks are given the same texts and random numbers, step by step; else the cell."""
    nothing = fit.speed.reuse == "none" or frozen_readers.trains_from_store(cell, fit.speed)
    if nothing or cell.training.processes > 1 or separable_blocks(cell) == 0:
        return id(cell)
    return pass_settings(cell)


def max_group_size(group: list[Cell], fit: CostEstimator, room: int | None) -> int:
    """How many of these cells have room in so many bytes; one that has none tries all the same."""
    if room is None or len(group) == 1:
        return AT_MOST if fit.speed.together is None else fit.speed.together
    largest = max(map(fit.own, group))
    return max(1, int((room - fit.shared(group[0])) // max(1, largest)))


def equal_parts(cells: list[Cell], most: int) -> list[list[Cell]]:
    """Parts of nearly the same size."""
    count = math.ceil(len(cells) / most)
    return [cells[len(cells) * part // count : len(cells) * (part + 1) // count] for part in range(count)]


def order_groups(parts: list[list[Cell]], fit: CostEstimator) -> list[list[Cell]]:
    """By what those of their data and encoder take together, then by what they take; of what nothing is known first."""
    families: dict[Hashable, list[tuple[float, list[Cell]]]] = {}
    for part in parts:
        longest = sum(rank_seconds(cell, len(part), fit) for cell in part)
        families.setdefault((part[0].data, part[0].encoder.model), []).append((longest, part))

    def amount(timed: tuple[float, list[Cell]]) -> float:
        return timed[0]

    longest_first = sorted(families.values(), key=lambda family: sum(map(amount, family)), reverse=True)
    return [part for family in longest_first for _, part in sorted(family, key=amount, reverse=True)]


def rank_seconds(cell: Cell, together: int, fit: CostEstimator) -> float:
    """Of a cell of an encoder that nothing is known of, more than of any other one; the largest has the most."""
    seconds = fit.seconds(cell, together)
    return UNKNOWN + fit.work(cell) if seconds is None else seconds


class CellTime(NamedTuple):
    """Seconds of a cell in training and in evaluation, what devices its training takes, and threads each of them."""

    train: float
    evaluate: float
    devices: int = 1
    threads: int = 1


def makespan(parts: Iterable[CellTime], slots: int, evaluators: int = 0) -> float:
    """Seconds from the first beginning to the last end, the cells in their order; without `evaluators` evaluation
    takes the place of a training."""
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
