"""The cells of a section with what is recorded of them, and how a guard names them."""

import json
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from contrastive.config.experiment import PARTS, SETTINGS
from contrastive.runs.recorded import Provenance, RecordedRow, RecordedSection
from reports.load import Results
from reports.messages import Said, _, joined, n_

ROWS = 3  # that a sentence names; of the others it says how many there are
SEEDS = 5


@dataclass(frozen=True)
class Guard:
    """A warning above a table. `blocks_ranking`: nothing is ranked or compared below it."""

    kind: str
    words: Said
    blocks_ranking: bool


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
    for row in rows[:ROWS]:
        numbers = list(dict.fromkeys(str(cell.seed) for cell in row)) if seeds else []
        label, count = row[0].row.label, len(numbers)
        some = n_("{label}, seed {seeds}", "{label}, seeds {seeds}", count, label=label, seeds=listed(numbers))
        said.append(some if numbers else label)
    if len(rows) > ROWS:
        said.append(n_("and {count} more row", "and {count} more rows", len(rows) - ROWS))
    return joined(said, _("; "))


def listed(items: Sequence[object], most: int = SEEDS) -> Said:
    """`a, b and c`."""
    if len(items) > most:
        first = joined(items[:most], _(", "))
        return _("{first} and {rest} more", first=first, rest=len(items) - most, all=len(items))
    if len(items) < 2:
        return joined(items, "")
    return _("{first} and {last}", first=joined(items[:-1], _(", ")), last=items[-1])
