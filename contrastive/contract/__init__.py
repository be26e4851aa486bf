"""What every loss and every view keeps, whatever it computes: checks of those inside and of those in users' files.

Tests run them over the registries, `ablate check` over one file. No training imports them.
"""

from collections.abc import Callable
from typing import TypeAlias

Checks: TypeAlias = dict[str, Callable[[], None]]  # what holds → a function that raises if it does not


class Broken(AssertionError):
    """Part of the contract does not hold. The message says what arrived, and what to do."""


def demand(held: object, message: str) -> None:
    if not held:
        raise Broken(message)
