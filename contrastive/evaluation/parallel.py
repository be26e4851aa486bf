"""Thread pool with bitwise equal results for any number of threads: fixed blocks of work, single-threaded BLAS."""

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
    """Let `map_parts` use `count` threads, with single-threaded BLAS and OpenMP, so that sums do not depend on it."""
    token = _count.set(count)
    try:
        with threadpool_limits(1):
            yield
    finally:
        _count.reset(token)


def map_parts(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Apply `work` to independent parts, in parallel; return the results in order."""
    if _count.get() == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(_count.get()) as pool:
        return list(pool.map(work, parts))


def blocks(count: int, size: int) -> list[slice]:
    """Split `count` rows into slices of at most `size` rows, independent of the number of threads."""
    return [slice(begin, min(begin + size, count)) for begin in range(0, count, size)]


def thread_count() -> int:
    """Return the thread limit, for libraries with their own threads whose results do not depend on it."""
    return _count.get()
