"""Expand an experiment to its grid: sections, rows with their baselines, and canonical cells.

How a section is expanded:
- The settings of a cell are the experiment's, overlaid by the section's `base`, overlaid by one combination of `axes`
  (except those that `exclude` matches) or by one map of `include`. Without axes: `include` alone, or just the base.
- `baseline` overlays each of these once more, so a baseline shares all other settings with its row. `baseline: {}`
  adds no baselines.
- Combinations that differ only in settings that their cells do not read are one row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple

from contrastive.config import registry
from contrastive.config.base import Settings
from contrastive.config.cell import Cell, Data
from contrastive.config.experiment import PARTS, SETTINGS, Experiment, Section
from contrastive.grid.names import (
    Overlay,
    ambiguous_axes,
    cell_name,
    labelled_row,
    names_of_data,
    row_label,
    setting_value,
    settings_of_cell,
    settings_read,
)


@dataclass(frozen=True)
class Row:
    """One configuration of a section, with one canonical cell per seed, in the order of the seeds."""

    label: str
    axes: dict[str, Any]  # the axes that affect it, with values as a table shows them
    baseline: bool
    cells: tuple[Cell, ...]
    against: int | None = None  # number of its baseline row in the section; None for a baseline
    parts: tuple[str, ...] = ()  # parts of the label, before `report.labels`


@dataclass(frozen=True)
class GridSection:
    section: Section
    rows: tuple[Row, ...]  # baselines first


@dataclass(frozen=True)
class LoadedExperiment:
    """A checked experiment and its grid, as `load_experiment` returns it."""

    experiment: Experiment
    sections: tuple[GridSection, ...]
    cells: tuple[Cell, ...]  # without duplicates, in order of appearance

    @cached_property
    def names(self) -> dict[Cell, str]:
        usual = settings_of(self.experiment)
        return {cell: cell_name(cell, usual) for cell in self.cells}

    @cached_property
    def data_names(self) -> dict[Data, str]:
        """The name of each data set in a report."""
        return names_of_data(self.cells, self.experiment.report.labels)

    @cached_property
    def titles(self) -> dict[Cell, list[str]]:
        """The titles of the sections that show each cell."""
        shown: dict[Cell, dict[str, None]] = {}
        for part in self.sections:
            for cell in (cell for row in part.rows for cell in row.cells):
                shown.setdefault(cell, {})[part.section.title] = None
        return {cell: list(titles) for cell, titles in shown.items()}


def first_seeds(resolved: LoadedExperiment, counts: Sequence[Sequence[int]]) -> LoadedExperiment:
    """Return the grid with only the first seeds of each row; `counts`: section → row → number of seeds."""
    sections = tuple(
        replace(part, rows=tuple(replace(row, cells=row.cells[:n]) for row, n in zip(part.rows, numbers, strict=True)))
        for part, numbers in zip(resolved.sections, counts, strict=True)
    )
    cells = tuple(dict.fromkeys(cell for part in sections for row in part.rows for cell in row.cells))
    kept = {cell.seed for cell in cells}
    seeds = tuple(seed for seed in resolved.experiment.seeds if seed in kept)
    return LoadedExperiment(resolved.experiment.model_copy(update={"seeds": seeds}), sections, cells)


def with_seeds(resolved: LoadedExperiment, most: int) -> LoadedExperiment:
    """Return the grid with `most` seeds: those of the file, then the smallest unused numbers."""
    declared = resolved.experiment.seeds
    further = [seed for seed in range(most + len(declared)) if seed not in declared]
    seeds = (*declared, *further)[:most]
    return Builder(resolved.experiment.model_copy(update={"seeds": seeds})).resolved()


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
    base, kept, matched = dict(section.base), list[Overlay](), set[int]()
    for combination in product(*section.axes.values()) if section.axes or not section.include else ():
        overlay = base | dict(zip(section.axes, combination, strict=True))
        chosen = (settings | overlay).items()
        matching = [number for number, exclude in enumerate(section.exclude) if exclude.items() <= chosen]
        matched.update(matching)
        if not matching:
            kept.append(overlay)
    kept += [base | dict(further) for further in section.include]
    return kept, [number for number in range(len(section.exclude)) if number not in matched]


class Variant(NamedTuple):
    """The settings of a row of a section, without those that its cells do not read."""

    overlay: Overlay
    is_baseline: bool
    baseline: Overlay | None  # the settings of its baseline row, if it has one


class Builder:
    """Builds the cells of one experiment; variants, equal parts and equal cells are cached."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.settings = settings_of(experiment)
        self.seeds = experiment.seeds
        self.parts: dict[tuple[Any, ...], Settings] = {}
        self.rows: dict[tuple[Any, ...], tuple[Cell, ...]] = {}  # an overlay → its cells
        self.cells: dict[Cell, tuple[Cell, ...]] = {}  # cell of the first seed → cells of all seeds
        combined = [combinations(section, self.settings) for section in experiment.sections]
        self.unmatched = [unmatched for _, unmatched in combined]  # section → positions of excludes without effect
        self.variants = [  # section → its distinct variants, which are checked first and then built into cells
            list(self._distinct(dict(section.baseline), kept))
            for section, (kept, _) in zip(experiment.sections, combined, strict=True)
        ]

    def resolved(self) -> LoadedExperiment:
        """Return every row of every section and every distinct cell of a checked experiment."""
        sections = tuple(
            GridSection(section, _rows(section, variants, self))
            for section, variants in zip(self.experiment.sections, self.variants, strict=True)
        )
        return LoadedExperiment(
            self.experiment, sections, tuple(cell for cells in self.cells.values() for cell in cells)
        )

    def _distinct(self, baseline: Overlay, kept: list[Overlay]) -> Iterator[Variant]:
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
        """Return the overlay without the settings that its cell does not read, in a fixed order."""
        return {name: overlay[name] for name in self.reads(overlay) if name in overlay}

    def reads(self, overlay: Overlay) -> tuple[str, ...]:
        """Return the names of the settings that the cell of an overlay reads."""
        names = ("loss", "view", "tune", *registry.variant_settings())
        loss, view, tune, *variant = (overlay.get(name, self.settings[name]) for name in names)
        return settings_read(loss, view, tuple(variant), tune)

    def row(self, relevant: Overlay) -> tuple[Cell, ...]:
        """Return the canonical cells of a relevant overlay."""
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
        """Return the four parts of a cell by name."""
        chosen: dict[str, Overlay] = {part: {} for part in PARTS}
        for name, value in relevant.items():
            chosen[SETTINGS[name]][name] = value
        return {part: self._part(part, settings) for part, settings in chosen.items()}

    def _part(self, part: str, chosen: Overlay) -> Settings:
        key = (part, *chosen.items())
        if key not in self.parts:
            self.parts[key] = getattr(self.experiment, part).model_copy(update=chosen)
        return self.parts[key]


def _rows(section: Section, variants: list[Variant], builder: Builder) -> tuple[Row, ...]:
    """Return the rows of a section, baselines first; every other row has the number of its baseline."""
    by_cells: dict[int, list[Variant]] = {}  # key: id() of the cells, which the builder makes once
    for variant in variants:
        by_cells.setdefault(id(builder.row(variant.overlay)), []).append(variant)
    ordered = sorted(by_cells.values(), key=lambda group: not any(variant.is_baseline for variant in group))
    groups = [(builder.row(group[0].overlay), group) for group in ordered]
    numbers = {id(cells): number for number, (cells, _) in enumerate(groups)}
    axes = [_axes(cells[0], axis_names(section)) for cells, _ in groups]
    ambiguous, labels = ambiguous_axes(axes), builder.experiment.report.labels
    rows = []
    for (cells, group), row_axes in zip(groups, axes, strict=True):
        is_baseline = any(variant.is_baseline for variant in group)
        beside = [] if is_baseline else [builder.row(each.baseline) for each in group if each.baseline is not None]
        against = numbers.get(id(beside[0])) if beside else None
        parts, shown = labelled_row(cells[0], row_axes, section.baseline if is_baseline else None, ambiguous, labels)
        rows.append(Row(row_label(parts, labels), shown, is_baseline, cells, against, parts))
    return tuple(rows)


def _axes(cell: Cell, names: Iterable[str]) -> dict[str, Any]:
    """Return the axes that affect a cell, with its values."""
    read = settings_of_cell(cell)
    return {name: setting_value(cell, name) for name in names if name in read}
