"""Checks that every loss, view, metric and pooling passes, whatever it computes: those inside and those of users.

Tests run them over the registries, `ablate check` over one file. No training imports them.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from contrastive.config.objective import KNOWN, Objective
from contrastive.config.registry import RegistryEntry

EXAMPLES = {"bool": True, "int": 2, "float": 0.5, "str": ""}  # values of settings that have no default
Checks: TypeAlias = dict[str, Callable[[], None]]  # what holds → a function that raises if it does not


class Broken(AssertionError):
    """Part of the contract does not hold. The message says what arrived, and what to do."""


def demand(held: object, message: str) -> None:
    if not held:
        raise Broken(message)


def examples_of(entry: RegistryEntry[Any]) -> dict[str, Any]:
    """Return values for the settings of a user's loss or view that have no default."""
    needed = (Objective.model_fields.keys() - KNOWN) & {*entry.settings} - entry.defaults.keys()
    return {name: EXAMPLES[entry.kinds[name]] for name in needed}
