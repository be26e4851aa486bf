"""Cases that only `make test-all` runs, beside those of every run."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def rest_is_full(cases: Iterable[Any], usual: Collection[Any]) -> list[Any]:
    """All `cases` for `pytest.mark.parametrize`; those that are not in `usual` carry the mark `full`."""
    cases = list(cases)
    assert not [case for case in usual if case not in cases], "a usual case that is none of all"
    return [case if case in usual else marked_full(case) for case in cases]


def marked_full(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.full)
