"""Guards of single rows (missing results, other seeds, no baseline), and the section cells that all guards read."""

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from contrastive.config.experiment import PARTS, SETTINGS
from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.messages import N_, _, n_
from reports.study import CellRun, Results

NAMED_ROWS = 3  # rows that a sentence names; the others are counted
NAMED_ITEMS = 5  # items that a list names; the others are counted


@dataclass(frozen=True)
class Guard:
    """A warning above a table."""

    kind: str
    words: str
    blocks_ranking: bool = False  # True if nothing is ranked or compared in the table


@dataclass(frozen=True, eq=False)
class SectionCell:
    """A cell in its row of a section, with its run in MLflow."""

    row: RecordedRow
    seed: int
    cell: str
    run: CellRun  # of status "missing" if MLflow has none

    def setting(self, name: str) -> str:
        """Return a setting's recorded value, or its default; objective settings have no prefix (`loss`)."""
        return self.run.params.get(name, default(name))


@cache
def default(setting: str) -> str:
    """Return the value of a setting that a run did not record, such as one that was added later."""
    name = setting.rpartition(".")[2]
    model = PARTS.get(SETTINGS.get(name, ""))
    if model is None or model.model_fields[name].is_required():
        return "left out"
    value = model.model_fields[name].default
    return (
        value if isinstance(value, str) else json.dumps(value.model_dump() if isinstance(value, BaseModel) else value)
    )


def section_cells(section: RecordedSection, results: Results) -> list[SectionCell]:
    """Return the cells of a section, row by row."""
    return [
        SectionCell(row, seed, cell, results.cells.get(cell) or CellRun(cell, "missing", why))
        for row in section.rows
        for cell, seed in zip(row.cells, row.seeds, strict=True)
        for why in [results.study.failed.get(cell, "not in MLflow")]
    ]


def declared(section: RecordedSection, results: Results) -> set[str]:
    """Return the settings in which a section's rows may differ: its axes, those in `include`, those of its baseline."""
    names = {name for row in section.rows for name in row.axes}
    return names | results.study.varied.get(section.title, set())


def values_of(results: Results, cells: Iterable[SectionCell], name: str) -> dict[str, float]:
    """Return a score by cell id, without the cells that lack it."""
    if name not in results.scores.columns:
        return {}
    ids = [cell.cell for cell in cells]
    values = results.scores[name].reindex(ids).tolist()
    return {cell: value for cell, value in zip(ids, values, strict=True) if not math.isnan(value)}


def grouped(cells: Iterable[SectionCell], key: Callable[[SectionCell], Hashable]) -> dict[Any, list[SectionCell]]:
    groups: dict[Any, list[SectionCell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


def where(cells: Sequence[SectionCell], *, seeds: bool = True) -> str:
    """Name cells by row and seed: `ce, seed 1; ce+supcon, seeds 0 and 1; and 7 more rows`."""
    rows, names = list(grouped(cells, lambda cell: id(cell.row)).values()), list[str]()
    for row in rows[:NAMED_ROWS]:
        numbers = list(dict.fromkeys(str(cell.seed) for cell in row)) if seeds else []
        label, count = row[0].row.label, len(numbers)
        phrase = n_("{label}, seed {seeds}", "{label}, seeds {seeds}", count, label=label, seeds=listed(numbers))
        names.append(phrase if numbers else label)
    if len(rows) > NAMED_ROWS:
        names.append(n_("and {count} more row", "and {count} more rows", len(rows) - NAMED_ROWS))
    return _("; ").join(names)


def listed(items: Sequence[object], most: int = NAMED_ITEMS) -> str:
    """Join items in a sentence: `a, b and c`, or `a, b, c, d, e and 4 more`."""
    if len(items) > most:
        first = _(", ").join(map(str, items[:most]))
        return _("{first} and {rest} more", first=first, rest=len(items) - most, all=len(items))
    if len(items) < 2:
        return "".join(map(str, items))
    return _("{first} and {last}", first=_(", ").join(map(str, items[:-1])), last=items[-1])


STATES = {
    "running": N_("running"), "failed": N_("failed"), "diverged": N_("diverged"), "unfinished": N_("unfinished"),
}  # fmt: skip


def unequal_seeds(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of rows with other seeds than the first row, where rows may not differ: in a study that adds seeds, and in a
    table of another program, they may."""
    rows = list(grouped(cells, lambda cell: id(cell.row)).values())
    seeds = [sorted(cell.seed for cell in row) for row in rows]
    other = [cell for row, row_seeds in zip(rows, seeds, strict=True) if row_seeds != seeds[0] for cell in row]
    if other and not results.study.any_seeds:
        words = _(
            "These rows have other seeds than the first row and cannot be paired with it: {location}.",
            location=where(other),
        )
        yield Guard("seeds", words, True)


def without_provenance(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    unknown = [cell for cell in cells if cell.run.status == "finished" and not cell.run.provenance]
    if unknown and results.study.foreign is None:
        words = _("The origin of these numbers is not recorded: {location}.", location=where(unknown))
        yield Guard("provenance", words, True)


def smaller_micro_batch(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    smaller = [
        cell
        for cell in cells
        if cell.run.provenance and cell.run.params and cell.run.provenance.micro_batch is not None
        if json.dumps(cell.run.provenance.micro_batch) != cell.setting("training.micro_batch")
    ]
    if smaller:
        words = _(
            "For lack of memory, fewer examples were encoded at a time than the settings say: {location}.",
            location=where(smaller),
        )
        yield Guard("micro-batch", words)


def unfinished(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of cells without a result, with one sentence per reason."""
    missing = [cell for cell in cells if cell.run.status != "finished"]
    for (status, error), group in grouped(missing, lambda cell: (cell.run.status, cell.run.error)).items():
        state = [] if status == "missing" else [_(STATES.get(status, status))]
        why = _(": ").join([*state, *([error] if error else [])])
        yield Guard("missing", _("{where}: {why}", where=where(group), why=why), blocks_ranking=True)


def unmeasured(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of finished cells that lack a score of the table."""
    finished = [cell for cell in cells if cell.run.status == "finished"]
    for value in section.show.table.values:
        measured = values_of(results, finished, value)
        data = {cell.row.data for cell in finished if cell.cell in measured}  # a task may have a score of its own
        without = [cell for cell in finished if cell.cell not in measured]
        if without := [cell for cell in without if results.study.foreign is None or cell.row.data in data or not data]:
            ours = results.study.foreign is None
            text = N_("{where}: finished, without {value}") if ours else N_("{where}: no value of {value}")
            words = _(text, where=where(without), value=value)
            if why := reasons_missing(without, value, results):
                words = _("{said}: {why}", said=words, why=why)
            if not ours:
                words = _("{said}. A row with missing runs is not called better or equivalent.", said=words)
            yield Guard("missing score", words, True)


def reasons_missing(cells: list[SectionCell], value: str, results: Results) -> str:
    """Return the reasons that the evaluation noted for missing scores of the same split."""
    split = value.rpartition(".")[0]
    notes = [note for cell in cells for note in results.notes.get(cell.cell, {}).items()]
    reasons = list({why: None for name, why in notes if name.rpartition(".")[0] == split})
    return "; ".join(reasons) if len(reasons) <= NAMED_ITEMS else listed(reasons)


def as_read(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Say how another program's runs were read."""
    for number, note in enumerate(results.study.foreign.notes if results.study.foreign else ()):
        yield Guard(f"read {number}", note)


def one_seed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    if cells and max(len(row.seeds) for row in section.rows) == 1:
        words = _("One seed per row: the spread between seeds is unknown, so no difference can be tested.")
        yield Guard("one seed", words, True)


def no_baseline(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of a baseline without results, or of rows without a baseline, if the section declares one."""
    if len(section.rows) < 2 or section.title not in results.study.baselines:
        return
    without = [cell for cell in cells if not cell.row.baseline and cell.row.against is None]
    if not any(cell.row.baseline and cell.run.status == "finished" for cell in cells):
        yield Guard("baseline", _("The baseline has no results: nothing is compared with it."))
    elif without:
        yield Guard("baseline", _("These rows have no baseline: {location}.", location=where(without, seeds=False)))


CHECKS = (
    unfinished,
    unmeasured,
    one_seed,
    unequal_seeds,
    without_provenance,
    smaller_micro_batch,
    as_read,
    no_baseline,
)
