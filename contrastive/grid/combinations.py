"""Combinations of settings in a section: the product of its axes, minus `exclude`, plus `include`."""

from collections.abc import Mapping
from functools import cache
from itertools import product
from math import prod
from typing import Any

from contrastive.config import registry
from contrastive.config.cell import Tune, idle_rates
from contrastive.config.experiment import PARTS, SETTINGS, Experiment, Section
from contrastive.config.objective import Objective

Overlay = dict[str, Any]  # setting → checked value

# Required settings of a part, when one of its other settings is checked alone
REQUIRED: dict[str, dict[str, Any]] = {
    "data": {"source": "package:any", "test": 1},
    "encoder": {"model": "scratch:bert"},
}


def check_value(setting: str, value: Any) -> Any:
    """Return the value as the schema stores it; raise pydantic's ValidationError if it is wrong."""
    part = SETTINGS[setting]
    return getattr(PARTS[part].model_validate(REQUIRED.get(part, {}) | {setting: value}, strict=True), setting)


def check_values(settings: Mapping[str, Any]) -> Overlay:
    return {name: check_value(name, value) for name, value in settings.items()}


def settings_of(experiment: Experiment) -> Overlay:
    """Return every setting of the experiment's parts, before any section changes it."""
    return {name: getattr(getattr(experiment, part), name) for name, part in SETTINGS.items()}


def axis_names(section: Section) -> tuple[str, ...]:
    """Return the settings in which the rows of a section may differ."""
    return tuple(dict.fromkeys([*section.axes, *(name for further in section.include for name in further)]))


def count_combinations(section: Section) -> int:
    """Count the combinations of a section before exclusion and removal of duplicates, without building them."""
    axes = prod(map(len, section.axes.values())) if section.axes or not section.include else 0
    return axes + len(section.include)


def combinations(section: Section, settings: Overlay) -> tuple[list[Overlay], list[int]]:
    """Return the overlay of each combination, base included, and the positions of excludes that match none.

    `settings`: the experiment's settings, which an exclude may name too.
    """
    base = check_values(section.base)
    excludes: dict[tuple[tuple[str, Any], ...], list[int]] = {}  # settings → positions of the excludes with them
    for number, exclude in enumerate(section.exclude):
        excludes.setdefault(tuple(sorted(check_values(exclude).items())), []).append(number)
    exclude_keys = {tuple(name for name, _ in pairs) for pairs in excludes}  # one lookup each, however many excludes
    values = [[check_value(name, value) for value in section.axes[name]] for name in section.axes]
    kept: list[Overlay] = []
    matched: set[int] = set()
    for combination in product(*values) if section.axes or not section.include else ():
        overlay = base | dict(zip(section.axes, combination, strict=True))
        keys = (tuple((name, overlay.get(name, settings[name])) for name in names) for names in exclude_keys)
        matching = [number for key in keys for number in excludes.get(key, ())]
        matched.update(matching)
        if not matching:
            kept.append(overlay)
    kept += [base | check_values(further) for further in section.include]
    return kept, [number for number in range(len(section.exclude)) if number not in matched]


@cache
def settings_read(loss: str, view: str | None, variant: tuple[Any, ...], tune: Tune) -> tuple[str, ...]:
    """Return the names of the settings that a cell with this objective and tuning reads (tested against
    `Cell.canonical`). `variant`: the values of `registry.variant_settings`."""
    chosen = dict(zip(registry.variant_settings(), variant, strict=True))
    objective = Objective.model_construct(loss=loss, view=view, **chosen)
    read = objective.settings_read() | {name for name, part in SETTINGS.items() if part != "objective"}
    read -= idle_rates(tune, objective)
    return tuple(name for name in SETTINGS if name in read)
