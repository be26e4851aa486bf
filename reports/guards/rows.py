"""The cells of a section with what is recorded of them, and what must hold of each row."""

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from pydantic import BaseModel

from contrastive.config.experiment import PARTS, SETTINGS
from contrastive.runs.recorded import Provenance, RecordedRow, RecordedSection
from reports.load import Results
from reports.messages import Message, Said, _, joined, n_

NAMED_ROWS = 3  # that a sentence names; of the others it says how many there are
NAMED_ITEMS = 5


@dataclass(frozen=True)
class Guard:
    """A warning above a table. `blocks_ranking`: nothing is ranked or compared below it."""

    kind: str
    words: Said
    blocks_ranking: bool = False


@dataclass(frozen=True, eq=False)
class SectionCell:
    """A cell in its row of a section, with what MLflow holds of it."""

    row: RecordedRow
    seed: int
    cell: str
    status: str  # missing: MLflow holds nothing
    error: str = ""
    params: dict[str, str] | None = None
    provenance: Provenance | None = None
    evaluation: str = ""

    def setting(self, name: str) -> str:
        """A setting as the run has it; those of the objective go without their part."""
        return (self.params or {}).get(name, default(name))


@cache
def default(setting: str) -> str:
    """What a setting is of which nothing is noted, as of one that was added since."""
    name = setting.rpartition(".")[2]
    model = PARTS.get(SETTINGS.get(name, ""))
    if model is None or model.model_fields[name].is_required():
        return "left out"
    value = model.model_fields[name].default
    return (
        value if isinstance(value, str) else json.dumps(value.model_dump() if isinstance(value, BaseModel) else value)
    )


def section_cells(section: RecordedSection, results: Results) -> list[SectionCell]:
    cells = []
    for row in section.rows:
        for cell, seed in zip(row.cells, row.seeds, strict=True):
            if run := results.cells.get(cell):
                own = (run.status, run.error, run.params, run.provenance, run.evaluation)
                cells.append(SectionCell(row, seed, cell, *own))
            else:
                cells.append(SectionCell(row, seed, cell, "missing", results.grid.failed.get(cell, "not in MLflow")))
    return cells


def declared(section: RecordedSection, results: Results) -> set[str]:
    """Settings in which the rows of a section may differ: its axes, what `include` names, what its baseline sets."""
    names = {name for row in section.rows for name in row.axes}
    for definition in results.grid.experiment.sections:
        if definition.title == section.title:
            names |= {*definition.axes, *definition.baseline}
            names |= {name for further in definition.include for name in further}
    return names


def values_of(results: Results, cells: Iterable[SectionCell], name: str) -> dict[str, float]:
    """A score of these cells, of those that have it."""
    if name not in results.scores.columns:
        return {}
    names = [cell.cell for cell in cells]
    held = results.scores[name].reindex(names).tolist()
    return {cell: value for cell, value in zip(names, held, strict=True) if not math.isnan(value)}


def grouped(cells: Iterable[SectionCell], key: Callable[[SectionCell], Hashable]) -> dict[Any, list[SectionCell]]:
    groups: dict[Any, list[SectionCell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


def where(cells: Sequence[SectionCell], *, seeds: bool = True) -> Said:
    """`ce, seed 1; ce+supcon, seeds 0 and 1; and 7 more rows`."""
    rows, said = list(grouped(cells, lambda cell: id(cell.row)).values()), list[Said]()
    for row in rows[:NAMED_ROWS]:
        numbers = list(dict.fromkeys(str(cell.seed) for cell in row)) if seeds else []
        label, count = row[0].row.label, len(numbers)
        some = n_("{label}, seed {seeds}", "{label}, seeds {seeds}", count, label=label, seeds=listed(numbers))
        said.append(some if numbers else label)
    if len(rows) > NAMED_ROWS:
        said.append(n_("and {count} more row", "and {count} more rows", len(rows) - NAMED_ROWS))
    return joined(said, _("; "))


def listed(items: Sequence[object], most: int = NAMED_ITEMS) -> Said:
    """`a, b and c`."""
    if len(items) > most:
        first = joined(items[:most], _(", "))
        return _("{first} and {rest} more", first=first, rest=len(items) - most, all=len(items))
    if len(items) < 2:
        return joined(items, "")
    return _("{first} and {last}", first=joined(items[:-1], _(", ")), last=items[-1])


Find: TypeAlias = Callable[[RecordedSection, Results, list[SectionCell]], list[SectionCell]]

STATES = {
    "running": _("running"), "failed": _("failed"), "diverged": _("diverged"), "unfinished": _("unfinished"),
}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Name the cells that `find` returns, if any, in a sentence that ends with them."""

    kind: str
    find: Find
    says: Message
    blocks: bool
    seeds: bool = True  # whether the sentence names the seeds of a row


def unequal_seeds(section: RecordedSection, results: Results, cells: list[SectionCell]) -> list[SectionCell]:
    """Cells of rows that have other seeds than the first row. A study that stops by itself gives each row its own."""
    rows = list(grouped(cells, lambda cell: id(cell.row)).values())
    seeds = [sorted(cell.seed for cell in row) for row in rows]
    if results.grid.stopping is not None:
        return []
    return [cell for row, own in zip(rows, seeds, strict=True) if own != seeds[0] for cell in row]


def without_provenance(section: RecordedSection, results: Results, cells: list[SectionCell]) -> list[SectionCell]:
    return [cell for cell in cells if cell.status == "finished" and not cell.provenance]


def with_smaller_micro_batch(section: RecordedSection, results: Results, cells: list[SectionCell]) -> list[SectionCell]:
    return [
        cell
        for cell in cells
        if cell.provenance and cell.params and cell.provenance.micro_batch is not None
        if json.dumps(cell.provenance.micro_batch) != cell.setting("training.micro_batch")
    ]


def without_baseline(section: RecordedSection, results: Results, cells: list[SectionCell]) -> list[SectionCell]:
    """Cells of rows that have none, where the section declares one that has results."""
    alone = [cell for cell in cells if not cell.row.baseline and cell.row.against is None]
    return alone if wants_baseline(section, results) and baseline_finished(cells) else []


ROWS = (
    Rows("seeds", unequal_seeds, _("Rows with other seeds than the first one cannot be paired with it: {location}."),
         True),
    Rows("provenance", without_provenance, _("Nothing tells where these numbers come from: {location}."), True),
    Rows("micro-batch", with_smaller_micro_batch,
         _("For lack of memory, fewer texts were encoded at a time than the settings say: {location}."), False),
    Rows("baseline", without_baseline, _("Without a baseline: {location}."), False, seeds=False),
)  # fmt: skip


def rows(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    for row in ROWS:
        if found := row.find(section, results, cells):
            yield Guard(row.kind, row.says.of(location=where(found, seeds=row.seeds)), row.blocks)


def unfinished(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Cells without a result, those of one reason in one sentence."""
    holes = [cell for cell in cells if cell.status != "finished"]
    for (status, error), group in grouped(holes, lambda cell: (cell.status, cell.error)).items():
        state = [] if status == "missing" else [STATES.get(status, status)]
        why = joined([*state, *([error] if error else [])], _(": "))
        yield Guard("missing", _("{where}: {why}", where=where(group), why=why), True)


def unmeasured(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Finished cells without a score that the table shows."""
    finished = [cell for cell in cells if cell.status == "finished"]
    for value in section.show.table.values:
        held = values_of(results, finished, value)
        if without := [cell for cell in finished if cell.cell not in held]:
            said = _("{where}: finished, without {value}", where=where(without), value=value)
            if why := left_out(without, value, results):
                said = _("{said}: {why}", said=said, why=why)
            yield Guard("missing score", said, True)


def left_out(cells: list[SectionCell], value: str, results: Results) -> str:
    """Why the texts of a score's split could not have all scores, as the evaluation noted it."""
    split = value.rpartition(".")[0]
    notes = (results.notes.get(cell.cell, {}).items() for cell in cells)
    return "; ".join({why: None for some in notes for name, why in some if name.rpartition(".")[0] == split})


def one_seed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    if cells and max(len(row.seeds) for row in section.rows) == 1:
        words = _("One seed a row: nothing is known of the spread between seeds, no difference can be called real.")
        yield Guard("one seed", words, True)


def no_baseline(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    if wants_baseline(section, results) and not baseline_finished(cells):
        yield Guard("baseline", _("The baseline has no results: nothing is compared with it."))


def wants_baseline(section: RecordedSection, results: Results) -> bool:
    definitions = [each for each in results.grid.experiment.sections if each.title == section.title]
    known = len(section.rows) > 1 and section.rows[0].settings is not None  # older grids recorded no settings
    return known and any(definition.baseline for definition in definitions)


def baseline_finished(cells: list[SectionCell]) -> bool:
    return any(cell.row.baseline and cell.status == "finished" for cell in cells)


CHECKS = (unfinished, unmeasured, one_seed, rows, no_baseline)
