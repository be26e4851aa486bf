"""Rounds of a fuzzer: few with `make test`, a minute with `make test-all`, or `make fuzz`'s minutes.

Round n is made from the number n alone, so that `--seed n` begins with the one that failed.
"""

import random
import time
from collections.abc import Callable, Iterator

import pytest

Rounds = Callable[[int], Iterator[tuple[int, random.Random]]]


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> Rounds:
    """`for number, chance in rounds(10):` gives 10 rounds, or what `--fuzz-minutes` allows."""
    minutes, first = request.config.getoption("--fuzz-minutes"), request.config.getoption("--seed")

    def some(count: int) -> Iterator[tuple[int, random.Random]]:
        end, number = time.monotonic() + 60 * minutes, first
        while time.monotonic() < end if minutes else number < first + count:
            yield number, random.Random(number)
            number += 1
        print(f"\n{request.node.name}: {number - first} rounds")

    return some
