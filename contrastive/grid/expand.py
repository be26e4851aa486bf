"""Expand an experiment to its grid: sections, rows with their baselines, and canonical cells.

How a section is expanded:
- It is expanded once for each of the experiment's named `settings`, if there are any.
- The settings of a cell are the experiment's, overlaid by one of its `settings`, by the section's `base`, by those of a
  row, and by one combination of the row's `axes` (except those that `exclude` matches). Each combination is a row.
- Combinations of a row that differ only in settings that their cells do not read are one row.
- A row with `soup` trains nothing: its cells have the mean weights of those of other rows, seed by seed.
- A row is compared with the baseline; of a baseline with axes, with its point whose axes have the row's values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from contrastive.config import registry
from contrastive.config.base import Settings
from contrastive.config.cell import PARTS, SETTINGS, Cell, Data
from contrastive.config.experiment import NO_BASELINE, Experiment, Section, settings_of_row
from contrastive.grid.identity import own_encoder
from contrastive.grid.names import (
    DASH,
    Overlay,
    names_of_data,
    setting_value,
    settings_of_cell,
    settings_read,
    short_value,
)
from contrastive.runs.recorded import ChosenRow

RowKey = tuple[int, str, str, int]  # number of a section, setting, name of a row in the file, position of a combination
COLUMNS = ("text", "label", "positive", "negative")  # of the data's source


@dataclass(frozen=True)
class Row:
    """One configuration of a section, with one canonical cell per seed, in the order of the seeds."""

    label: str
    axes: dict[str, Any]  # the axes that affect it, with values as a table shows them
    baseline: bool
    cells: tuple[Cell, ...]
    key: str  # its name in the file
    position: int  # of the combination among those of its name
    matching: tuple[int, ...] = ()  # numbers of the baseline rows that it could be compared with; empty for a baseline

    @property
    def against(self) -> int | None:
        """Number of its baseline row in the section; None for a baseline."""
        return self.matching[0] if self.matching else None


@dataclass(frozen=True)
class GridSection:
    """A section in one setting."""

    number: int  # of the section in the file
    section: Section
    setting: str  # its name; empty if the file has none
    title: str  # with the name of the setting if there are several
    rows: tuple[Row, ...]  # baselines first


@dataclass(frozen=True)
class LoadedExperiment:
    """A checked experiment and its grid, as `load_experiment` returns it."""

    experiment: Experiment
    sections: tuple[GridSection, ...]
    cells: tuple[Cell, ...]  # without duplicates, in order of appearance
    choice: Mapping[RowKey, Overlay] = field(default_factory=dict)  # row → its chosen values
    chosen: tuple[ChosenRow, ...] = ()  # how they were chosen
    file: str = "FILE"  # from where the command runs

    @cached_property
    def names(self) -> dict[Cell, str]:
        """The name of each cell: that of its first row, with its setting, or its section where another has the name."""
        several, labels, first = len(self.experiment.settings) > 1, dict[Cell, str](), dict[str, Cell]()
        for part in self.sections:
            for row in part.rows:
                if row.cells[0] in labels:
                    continue
                label = f"{row.label} ({part.setting})" if several else row.label
                if first.setdefault(label, row.cells[0]) is not row.cells[0]:
                    label = f"{part.title}: {row.label}"
                labels |= {cell: f"{label} · seed {cell.seed}" for cell in row.cells}
        return labels

    @cached_property
    def data_names(self) -> dict[Data, str]:
        """The name of each data set in a report: that of its setting if they belong to each other alone."""
        names = names_of_data(self.cells)
        of_setting, of_data = dict[str, set[Data]](), dict[Data, set[str]]()
        for part in self.sections:
            for row in part.rows:
                of_setting.setdefault(part.setting, set()).add(row.cells[0].data)
                of_data.setdefault(row.cells[0].data, set()).add(part.setting)
        alone = {name: next(iter(data)) for name, data in of_setting.items() if len(data) == 1 and name}
        named = {data: name for name, data in alone.items() if len(of_data[data]) == 1}
        return names | named if len(self.experiment.settings) > 1 else names

    @cached_property
    def titles(self) -> dict[Cell, list[str]]:
        """The titles of the sections that show each cell."""
        shown: dict[Cell, dict[str, None]] = {}
        for part in self.sections:
            for cell in (cell for row in part.rows for cell in row.cells):
                shown.setdefault(cell, {})[part.title] = None
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
    return replace(
        resolved, experiment=resolved.experiment.model_copy(update={"seeds": seeds}), sections=sections, cells=cells
    )


def with_seeds(resolved: LoadedExperiment, most: int) -> LoadedExperiment:
    """Return the grid with `most` seeds: those of the file, then the smallest numbers that nothing uses."""
    declared, choose = resolved.experiment.seeds, resolved.experiment.choose or {}
    used = {*declared, *choose.get("seeds", ())}
    further = [seed for seed in range(most + len(used)) if seed not in used]
    seeds = (*declared, *further)[:most]
    grown = Builder(resolved.experiment.model_copy(update={"seeds": seeds}), resolved.choice).resolved()
    return replace(grown, choice=resolved.choice, chosen=resolved.chosen, file=resolved.file)


def setting_overlay(experiment: Experiment, name: str) -> Overlay:
    """Return what a named setting changes. With another source, columns and named splits of the file's do not hold."""
    overlay, data = dict(experiment.settings[name]) if name else {}, experiment.data
    if "source" not in overlay:
        return overlay
    fields = Data.model_fields
    columns = {column: fields[column].default for column in COLUMNS}
    splits = {split: fields[split].default for split in ("validation",) if isinstance(getattr(data, split), str)}
    return columns | splits | overlay


def count_combinations(section: Section) -> int:
    """Count the combinations of a section before exclusion and removal of duplicates, without building them."""
    return sum(prod(map(len, row.get("axes", {}).values())) for row in section.trained().values())


def combinations(row: Mapping[str, Any], base: Overlay, settings: Overlay) -> tuple[list[Overlay], list[int]]:
    """Return the overlay of each combination of a row, base included, and the positions of excludes that match none.

    `settings`: the experiment's settings, which an exclude may name too.
    """
    axes, excludes = row.get("axes", {}), row.get("exclude", ())
    kept, matched = list[Overlay](), set[int]()
    for combination in product(*axes.values()):
        overlay = base | settings_of_row(row) | dict(zip(axes, combination, strict=True))
        chosen = (settings | overlay).items()
        matching = [number for number, exclude in enumerate(excludes) if exclude.items() <= chosen]
        matched.update(matching)
        if not matching:
            kept.append(overlay)
    return kept, [number for number in range(len(excludes)) if number not in matched]


def plugins_of(cell: Cell) -> tuple[str, ...]:
    """Return the copies of the users' files that a cell uses."""
    objective = cell.objective
    pooling = registry.poolings()[cell.encoder.pooling]
    used: list[registry.RegistryEntry[Any]] = [*objective.loss_entries(), objective.view_entry(), pooling]
    if kind := own_encoder(cell.encoder):
        used.append(registry.encoders()[kind])
    return registry.plugins_with(used)


class Builder:
    """Builds the cells of one experiment; variants, equal parts and equal cells are cached. `choice`: the values that
    were chosen for rows."""

    def __init__(self, experiment: Experiment, choice: Mapping[RowKey, Overlay] | None = None) -> None:
        self.experiment = experiment
        self.settings: Overlay = {  # before any section changes them
            name: getattr(getattr(experiment, part), name) for name, part in SETTINGS.items()
        }
        self.seeds = experiment.seeds
        self.parts: dict[tuple[Any, ...], Settings] = {}
        self.rows: dict[tuple[Any, ...], tuple[Cell, ...]] = {}  # an overlay → its cells
        self.cells: dict[Cell, tuple[Cell, ...]] = {}  # cell of the first seed → cells of all seeds
        self.sections = [  # number of a section in the file, and a setting in which it is asked
            (number, setting)
            for number, section in enumerate(experiment.sections)
            for setting in experiment.settings_of(section)
        ]
        self.unmatched: list[dict[str, list[int]]] = []  # the same order → row → positions of excludes without effect
        self.variants: list[dict[str, list[Overlay]]] = []  # … → row → settings of each combination, unchecked
        for number, setting in self.sections:
            section = experiment.sections[number]
            base = setting_overlay(experiment, setting) | dict(section.base)
            self.unmatched.append({})
            self.variants.append({})
            for key, row in section.trained().items():
                kept, self.unmatched[-1][key] = combinations(row, base, self.settings)
                kept = [each | (choice or {}).get((number, setting, key, i), {}) for i, each in enumerate(kept)]
                self.variants[-1][key] = list(map(self.relevant, kept))

    def resolved(self) -> LoadedExperiment:
        """Return every row of every section and every distinct cell of a checked experiment."""
        sections = []
        for (number, setting), variants in zip(self.sections, self.variants, strict=True):
            section = self.experiment.sections[number]
            title = f"{section.title} ({setting})" if len(self.experiment.settings) > 1 else section.title
            sections.append(GridSection(number, section, setting, title, _rows(section, variants, self)))
        cells = tuple(cell for cells in self.cells.values() for cell in cells)
        return LoadedExperiment(self.experiment, tuple(sections), cells)

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
            cell = cell.model_copy(update={"plugins": plugins_of(cell)}) if self.experiment.plugins else cell
            cells = self.cells.get(cell)
            if cells is None:
                cells = (cell, *(cell.model_copy(update={"seed": seed}) for seed in self.seeds[1:]))
                self.cells[cell] = cells
            self.rows[key] = cells
        return self.rows[key]

    def soup(self, members: Sequence[Row]) -> tuple[Cell, ...]:
        """Return the cells with the mean weights of those of these rows."""
        plugins = tuple(sorted({copy for row in members for copy in row.cells[0].plugins}))
        mixed = (tuple(sorted(each, key=repr)) for each in zip(*(row.cells for row in members), strict=True))
        cells = tuple(each[0].model_copy(update={"soup": each, "plugins": plugins}) for each in mixed)
        return self.cells.setdefault(cells[0], cells)

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


def _rows(section: Section, variants: dict[str, list[Overlay]], builder: Builder) -> tuple[Row, ...]:
    """Return the rows of a section, those of its baseline first."""
    unordered = [row for key in section.trained() for row in _rows_of(key, section, variants[key], builder)]
    named = section.baseline_name()
    for key in [key for key in section.rows if key not in section.trained()]:
        cells = builder.soup([row for row in unordered if row.key in section.rows[key]["soup"]])
        unordered.append(Row(key, {}, key == named, cells, key, 0))
    rows = sorted(unordered, key=lambda row: not row.baseline)
    baselines = [(number, row) for number, row in enumerate(rows) if row.baseline]
    if not baselines:
        return tuple(rows)
    return tuple(row if row.baseline else replace(row, matching=_matching(row, baselines, section)) for row in rows)


def _rows_of(key: str, section: Section, variants: list[Overlay], builder: Builder) -> list[Row]:
    """Return a row for each combination of the row `key` of a section."""
    positions: dict[int, int] = {}  # id() of cells, which the builder makes once → their first combination
    for position, overlay in enumerate(variants):
        positions.setdefault(id(builder.row(overlay)), position)
    distinct = [builder.row(variants[position]) for position in positions.values()]
    axes, named, rows = section.rows[key].get("axes", {}), section.baseline_name(), []
    for cells in distinct:
        read = {name: setting_value(cells[0], name) for name in axes if name in settings_of_cell(cells[0])}
        label = key.format_map({name: short_value(name, read[name]) if name in read else DASH for name in axes})
        shown = {
            name: value if isinstance(value, int | float | str) else short_value(name, value)
            for name, value in read.items()
        }
        is_baseline = named != NO_BASELINE and named in (key, label)
        rows.append(Row(label, shown, is_baseline, cells, key, positions[id(cells)]))
    return rows


def _matching(row: Row, baselines: list[tuple[int, Row]], section: Section) -> tuple[int, ...]:
    """Return the number of the row that `baseline` names, or of its points that are equal in all axes that the row
    sets too."""
    if section.baseline_name() == baselines[0][1].label:
        return (baselines[0][0],)
    shared = {*section.rows[row.key], *section.rows[row.key].get("axes", ())} & {*settings_of_cell(row.cells[0])}
    ours = {name: setting_value(row.cells[0], name) for name in shared}
    return tuple(
        number
        for number, baseline in baselines
        if all(setting_value(baseline.cells[0], name) == ours[name] for name in baseline.axes if name in shared)
    )
