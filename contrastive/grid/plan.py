"""A grid with what is to be done for each cell, and what the report has to know about it."""

import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from contrastive.config.cell import Cell, Data
from contrastive.config.evaluation import Transfer
from contrastive.config.experiment import Experiment, margin_of
from contrastive.data import tokens, transfer_data
from contrastive.data.tokens import larger_test_key
from contrastive.errors import UserError
from contrastive.grid.expand import Resolved, Row
from contrastive.grid.identity import evaluation_key, token_settings
from contrastive.grid.status import Status, statuses, up_to_date
from contrastive.runs import fingerprint, store
from contrastive.runs.recorded import (
    DataCounts,
    Declaration,
    RecordedGrid,
    RecordedRow,
    RecordedSection,
    Reference,
    Stopping,
)


@dataclass(frozen=True)
class Plan:
    """A resolved experiment, and what the disk says of it: the state of each cell, and the keys of their tokens."""

    resolved: Resolved
    statuses: dict[Cell, Status]
    kept: tuple[str, ...] = ()  # ids of runs of older code that stand in for today's

    @property
    def experiment(self) -> Experiment:
        return self.resolved.experiment

    @property
    def to_do(self) -> list[Status]:
        return [status for status in self.statuses.values() if status.action != "reuse"]

    def name(self, cell: Cell) -> str:
        return self.resolved.names[cell]

    @property
    def sections(self) -> dict[Cell, list[str]]:
        """The titles of the sections that show a cell."""
        return self.resolved.titles

    def data_cells(self) -> dict[str, list[Cell]]:
        """Name of each data set → the first cell that has it, of each draw of its training texts: the texts of all
        others are the same."""
        firsts: dict[tuple[str, int | None], Cell] = {}
        for cell in self.resolved.cells:
            firsts.setdefault((self.resolved.data_names[cell.data], cell.train_sample_seed()), cell)
        by_data: dict[str, list[Cell]] = {}
        for (name, _), cell in firsts.items():
            by_data.setdefault(name, []).append(cell)
        return by_data

    def data_keys(self) -> dict[str, str]:
        """Name of each data set → key of the tokens of the first cell that has it."""
        return {name: self.token_key(cells[0]) for name, cells in self.data_cells().items()}

    def token_key(self, cell: Cell) -> str:
        """The key of a cell's tokens, made once for all cells that share them, of the data as it is by then."""
        settings = token_settings(cell)
        if settings not in self._token_keys:
            self._token_keys[settings] = tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed())
        return self._token_keys[settings]

    def test_key(self, cell: Cell) -> str:
        """The key of the tokens of the test texts that a cell is measured on: its own, or more."""
        count = self.experiment.evaluation.test
        return self.token_key(cell) if count is None else larger_test_key(self.token_key(cell), count)

    @cached_property
    def _token_keys(self) -> dict[Hashable, str]:
        return {}


def make_plan(resolved: Resolved, *, keep_stale: bool = False) -> Plan:
    evaluation = resolved.experiment.evaluation
    by_cell = {status.cell: status for status in statuses(resolved.cells, evaluation)}
    if not keep_stale:
        return Plan(resolved, by_cell)
    key = evaluation_key(evaluation)
    kept = {cell: _keep(status, key) for cell, status in by_cell.items() if status.older}
    return Plan(resolved, by_cell | kept, tuple(status.id for status in kept.values()))


def _keep(status: Status, key: str) -> Status:
    """The older run in the place of the one that today's code would make."""
    assert status.older is not None
    measured = up_to_date(store.run_folder(status.older), key)
    return replace(
        status, id=status.older, action="reuse" if measured else "evaluate", why=f"kept although {status.why}"
    )


def settings_by_name(cell: dict[str, Any]) -> dict[str, str]:
    """The settings of a cell, one name each; those of the objective without their part, as the axes name them."""
    settings = {}
    for part, values in cell.items():
        if not isinstance(values, dict):
            settings[part] = str(values)
            continue
        for name, value in values.items():
            if value is not None:
                key = name if part == "objective" else f"{part}.{name}"
                settings[key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return settings


def recorded_grid(plan: Plan, references: list[dict[str, Any]], stopping: Stopping | None = None) -> RecordedGrid:
    """The grid as the report reads it: sections, their rows, and the ids of the cells of a row."""
    names = plan.resolved.data_names
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
            for part in plan.resolved.sections
        ],
        references=[Reference(**reference) for reference in references],
        data=[
            DataCounts(**counts) for counts in dropped_row_counts(plan.data_keys(), plan.experiment.evaluation.transfer)
        ],
        failed={name: f"{failure['kind']}: {failure['error']}" for name, failure in failures.items()},
        stale_kept=list(plan.kept),
        declared=declarations(plan.experiment.name),
        stopping=stopping,
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


def grid_document(plan: Plan, references: list[dict[str, Any]], stopping: Stopping | None = None) -> dict[str, Any]:
    """The same as grid.json holds it."""
    return recorded_grid(plan, references, stopping).document()


def declare_plan(plan: Plan, most_seeds: int | None = None) -> None:
    """Note how the results will be judged, before there are any; a later change is noted beside it."""
    cells = {name for status in plan.statuses.values() for name in (status.id, status.older) if name}
    declare(plan.experiment.name, declaration(plan, most_seeds), cells)


def declaration(plan: Plan, most_seeds: int | None) -> Declaration:
    """How the results of an experiment are to be judged, as its file says now."""
    experiment = plan.experiment
    shown = {part.section.title: part.section.show.table for part in plan.resolved.sections}
    families = {title: experiment.report.family(table) for title, table in shown.items()}
    rows = {part.section.title: {settings_digest(row): row for row in part.rows} for part in plan.resolved.sections}
    more, own = experiment.evaluation.test, {str(cell.data.test) for cell in plan.resolved.cells}
    limits = {name: margin_of(name, experiment.report.margin) for names in families.values() for name in names}
    return Declaration(
        finished=sum(bool(s.older) or s.action in ("reuse", "evaluate") for s in plan.statuses.values()),
        margins={name: limit for name, limit in limits.items() if limit is not None},
        families=families,
        rows={part.section.title: [row.label for row in part.rows] for part in plan.resolved.sections},
        seeds=list(experiment.seeds) if most_seeds is None else [],
        most_seeds=most_seeds,
        configurations={title: {key: row.label for key, row in own.items()} for title, own in rows.items()},
        baselines={title: [key for key, row in own.items() if row.baseline] for title, own in rows.items()},
        test_texts=sorted(own) if more is None else [str(more)],
        embeddings=[*experiment.evaluation.vectors, *experiment.evaluation.post],
    )


def settings_digest(row: Row) -> str:
    """A configuration by its settings: its label says only what differs from the others of its section."""
    settings = settings_by_name(row.cells[0].model_dump(mode="json", exclude={"seed"}))
    return fingerprint.key("configuration", settings=settings)


def tokens_folder(key: str) -> Path:
    return store.cache_folder("tokens", key)


def dropped_row_counts(own: Mapping[str, str], transfers: Iterable[Transfer]) -> list[dict[str, Any]]:
    """Of each data set its name, whether it is transfer data, and its counts, as far as its tokens are there; `own` are
    the keys of the tokens of the cells' data, by its name."""
    sets = [
        {"name": name, "transfer": False, **counts} for name, key in own.items() for counts in counts_of_tokens(key)
    ]
    for transfer in transfers:
        first = next((counts for key in own.values() for counts in transfer_counts(transfer, key)), None)
        sets += [{"name": transfer.name, "transfer": True, **first}] if first is not None else []
    return sets


def transfer_counts(transfer: Transfer, own: str) -> Iterator[dict[str, Any]]:
    try:
        yield from counts_of_tokens(transfer_data.transfer_key(transfer, own))
    except UserError:  # its file is gone; what was measured on it stays
        return


def counts_of_tokens(key: str) -> Iterator[dict[str, Any]]:
    folder = store.cache_folder("tokens", key)
    if store.finished(folder):
        meta = store.read_json(folder / "meta.json")
        yield {name: meta[name] for name in ("sifted", "wordless", "merged")}


DECLARATIONS = TypeAdapter(list[Declaration])


def declare(experiment: str, now: Declaration, cells: Collection[str] = ()) -> None:
    """The first stays as long as there are results; what differs from the last one is noted after it. `cells`: ids of
    those that are planned, or stand for them. `now` counts the results of these; those of cells that were planned for
    the experiment before, and are no more, count too."""
    with store.locked(store.home() / "locks" / f"declared-{experiment}"):
        earlier = planned_before(experiment)
        if not earlier.issuperset(cells):
            store.write_json(cells_file(experiment), sorted(earlier | {*cells}))
        others = sum(store.finished(store.run_folder(cell)) for cell in earlier - {*cells})
        now = replace(now, finished=now.finished + others)
        before = declarations(experiment) if now.finished else []
        if not before or replace(before[-1], finished=now.finished) != now:
            store.write_json(declaration_file(experiment), DECLARATIONS.dump_python([*before, now], mode="json"))


def declarations(experiment: str) -> list[Declaration]:
    path = declaration_file(experiment)
    if not path.exists():
        return []
    try:
        return DECLARATIONS.validate_json(path.read_bytes())
    except ValidationError:
        raise UserError(f"{path} is damaged: restore it, or delete it; then nothing tells what was declared") from None


def planned_before(experiment: str) -> set[str]:
    path = cells_file(experiment)
    return set(store.read_json(path)) if path.exists() else set()


def cells_file(experiment: str) -> Path:
    return store.home() / "declared" / "cells" / f"{experiment}.json"


def declaration_file(experiment: str) -> Path:
    return store.home() / "declared" / f"{experiment}.json"
