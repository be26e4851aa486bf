"""Names of cells, rows, data sets and setting values, as tables, labels and runs show them."""

from collections.abc import Callable, Iterable
from functools import cache
from string import Formatter
from typing import Any

from pydantic import BaseModel

from contrastive.config import registry
from contrastive.config.cell import SETTINGS, Cell, Data, Tune, idle_rates
from contrastive.config.experiment import without_folders
from contrastive.config.objective import Objective
from contrastive.grid.identity import text_settings

Overlay = dict[str, Any]  # setting → checked value
DASH = "–"  # in place of an axis that a row does not read


def setting_value(cell: Cell, name: str) -> Any:
    """Return the value of a setting, or the default of the losses and the view if the cell leaves it out."""
    value = getattr(getattr(cell, SETTINGS[name]), name)
    if value is None and SETTINGS[name] == "objective":
        defaults = cell.objective.default_values(name)
        return defaults.pop() if len(defaults) == 1 else None
    return value


def short_value(name: str, value: Any) -> str:
    """Return a value as a table or label shows it."""
    if name == "tune" and isinstance(value, Tune):
        blocks = value.last_blocks
        if value.lora is not None:
            name = ("rs" if value.lora.rslora else "") + ("DoRA" if value.lora.dora else "LoRA")
            return f"{name} r={value.lora.r}" + ("" if blocks is None else f" in the {last_blocks(blocks)}")
        return "full" if blocks is None else ("head only" if blocks == 0 else last_blocks(blocks))
    if name in ("guide", "translators") and value is not None:
        models = [value] if isinstance(value, str) else value
        return " and ".join(model.split("@")[0].rstrip("/").replace(":", "/").rsplit("/", 1)[-1] for model in models)
    if name == "sharding":
        return "none" if value is None else value.removesuffix(".json").rsplit("/", 1)[-1].removeprefix("deepspeed:")
    if value is None:
        return "all" if name == "train" else "default"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, tuple):
        return ",".join(short_value(name, item) for item in value)
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        changed = [(field, item) for field, item in value if item != fields[field].default]
        return " ".join(f"{field}={short_value(field, item)}" for field, item in changed)
    return without_folders(str(value))


def last_blocks(count: int) -> str:
    return "last block" if count == 1 else f"last {count} blocks"


def names_in(template: str) -> list[str]:
    """Return the axes that a row's name has in braces; raise ValueError if they cannot be filled in."""
    fields = [field for field in Formatter().parse(template) if field[1] is not None]
    if any(spec or conversion or not str(name).isidentifier() for _, name, spec, conversion in fields):
        raise ValueError("braces hold the name of an axis and nothing else")
    return [str(name) for _, name, _, _ in fields]


def names_of_data(cells: Iterable[Cell]) -> dict[Data, str]:
    """Name the data of cells by the settings that differ; the name is empty if all cells have the same data."""
    texts = {cell.data: text_settings(cell.data) for cell in cells}
    distinct = set(texts.values())
    differing = [name for name in Data.model_fields if len({getattr(data, name) for data in distinct}) > 1]

    def named(data: Data, source: Callable[[str], str]) -> str:
        values = {name: getattr(data, name) for name in differing}
        parts = [source(v) if name == "source" else f"{name}={short_value(name, v)}" for name, v in values.items()]
        return ", ".join(parts)

    short = {data: named(data, without_folders) for data in distinct}
    names = short if len(set(short.values())) == len(distinct) else {data: named(data, str) for data in distinct}
    return {data: names[plain] for data, plain in texts.items()}


def settings_of_cell(cell: Cell) -> tuple[str, ...]:
    """Return the names of the settings that a cell reads."""
    objective = cell.objective
    variant = tuple(getattr(objective, name) for name in registry.variant_settings())
    return settings_read(objective.loss, objective.view, variant, cell.encoder.tune)


@cache
def settings_read(loss: str, view: str | None, variant: tuple[Any, ...], tune: Tune) -> tuple[str, ...]:
    """Return the names of the settings that a cell with this objective and tuning reads (tested against
    `Cell.canonical`). `variant`: the values of `registry.variant_settings`."""
    chosen = dict(zip(registry.variant_settings(), variant, strict=True))
    objective = Objective.model_construct(loss=loss, view=view, **chosen)
    read = objective.settings_read() | {name for name, part in SETTINGS.items() if part != "objective"}
    read -= idle_rates(tune, objective)
    return tuple(name for name in SETTINGS if name in read)
