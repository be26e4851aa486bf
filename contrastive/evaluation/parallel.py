"""Threads whose number decides no bit: work is cut into the same parts for any number, and BLAS sums in one thread."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from threadpoolctl import threadpool_limits

Part = TypeVar("Part")
Result = TypeVar("Result")

_count: ContextVar[int] = ContextVar("threads", default=1)


@contextmanager
def thread_limit(count: int) -> Iterator[None]:
    """How many threads `each` has inside; one of them runs BLAS and OpenMP alone, so that sums do not depend on it."""
    before = _count.set(count)
    try:
        with threadpool_limits(1):
            yield
    finally:
        _count.reset(before)


def map_parts(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """The results of independent parts, in their order."""
    if _count.get() == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(_count.get()) as pool:
        return list(pool.map(work, parts))


def blocks(count: int, size: int) -> list[slice]:
    """Slices of at most `size` rows, the same for any number of threads."""
    return [slice(begin, min(begin + size, count)) for begin in range(0, count, size)]


def thread_count() -> int:
    """How many threads there are, for a library that starts its own and is known to give the same bits with any."""
    return _count.get()
