"""Rounds of a fuzzer: a few with all the tests, as many as fit into the time that `make fuzz` gives.

Round n is made from the number n alone, so that `--seed n` begins with the one that failed.
"""

import random
import time
from collections.abc import Callable, Iterator

import pytest

Rounds = Callable[[int], Iterator[tuple[int, random.Random]]]


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> Rounds:
    """`for number, chance in rounds(40):` gives 40 rounds, or as many as `--fuzz-minutes` allows."""
    minutes, first = request.config.getoption("--fuzz-minutes"), request.config.getoption("--seed")

    def some(count: int) -> Iterator[tuple[int, random.Random]]:
        end, number = time.monotonic() + 60 * minutes, first
        while time.monotonic() < end if minutes else number < first + count:
            yield number, random.Random(number)
            number += 1
        print(f"\n{request.node.name}: {number - first} rounds")

    return some
