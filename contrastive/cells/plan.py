"""A grid with what is to be done for each cell, and what the report has to know about it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from contrastive.cells.grid import Grid, Row, cell_name, expand, short
from contrastive.cells.identity import evaluation_key
from contrastive.cells.sifted import sifted
from contrastive.cells.status import Status, statuses, up_to_date
from contrastive.config.cell import Cell, Data
from contrastive.config.experiment import Experiment
from contrastive.runs import store
from contrastive.runs.recorded import DataCounts, RecordedGrid, RecordedRow, RecordedSection, Reference


@dataclass(frozen=True)
class Plan:
    grid: Grid
    statuses: dict[Cell, Status]
    kept: tuple[str, ...] = ()  # ids of runs of older code that stand in for today's

    @property
    def experiment(self) -> Experiment:
        return self.grid.experiment

    @property
    def to_do(self) -> list[Status]:
        return [status for status in self.statuses.values() if status.action != "reuse"]

    def name(self, cell: Cell) -> str:
        return cell_name(cell, self.experiment)

    @cached_property
    def sections(self) -> dict[Cell, list[str]]:
        """The titles of the sections that show a cell."""
        found: dict[Cell, dict[str, None]] = {}
        for part in self.grid.sections:
            for row in part.rows:
                for cell in row.cells:
                    found.setdefault(cell, {})[part.section.title] = None
        return {cell: list(titles) for cell, titles in found.items()}


def make(experiment: Experiment, *, keep_stale: bool = False) -> Plan:
    grid = expand(experiment)
    found = {status.cell: status for status in statuses(grid.cells, experiment.evaluation)}
    if not keep_stale:
        return Plan(grid, found)
    key = evaluation_key(experiment.evaluation)
    kept = {cell: _keep(status, key) for cell, status in found.items() if status.older}
    return Plan(grid, found | kept, tuple(status.id for status in kept.values()))


def _keep(status: Status, key: str) -> Status:
    """The older run in the place of the one that today's code would make."""
    assert status.older is not None
    measured = up_to_date(store.run_folder(status.older), key)
    return replace(
        status, id=status.older, action="reuse" if measured else "evaluate", why=f"kept although {status.why}"
    )


def data_names(cells: Iterable[Cell]) -> dict[Data, str]:
    """How a report tells the data of cells apart: by the settings that differ; nothing where all have the same."""
    texts = {cell.data: cell.data.model_copy(update={"max_length": 128}) for cell in cells}  # of whatever length
    distinct = set(texts.values())
    differing = [name for name in Data.model_fields if len({getattr(data, name) for data in distinct}) > 1]

    def named(data: Data) -> str:
        values = {name: getattr(data, name) for name in differing}
        return ", ".join(str(v) if name == "source" else f"{name}={short(name, v)}" for name, v in values.items())

    return {data: named(plain) for data, plain in texts.items()}


def settings_by_name(cell: dict[str, Any]) -> dict[str, str]:
    """The settings of a cell, one name each; those of the objective without their part, as the axes name them."""
    found = {}
    for part, values in cell.items():
        if not isinstance(values, dict):
            found[part] = str(values)
            continue
        for name, value in values.items():
            if value is not None:
                key = name if part == "objective" else f"{part}.{name}"
                found[key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return found


def recorded(plan: Plan, references: list[dict[str, Any]]) -> RecordedGrid:
    """The grid as the report reads it: sections, their rows, and the ids of the cells of a row."""
    names = data_names(plan.statuses)
    failures = {s.id: failure for s in plan.statuses.values() if (failure := store.failure(store.run_folder(s.id)))}
    return RecordedGrid(
        experiment=plan.experiment,
        sections=[
            RecordedSection(
                part.section.title,
                part.section.note,
                part.section.show,
                [recorded_row(row, plan, names) for row in part.rows],
            )
            for part in plan.grid.sections
        ],
        references=[Reference(**reference) for reference in references],
        data=[DataCounts(**counts) for counts in sifted(names, plan.statuses, plan.experiment.evaluation.transfer)],
        failed={name: f"{failure['kind']}: {failure['error']}" for name, failure in failures.items()},
        stale_kept=list(plan.kept),
    )


def recorded_row(row: Row, plan: Plan, names: dict[Data, str]) -> RecordedRow:
    return RecordedRow(
        label=row.label,
        axes=row.axes,
        baseline=row.baseline,
        data=names[row.cells[0].data],
        cells=[plan.statuses[cell].id for cell in row.cells],
        seeds=[cell.seed for cell in row.cells],
        against=row.against,
        settings=settings_by_name(row.cells[0].model_dump(mode="json", exclude={"seed"})),
    )


def document(plan: Plan, references: list[dict[str, Any]]) -> dict[str, Any]:
    """The same as grid.json holds it."""
    return recorded(plan, references).document()
