"""How long a grid takes where several cells run at a time."""

import heapq
from collections.abc import Iterable
from typing import NamedTuple


class Part(NamedTuple):
    """Seconds of a cell in training and in evaluation, what devices its training takes, and threads each of them."""

    train: float
    evaluate: float
    devices: int = 1
    threads: int = 1


def makespan(parts: Iterable[Part], slots: int, evaluators: int = 0) -> float:
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
