"""Plan a grid: the status of each cell, the record of the grid for the report, and the declaration of its judgement."""

import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from contrastive.config.cell import PARTS, Cell
from contrastive.config.evaluation import Transfer
from contrastive.config.experiment import Experiment, choices_of
from contrastive.config.scores import margin_of
from contrastive.data import tokens, transfer_data
from contrastive.data.tokens import larger_test_key
from contrastive.errors import UserError
from contrastive.grid.expand import LoadedExperiment, Row
from contrastive.grid.identity import token_settings
from contrastive.grid.status import Status, statuses
from contrastive.runs import fingerprint, store
from contrastive.runs.recorded import (
    ChosenRow,
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
    """A resolved experiment with the status of each cell on disk, and the keys of their tokens."""

    resolved: LoadedExperiment
    statuses: dict[Cell, Status]

    @property
    def experiment(self) -> Experiment:
        return self.resolved.experiment

    @property
    def to_do(self) -> list[Status]:
        return [status for status in self.statuses.values() if status.action != "reuse"]

    @property
    def to_train(self) -> list[Cell]:
        return [status.cell for status in self.statuses.values() if status.trains]

    @property
    def most_threads(self) -> int:
        """The largest `training.threads` of the cells to do: sections may differ."""
        return max((status.cell.training.threads for status in self.to_do), default=1)

    def name(self, cell: Cell) -> str:
        return self.resolved.names[cell]

    def data_cells(self) -> dict[str, list[Cell]]:
        """Return data set name → one cell for each draw of its training texts; all other cells have the same texts."""
        firsts: dict[str, dict[int | None, Cell]] = {}
        for cell in self.resolved.cells:
            firsts.setdefault(self.resolved.data_names[cell.data], {}).setdefault(cell.train_sample_seed(), cell)
        return {name: [*by_seed.values()] for name, by_seed in firsts.items()}

    def token_key(self, cell: Cell) -> str:
        """Return the key of a cell's tokens; the data is read at the first call for each set of tokens."""
        settings = token_settings(cell)
        if settings not in self._token_keys:
            self._token_keys[settings] = tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed())
        return self._token_keys[settings]

    def test_key(self, cell: Cell) -> str:
        """Return the token key of the test texts that a cell is evaluated on: its own, or the larger test set."""
        count = self.experiment.evaluation.test
        return self.token_key(cell) if count is None else larger_test_key(self.token_key(cell), count)

    @cached_property
    def _token_keys(self) -> dict[Hashable, str]:
        return {}


def make_plan(resolved: LoadedExperiment) -> Plan:
    """Look up the status of each cell."""
    evaluation = resolved.experiment.evaluation
    return Plan(resolved, {status.cell: status for status in statuses(resolved.cells, evaluation)})


def settings_by_name(cell: dict[str, Any]) -> dict[str, str]:
    """Flatten the settings of a cell to `part.name`; objective settings keep their bare name, as in axes."""
    settings = {}
    for part, values in cell.items():
        if part == "soup" and values:
            members = [[member[part] for part in PARTS] for member in values]
            settings[part] = f"the mean of {len(values)} rows ({fingerprint.key('soup', members=members)})"
        if part in ("plugins", "soup"):
            continue
        if not isinstance(values, dict):
            settings[part] = str(values)
            continue
        for name, value in values.items():
            if value is not None:
                key = name if part == "objective" else f"{part}.{name}"
                settings[key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return settings


def recorded_grid(plan: Plan, references: list[dict[str, Any]], stopping: Stopping | None = None) -> RecordedGrid:
    """Return the grid as the report reads it: sections, rows, and the ids of their cells."""
    keys = {name: plan.token_key(cells[0]) for name, cells in plan.data_cells().items()}
    failures = {s.id: failure for s in plan.statuses.values() if (failure := store.failure(store.run_folder(s.id)))}
    return RecordedGrid(
        experiment=plan.experiment,
        sections=[
            RecordedSection(
                part.title,
                part.section.note,
                part.section.show,
                [recorded_row(row, plan, part.section.rows[row.key].get("soup", ())) for row in part.rows],
                part.section.title,
                part.setting,
            )
            for part in plan.resolved.sections
        ],
        references=[Reference(**reference) for reference in references],
        data=[*data_counts(keys, plan.experiment.evaluation.transfer)],
        failed={name: f"{failure['kind']}: {failure['error']}" for name, failure in failures.items()},
        declared=recorded_declarations(plan.experiment.name),
        stopping=stopping,
        chosen=list(plan.resolved.chosen),
        file=plan.resolved.file,
    )


def recorded_row(row: Row, plan: Plan, soup: Collection[str]) -> RecordedRow:
    """Return a row as the report reads it. `soup`: the names of the rows whose weights it averages."""
    settings = settings_by_name(row.cells[0].model_dump(mode="json", exclude={"seed"}))
    return RecordedRow(
        label=row.label,
        axes=row.axes,
        baseline=row.baseline,
        data=plan.resolved.data_names[row.cells[0].data],
        cells=[plan.statuses[cell].id for cell in row.cells],
        seeds=[cell.seed for cell in row.cells],
        against=row.against,
        settings=settings | ({"soup": " + ".join(soup)} if soup else {}),
    )


def declare_plan(plan: Plan, stopping: Stopping | None = None) -> None:
    """Record how the results will be judged before there are any; later changes are appended."""
    cells = {name for status in plan.statuses.values() for name in (status.id, status.older) if name}
    declare(plan.experiment.name, declaration(plan, stopping), cells)


def declaration(plan: Plan, stopping: Stopping | None) -> Declaration:
    """Return how the results of an experiment will be judged, according to its current file."""
    experiment = plan.experiment
    shown = {part.title: part.section.show.table for part in plan.resolved.sections}
    families = {title: experiment.report.family(table) for title, table in shown.items()}
    chosen = choices_of(experiment.choose or {})
    rows = {part.title: {settings_digest(row, chosen): row for row in part.rows} for part in plan.resolved.sections}
    more, test_texts = experiment.evaluation.test, {str(cell.data.test) for cell in plan.resolved.cells}
    limits = {name: margin_of(name, experiment.report.margin) for names in families.values() for name in names}
    return Declaration(
        finished=sum(bool(s.older) or s.action in ("reuse", "evaluate") for s in plan.statuses.values()),
        margins={name: limit for name, limit in limits.items() if limit is not None},
        families=families,
        rows={part.title: [row.label for row in part.rows] for part in plan.resolved.sections},
        seeds=list(experiment.seeds) if stopping is None else [],
        most_seeds=None if stopping is None else stopping.most_seeds,
        gives_up=stopping is not None and stopping.gives_up,
        configurations={title: {key: row.label for key, row in by_key.items()} for title, by_key in rows.items()},
        baselines={title: [key for key, row in by_key.items() if row.baseline] for title, by_key in rows.items()},
        test_texts=sorted(test_texts) if more is None else [str(more)],
        embeddings=[*experiment.evaluation.vectors, *experiment.evaluation.post],
        chosen=declared_values(plan.resolved.chosen),
        tried=sorted({value for row in plan.resolved.chosen for value in row.tried}),
    )


def declared_values(chosen: Iterable[ChosenRow]) -> dict[str, str]:
    """Map each row that has chosen values, or writes them itself, to all of them."""
    values = dict[str, list[str]]()
    for each in chosen:
        values.setdefault(f"{each.section}, {each.row}", []).append(each.chosen)
    return {row: ", ".join(texts) for row, texts in values.items()}


def settings_digest(row: Row, chosen: Collection[str] = ()) -> str:
    """Digest the settings of a row but those that are chosen for it, which are declared by themselves."""
    return _cell_digest(row.cells[0], chosen)


def _cell_digest(cell: Cell, chosen: Collection[str]) -> str:
    every = settings_by_name(cell.model_dump(mode="json", exclude={"seed", "soup"}))
    settings = {name: value for name, value in every.items() if name.rpartition(".")[2] not in chosen}
    members = {"soup": [_cell_digest(member, chosen) for member in cell.soup]} if cell.soup else {}
    return fingerprint.key("configuration", settings=settings, **members)


def tokens_folder(key: str) -> Path:
    return store.cache_folder("tokens", key)


def data_counts(keys: Mapping[str, str], transfers: Iterable[Transfer]) -> Iterator[DataCounts]:
    """Yield the row counts of each data set that has tokens. `keys`: data set name → token key of the cells' data."""
    for name, key in keys.items():
        if (counts := counts_of_tokens(key)) is not None:
            yield DataCounts(name, False, **counts)
    for transfer in transfers:
        with suppress(UserError):  # the file was deleted, but scores of it are recorded
            each = (counts_of_tokens(transfer_data.transfer_key(transfer, key)) for key in keys.values())
            if (counts := next(filter(None, each), None)) is not None:
                yield DataCounts(transfer.name, True, **counts)


def counts_of_tokens(key: str) -> dict[str, Any] | None:
    folder = tokens_folder(key)
    if not store.finished(folder):
        return None
    meta = store.read_json(folder / "meta.json")
    return {name: meta[name] for name in ("sifted", "wordless", "merged")}


def name_cells(experiment: str, cells: Collection[str]) -> set[str]:
    """Add ids to those of an experiment's cells; return the earlier ones."""
    with store.locked(store.home() / "locks" / f"declared-{experiment}"):
        path = store.home() / "declared" / "cells" / f"{experiment}.json"
        store.write_json(path.with_suffix(".now"), sorted(cells))  # `ablate clean` removes others
        earlier: set[str] = set(store.read_json(path)) if path.exists() else set()
        if not earlier.issuperset(cells):
            store.write_json(path, sorted(earlier | {*cells}))
        return earlier


DECLARATIONS = TypeAdapter(list[Declaration])


def declare(experiment: str, now: Declaration, cells: Collection[str] = ()) -> None:
    """Keep the first declaration once results exist, and append each later change. `cells`: ids of planned cells and of
    the older runs of stale ones. `now.finished` counts their results; results of cells that were planned before are
    added."""
    earlier = name_cells(experiment, cells)
    with store.locked(store.home() / "locks" / f"declared-{experiment}"):
        others = sum(store.finished(store.run_folder(cell)) for cell in earlier - {*cells})
        now = replace(now, finished=now.finished + others)
        before = recorded_declarations(experiment) if now.finished else []
        if not before or replace(before[-1], finished=now.finished) != now:
            store.write_json(declaration_file(experiment), DECLARATIONS.dump_python([*before, now], mode="json"))


def recorded_declarations(experiment: str) -> list[Declaration]:
    path = declaration_file(experiment)
    if not path.exists():
        return []
    try:
        return DECLARATIONS.validate_json(path.read_bytes())
    except ValidationError:
        raise UserError(f"{path} is damaged: restore a backup, or delete it, which loses what was declared") from None


def restore_declarations(experiment: str, held: list[Declaration]) -> list[Declaration]:
    """Return the declarations of an experiment, which begin with those that MLflow has (`held`): a file that does not
    was changed by hand, and is put back."""
    with store.locked(store.home() / "locks" / f"declared-{experiment}"):
        now = recorded_declarations(experiment)
        if now[: len(held)] == held:
            return now
        restored = [*held, *(each for each in now[-1:] if each != held[-1])]
        store.write_json(declaration_file(experiment), DECLARATIONS.dump_python(restored, mode="json"))
        return restored


def declaration_file(experiment: str) -> Path:
    return store.home() / "declared" / f"{experiment}.json"
