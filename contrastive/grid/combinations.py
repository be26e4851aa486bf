"""The combinations of settings that a section asks for: products of its axes, and what it includes and excludes."""

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

# Stands in for what is missing or wrong, so that the rest of a file can be checked, and for what the other settings of
# a part need before one can be checked alone.
PLACEHOLDERS: dict[str, Any] = {
    "name": "x",
    "source": "package:any",
    "test": 1,
    "model": "scratch:bert",
    "title": "?",
    "data": {"source": "package:any", "test": 1},
    "encoder": {"model": "scratch:bert"},
    "sections": ({"title": "?"},),
}


def check_value(setting: str, value: Any) -> Any:
    """The value as the schema stores it; raises pydantic's ValidationError."""
    part = SETTINGS[setting]
    return getattr(PARTS[part].model_validate(PLACEHOLDERS.get(part, {}) | {setting: value}, strict=True), setting)


def check_values(settings: Mapping[str, Any]) -> Overlay:
    return {name: check_value(name, value) for name, value in settings.items()}


def settings_of(experiment: Experiment) -> Overlay:
    """Every setting of the experiment's own parts."""
    return {name: getattr(getattr(experiment, part), name) for name, part in SETTINGS.items()}


def axis_names(section: Section) -> tuple[str, ...]:
    """Settings in which the rows of a section may differ."""
    return tuple(dict.fromkeys([*section.axes, *(name for further in section.include for name in further)]))


def count_combinations(section: Section) -> int:
    """Combinations of a section before any is left out or found to be equal to another, without making them."""
    axes = prod(map(len, section.axes.values())) if section.axes or not section.include else 0
    return axes + len(section.include)


def combinations(section: Section, settings: Overlay) -> tuple[list[Overlay], list[int]]:
    """The overlay of each combination, base included, and the positions of the excludes that match none.

    `settings` are those of the experiment, which an exclude may name too.
    """
    base = check_values(section.base)
    excludes: dict[tuple[tuple[str, Any], ...], list[int]] = {}  # settings → positions of the excludes that say them
    for number, exclude in enumerate(section.exclude):
        excludes.setdefault(tuple(sorted(check_values(exclude).items())), []).append(number)
    named = {tuple(name for name, _ in pairs) for pairs in excludes}  # a thousand cost a combination no more than one
    values = [[check_value(name, value) for value in section.axes[name]] for name in section.axes]
    kept: list[Overlay] = []
    matched: set[int] = set()
    for combination in product(*values) if section.axes or not section.include else ():
        overlay = base | dict(zip(section.axes, combination, strict=True))
        keys = (tuple((name, overlay.get(name, settings[name])) for name in names) for names in named)
        matching = [number for key in keys for number in excludes.get(key, ())]
        matched.update(matching)
        if not matching:
            kept.append(overlay)
    kept += [base | check_values(further) for further in section.include]
    return kept, [number for number in range(len(section.exclude)) if number not in matched]


@cache
def settings_read(loss: str, view: str | None, variant: tuple[Any, ...], tune: Tune) -> tuple[str, ...]:
    """Names of the settings that a cell with this objective and tuning reads (a test holds it to `Cell.canonical`).
    `variant` has the values of `registry.variant_settings`."""
    chosen = dict(zip(registry.variant_settings(), variant, strict=True))
    objective = Objective.model_construct(loss=loss, view=view, **chosen)
    read = objective.read() | {name for name, part in SETTINGS.items() if part != "objective"}
    read -= idle_rates(tune, objective)
    return tuple(name for name in SETTINGS if name in read)
