"""Parametrise a test with a few cases for every run and the rest for `make test-all`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def rest_is_full(cases: Iterable[Any], usual: Collection[Any]) -> list[Any]:
    """Return all `cases` for `pytest.mark.parametrize`; those that are not in `usual` get the mark `full`."""
    cases = list(cases)
    assert not [case for case in usual if case not in cases], "a case in `usual` is not in `cases`"
    return [case if case in usual else marked_full(case) for case in cases]


def marked_full(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.full)
