"""From an experiment to its cells: products of axes, without the settings that do not matter, with baselines.

What a section means:
- The settings of a cell are the experiment's, overlaid by the section's `base`, overlaid by one combination of `axes`
  (minus what `exclude` matches) or by one map of `include`. Without axes a section is its `include`, or just its base.
- `baseline` overlays each of these once more, so that a baseline has the settings of the cells beside it.
  `baseline: {}` adds none.
- Two combinations that differ only in settings that their cells do not read are one row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from contrastive.config import registry
from contrastive.config.base import Settings
from contrastive.config.cell import Cell, Data
from contrastive.config.experiment import PARTS, SETTINGS, Experiment, Section
from contrastive.grid.combinations import Overlay, axis_names, check_values, combinations, settings_of, settings_read
from contrastive.grid.names import (
    ambiguous_axes,
    cell_name,
    labelled_row,
    names_of_data,
    row_label,
    setting_value,
    settings_of_cell,
)


@dataclass(frozen=True)
class Row:
    """One configuration of a section: a canonical cell a seed, in the order of the seeds."""

    label: str
    axes: dict[str, Any]  # the axes that matter to it, as a table shows them
    baseline: bool
    cells: tuple[Cell, ...]
    against: int | None = None  # which row of the section is its baseline; none of a row that is one
    parts: tuple[str, ...] = ()  # of the label, before `report.labels` renamed them


@dataclass(frozen=True)
class GridSection:
    section: Section
    rows: tuple[Row, ...]  # baselines first


@dataclass(frozen=True)
class Resolved:
    """A checked experiment with all that follows from its text: found once, by `load`, and carried from there on."""

    experiment: Experiment
    sections: tuple[GridSection, ...]
    cells: tuple[Cell, ...]  # each once, first come first

    @cached_property
    def names(self) -> dict[Cell, str]:
        usual = settings_of(self.experiment)
        return {cell: cell_name(cell, usual) for cell in self.cells}

    @cached_property
    def data_names(self) -> dict[Data, str]:
        """How a report tells the data of cells apart."""
        return names_of_data(self.cells)

    @cached_property
    def titles(self) -> dict[Cell, list[str]]:
        """The titles of the sections that show a cell."""
        shown: dict[Cell, dict[str, None]] = {}
        for part in self.sections:
            for cell in (cell for row in part.rows for cell in row.cells):
                shown.setdefault(cell, {})[part.section.title] = None
        return {cell: list(titles) for cell, titles in shown.items()}


def first_seeds(resolved: Resolved, counts: Sequence[Sequence[int]]) -> Resolved:
    """The same grid with the first seeds of each row alone: section → row → how many."""
    sections = tuple(
        replace(part, rows=tuple(replace(row, cells=row.cells[:n]) for row, n in zip(part.rows, numbers, strict=True)))
        for part, numbers in zip(resolved.sections, counts, strict=True)
    )
    cells = tuple(dict.fromkeys(cell for part in sections for row in part.rows for cell in row.cells))
    kept = {cell.seed for cell in cells}
    seeds = tuple(seed for seed in resolved.experiment.seeds if seed in kept)
    return Resolved(resolved.experiment.model_copy(update={"seeds": seeds}), sections, cells)


def with_seeds(resolved: Resolved, most: int) -> Resolved:
    """The same grid at so many seeds: those of its file, and then the smallest that are not among them."""
    own = resolved.experiment.seeds
    further = [seed for seed in range(most + len(own)) if seed not in own]
    seeds = (*own, *further)[:most]
    return Builder(resolved.experiment.model_copy(update={"seeds": seeds})).resolved()


class Variant(NamedTuple):
    """What a row of a section sets, without what its cells do not read."""

    overlay: Overlay
    is_baseline: bool
    baseline: Overlay | None  # what the row beside it sets that is its baseline, if it has one


class Variants(NamedTuple):
    """Those of one section; one that several combinations share comes once."""

    rows: list[Variant]
    unmatched: list[int]  # positions of the excludes that match no combination


class Builder:
    """Builds the cells of one experiment; what sections are made of, equal parts and equal cells are made once."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.settings = settings_of(experiment)
        self.seeds = experiment.seeds
        self.sections: dict[int, Variants] = {}
        self.parts: dict[tuple[Any, ...], Settings] = {}
        self.rows: dict[tuple[Any, ...], tuple[Cell, ...]] = {}  # an overlay → its cells
        self.cells: dict[Cell, tuple[Cell, ...]] = {}  # the cell of the first seed → that of every seed

    def resolved(self) -> Resolved:
        """Every row of every section and every distinct cell, of an experiment that was checked."""
        sections = tuple(
            GridSection(section, _rows(section, self.variants(number).rows, self))
            for number, section in enumerate(self.experiment.sections)
        )
        return Resolved(self.experiment, sections, tuple(cell for cells in self.cells.values() for cell in cells))

    def variants(self, number: int) -> Variants:
        """What the rows of a section set: looked at when a file is checked, and then made to cells."""
        if number not in self.sections:
            section = self.experiment.sections[number]
            kept, unmatched = combinations(section, self.settings)
            self.sections[number] = Variants(list(self._distinct(section, kept)), unmatched)
        return self.sections[number]

    def _distinct(self, section: Section, kept: list[Overlay]) -> Iterator[Variant]:
        baseline = check_values(section.baseline)
        seen: set[tuple[Any, ...]] = set()
        for overlay in kept:
            beside = self.relevant(overlay | baseline) if baseline else None
            variants = [Variant(self.relevant(overlay), False, beside)]
            variants += [Variant(beside, True, None)] if beside is not None else []
            for variant in variants:
                key = (variant.is_baseline, *variant.overlay.items())
                if key not in seen:
                    seen.add(key)
                    yield variant

    def relevant(self, overlay: Overlay) -> Overlay:
        """The overlay without the settings that its cell does not read, in one order."""
        return {name: overlay[name] for name in self.reads(overlay) if name in overlay}

    def reads(self, overlay: Overlay) -> tuple[str, ...]:
        """Names of the settings that the cell of an overlay reads."""
        names = ("loss", "view", "tune", *registry.variant_settings())
        loss, view, tune, *variant = (overlay.get(name, self.settings[name]) for name in names)
        return settings_read(loss, view, tuple(variant), tune)

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


def _rows(section: Section, variants: list[Variant], builder: Builder) -> tuple[Row, ...]:
    """Baselines first; each other row with the number of its own."""
    alike: dict[int, list[Variant]] = {}  # by the identity of their cells, which the builder makes once
    for variant in variants:
        alike.setdefault(id(builder.row(variant.overlay)), []).append(variant)
    ordered = sorted(alike.values(), key=lambda group: not any(variant.is_baseline for variant in group))
    groups = [(builder.row(group[0].overlay), group) for group in ordered]
    numbers = {id(cells): number for number, (cells, _) in enumerate(groups)}
    axes = [_axes(cells[0], axis_names(section)) for cells, _ in groups]
    ambiguous, labels = ambiguous_axes(axes), builder.experiment.report.labels
    rows = []
    for (cells, group), own in zip(groups, axes, strict=True):
        is_baseline = any(variant.is_baseline for variant in group)
        beside = [] if is_baseline else [builder.row(each.baseline) for each in group if each.baseline is not None]
        against = numbers.get(id(beside[0])) if beside else None
        parts, shown = labelled_row(cells[0], own, section.baseline if is_baseline else None, ambiguous, labels)
        rows.append(Row(row_label(parts, labels), shown, is_baseline, cells, against, parts))
    return tuple(rows)


def _axes(cell: Cell, names: Iterable[str]) -> dict[str, Any]:
    """Those of the axes that matter to a cell, with its values."""
    read = settings_of_cell(cell)
    return {name: setting_value(cell, name) for name in names if name in read}
