"""From an experiment to its cells: products of axes, without the settings that do not matter, with baselines.

What a section means:
- The settings of a cell are the experiment's, overlaid by the section's `base`, overlaid by one combination of `axes`
  (minus what `exclude` matches) or by one map of `include`. Without axes a section is its `include`, or just its base.
- `baseline` overlays each of these once more, so that a baseline has the settings of the cells beside it.
  `baseline: {}` adds none.
- Two combinations that differ only in settings that their cells do not read are one row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import prod
from typing import Any, Literal

from pydantic import BaseModel

from contrastive.config.base import Settings
from contrastive.config.cell import Cell, Tune
from contrastive.config.experiment import PARTS, SETTINGS, Experiment, Section
from contrastive.config.objective import Objective

Overlay = dict[str, Any]  # setting → checked value

# What the other parts of a setting's model need before its own value can be checked alone.
COMPANIONS: dict[str, dict[str, Any]] = {
    "data": {"source": "package:any", "test": 1},
    "encoder": {"model": "scratch:bert"},
    "objective": {},
    "training": {},
}
SYMBOLS = {"alpha": "α", "temperature": "τ"}
SELF_EXPLAINING = {"loss", "view", "level", "tune", "model", "source"}  # shown without their name


@dataclass(frozen=True)
class Row:
    """One configuration of a section: a canonical cell a seed, in the order of the seeds."""

    label: str
    axes: dict[str, Any]  # the axes that matter to it, as a table shows them
    baseline: bool
    cells: tuple[Cell, ...]
    against: int | None = None  # which row of the section is its baseline; none of a row that is one


@dataclass(frozen=True)
class GridSection:
    section: Section
    rows: tuple[Row, ...]  # baselines first


@dataclass(frozen=True)
class Grid:
    experiment: Experiment
    sections: tuple[GridSection, ...]
    cells: tuple[Cell, ...]  # each once, first come first


def expand(experiment: Experiment) -> Grid:
    """Every row of every section and every distinct cell, of an experiment that was checked."""
    builder = Builder(experiment)
    sections = tuple(GridSection(section, _rows(section, builder)) for section in experiment.sections)
    return Grid(experiment, sections, tuple(cell for cells in builder.cells.values() for cell in cells))


def count(section: Section) -> int:
    """Combinations of a section before any is left out or found to be equal to another, without making them."""
    axes = prod(map(len, section.axes.values())) if section.axes or not section.include else 0
    return axes + len(section.include)


def check_value(setting: str, value: Any) -> Any:
    """The value as the schema stores it; raises pydantic's ValidationError."""
    part = SETTINGS[setting]
    return getattr(PARTS[part].model_validate(COMPANIONS[part] | {setting: value}, strict=True), setting)


def axis_names(section: Section) -> tuple[str, ...]:
    """Settings in which the rows of a section may differ."""
    return tuple(dict.fromkeys([*section.axes, *(name for further in section.include for name in further)]))


class Builder:
    """Builds the cells of one experiment from overlays; equal parts and equal cells are built once."""

    def __init__(self, experiment: Experiment) -> None:
        self.settings = flat(experiment)
        self.seeds = experiment.seeds
        self.parts: dict[tuple[Any, ...], Settings] = {}
        self.rows: dict[tuple[Any, ...], tuple[Cell, ...]] = {}  # an overlay → its cells
        self.cells: dict[Cell, tuple[Cell, ...]] = {}  # the cell of the first seed → that of every seed

    def relevant(self, overlay: Overlay) -> Overlay:
        """The overlay without the settings that its cell does not read, in one order."""
        settings = self.settings
        chosen = (overlay.get(name, settings[name]) for name in ("loss", "view", "level", "tune"))
        return {name: overlay[name] for name in read_settings(*chosen) if name in overlay}

    def row(self, relevant: Overlay) -> tuple[Cell, ...]:
        """The canonical cells of a relevant overlay; ValidationError where its settings do not fit."""
        key = tuple(relevant.items())
        if key not in self.rows:
            cell = Cell.model_construct(**self.build(relevant), seed=self.seeds[0]).canonical()
            cells = self.cells.get(cell)
            if cells is None:
                cells = (cell, *(cell.model_copy(update={"seed": seed}) for seed in self.seeds[1:]))
                self.cells[cell] = cells
            self.rows[key] = cells
        return self.rows[key]

    def build(self, relevant: Overlay) -> dict[str, Any]:
        """The four parts of a cell."""
        chosen: dict[str, Overlay] = {part: {} for part in PARTS}
        for name, value in relevant.items():
            chosen[SETTINGS[name]][name] = value
        return {part: self._part(part, settings) for part, settings in chosen.items()}

    def _part(self, part: str, chosen: Overlay) -> Settings:
        key = (part, *chosen.items())
        if key not in self.parts:
            model = PARTS[part]
            self.parts[key] = model(**{name: self.settings[name] for name in model.model_fields} | chosen)
        return self.parts[key]


def combinations(section: Section, settings: Overlay) -> tuple[list[Overlay], list[int]]:
    """The overlay of each combination, base included, and the positions of the excludes that match none.

    `settings` are those of the experiment, which an exclude may name too.
    """
    base = _checked(section.base)
    excludes = [_checked(exclude) for exclude in section.exclude]
    by_names = _by_names(excludes)
    values = [[check_value(name, value) for value in section.axes[name]] for name in section.axes]
    found: list[Overlay] = []
    matched: set[int] = set()
    for combination in product(*values) if section.axes or not section.include else ():
        overlay = base | dict(zip(section.axes, combination, strict=True))
        matching = _matching(by_names, overlay, settings)
        matched.update(matching)
        if not matching:
            found.append(overlay)
    found += [base | _checked(further) for further in section.include]
    return found, [number for number in range(len(excludes)) if number not in matched]


def overlays(section: Section, builder: Builder) -> Iterator[tuple[Overlay, bool, Overlay | None]]:
    """The relevant overlay of each row, whether it is a baseline, and that of its baseline if it has one; one that
    several combinations share comes once."""
    baseline = _checked(section.baseline)
    seen: set[tuple[Any, ...]] = set()
    for overlay in combinations(section, builder.settings)[0]:
        own = builder.relevant(overlay | baseline) if baseline else None
        for settings, is_baseline in ((overlay, False), (overlay | baseline, True)):
            relevant = builder.relevant(settings)
            key = (is_baseline, *relevant.items())
            if key not in seen and (baseline or not is_baseline):
                seen.add(key)
                yield relevant, is_baseline, None if is_baseline else own


def flat(experiment: Experiment) -> Overlay:
    """Every setting of the experiment's own parts."""
    return {name: getattr(getattr(experiment, part), name) for name, part in SETTINGS.items()}


@cache
def read_settings(loss: str, view: str | None, level: Literal["sentence", "token"], tune: Tune) -> tuple[str, ...]:
    """Names of the settings that a cell with this objective and tuning reads (a test holds it to `Cell.canonical`)."""
    objective = Objective.model_construct(loss=loss, view=view, level=level)
    read = objective.read() | {name for name, part in SETTINGS.items() if part != "objective"}
    if tune.lora is not None or tune.last_blocks == 0:
        read.discard("layer_decay")
    if tune.last_blocks == 0:
        read.discard("encoder_lr")
    if not objective.has_heads():
        read.discard("head_lr")
    return tuple(name for name in SETTINGS if name in read)


def cell_name(cell: Cell, experiment: Experiment | None = None) -> str:
    """`ce+supcon · topk_tokens · k=30 · α=0.2 · seed 0`: its objective, and what differs from the experiment."""
    objective, read = cell.objective, _read_by(cell)
    view = objective.line_of_view().settings if objective.view else ()
    names = ["loss", "view", *view, "alpha", *Objective.model_fields]
    shown = [
        name
        for name in dict.fromkeys(names)
        if name in read
        and getattr(objective, name) is not None
        and (name in (*view, "loss", "view", "alpha") or getattr(objective, name) != _default(Objective, name))
    ]
    parts = [_with_name(name, short(name, getattr(objective, name))) for name in shown]
    usual = flat(experiment) if experiment else {"tune": Tune()}
    for name, value in usual.items():
        if SETTINGS[name] != "objective" and name in read and (own := setting(cell, name)) != value:
            parts.append(_with_name(name, short(name, own)))
    return " · ".join([*parts, f"seed {cell.seed}"])


def setting(cell: Cell, name: str) -> Any:
    """The value of a setting; where the cell leaves it to its losses and view, what they take."""
    value = getattr(getattr(cell, SETTINGS[name]), name)
    if value is None and SETTINGS[name] == "objective":
        taken = cell.objective.taken(name)
        return taken.pop() if len(taken) == 1 else None
    return value


def short(name: str, value: Any) -> str:
    """A value as a table or a label shows it."""
    if name == "tune" and isinstance(value, Tune):
        blocks, still = value.last_blocks, "" if value.frozen_dropout else ", still below"
        if value.lora is not None:
            return f"LoRA r={value.lora.r}" + ("" if blocks is None else f" in the last {blocks} blocks{still}")
        return "full" if blocks is None else ("head only" if blocks == 0 else f"last {blocks} blocks") + still
    if name == "translators" and value is not None:
        return " and ".join(model.split("@")[0].rstrip("/").rsplit("/", 1)[-1] for model in value)
    if name == "sharding":
        return "none" if value is None else value.removesuffix(".json").rsplit("/", 1)[-1].removeprefix("deepspeed:")
    if value is None:
        return "all" if name == "train" else "default"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, tuple):
        return ",".join(short(name, item) for item in value)
    if isinstance(value, BaseModel):
        return " ".join(
            f"{field}={short(field, item)}" for field, item in value if item != _default(type(value), field)
        )
    return str(value)


def _rows(section: Section, builder: Builder) -> tuple[Row, ...]:
    names = axis_names(section)
    found: dict[int, Row] = {}  # by the identity of the first cell, which the builder makes once
    baselines: dict[int, int] = {}  # the first cell of a row → that of its baseline
    for overlay, baseline, own in overlays(section, builder):
        cells = builder.row(overlay)
        row = found.get(id(cells[0]))
        if own is not None:
            baselines.setdefault(id(cells[0]), id(builder.row(own)[0]))
        if row is None:
            read = _read_by(cells[0])
            axes = {name: setting(cells[0], name) for name in names if name in read}
            found[id(cells[0])] = Row("", axes, baseline, cells)
        elif baseline and not row.baseline:
            found[id(cells[0])] = replace(row, baseline=True)
    rows = sorted(found.values(), key=lambda row: not row.baseline)
    places = {id(row.cells[0]): place for place, row in enumerate(rows)}
    rows = [
        row if row.baseline else replace(row, against=places.get(baselines.get(id(row.cells[0]), 0))) for row in rows
    ]
    ambiguous = {name for name in names if _ambiguous(name, {row.axes[name] for row in rows if name in row.axes})}
    return tuple(_labelled(row, section, ambiguous) for row in rows)


def _labelled(row: Row, section: Section, ambiguous: set[str]) -> Row:
    cell, texts = row.cells[0], {}
    for name in section.baseline if row.baseline else () if row.axes else ("loss", "view"):
        if name not in row.axes and name in _read_by(cell):
            texts[name] = short(name, setting(cell, name))
    texts |= {name: _long(value) if name in ambiguous else short(name, value) for name, value in row.axes.items()}
    axes = {name: value if isinstance(value, int | float | str) else texts[name] for name, value in row.axes.items()}
    return replace(row, label=" · ".join(_with_name(name, text) for name, text in texts.items()), axes=axes)


def _ambiguous(name: str, values: set[Any]) -> bool:
    return len({short(name, value) for value in values}) < len(values)


def _long(value: Any) -> str:
    """Every setting of a part that is not at its default, for values whose short texts are equal."""
    if not isinstance(value, BaseModel):
        return repr(value)
    changed = value.model_dump(mode="json", exclude_defaults=True)
    nested = [changed.pop(name) for name in list(changed) if isinstance(changed[name], dict)]
    texts = [f"{name}={short(name, item)}" for settings in [changed, *nested] for name, item in settings.items()]
    return " ".join([short("tune", value), *texts] if isinstance(value, Tune) else texts)


def _with_name(name: str, text: str) -> str:
    if name in SELF_EXPLAINING:
        return text
    symbol = SYMBOLS.get(name, name)
    return f"{symbol}={text}"


def _read_by(cell: Cell) -> tuple[str, ...]:
    objective = cell.objective
    return read_settings(objective.loss, objective.view, objective.level, cell.encoder.tune)


def _default(model: type[BaseModel], name: str) -> Any:
    return model.model_fields[name].default


def _checked(settings: Mapping[str, Any]) -> Overlay:
    return {name: check_value(name, value) for name, value in settings.items()}


Excludes = dict[tuple[str, ...], dict[tuple[Any, ...], list[int]]]  # names → values → positions of the excludes


def _by_names(excludes: list[Overlay]) -> Excludes:
    """Excludes that can be looked up: a thousand of them cost a combination no more than one."""
    found: Excludes = {}
    for number, exclude in enumerate(excludes):
        names = tuple(sorted(exclude))
        found.setdefault(names, {}).setdefault(tuple(exclude[name] for name in names), []).append(number)
    return found


def _matching(excludes: Excludes, overlay: Overlay, settings: Overlay) -> list[int]:
    """The positions of the excludes that match a combination."""
    found: list[int] = []
    for names, by_values in excludes.items():
        found += by_values.get(tuple(overlay[name] if name in overlay else settings[name] for name in names), ())
    return found
