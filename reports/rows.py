"""The rows of a section's tables: a configuration each, and one of its own for each variant of its vectors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.load import Results

ANY = "any of them"  # what a row is called that stands for all configurations


@dataclass(frozen=True)
class Row:
    """A configuration as a table shows it, with the vectors that trained or a variant of them."""

    recorded: RecordedRow
    number: int  # among all that the section shows
    position: int  # of its configuration in the section
    against: int | None  # the number of the row that it is compared with
    variant: str  # what its scores' names begin with; nothing for the vectors that trained
    label: str
    axes: dict[str, Any]

    @property
    def cells(self) -> list[str]:
        return self.recorded.cells

    @property
    def seeds(self) -> list[int]:
        return self.recorded.seeds

    @property
    def data(self) -> str:
        return self.recorded.data

    @property
    def baseline(self) -> bool:
        """Whether others are compared with it, and it with none."""
        return self.recorded.baseline and not self.variant


def shown_values(section: RecordedSection, results: Results) -> list[str]:
    """The scores that a section shows: those of its table, and those of transfer data where it asks for them."""
    more = transfer_values(results) if section.show.transfer else []
    return list(dict.fromkeys([*section.show.table.values, *more]))


def family_of(section: RecordedSection, results: Results) -> list[str]:
    """The scores that are tested: those that the table declares, the primary one where it shows it, or all."""
    family = results.grid.experiment.report.family(section.show.table)
    whole = family == list(section.show.table.values)
    return shown_values(section, results) if whole else family


def transfer_values(results: Results) -> list[str]:
    """What each transfer data set is known for, and their mean, as tables of GLUE have it."""
    tasks = results.grid.experiment.evaluation.transfer
    return [task.scores()[0] for task in tasks] + (["transfer.mean"] if len(tasks) > 1 else [])


def variants(values: Sequence[str], results: Results) -> list[str]:
    """What is put before these scores: nothing, and the further vectors and post-processing of which they are known."""
    evaluation = results.grid.experiment.evaluation
    prefixes = [
        "".join(f"{part}/" for part in (other, how) if part)
        for other in ("", *evaluation.vectors)
        for how in ("", *evaluation.post)
    ]
    return [p for p in prefixes if not p or any(f"{p}{value}" in results.scores.columns for value in values)]


def rows_of(section: RecordedSection, values: Sequence[str], results: Results) -> list[Row]:
    """Where vectors of several kinds are measured, which kind is one more axis. The vectors that trained are compared
    with those of the baseline, and others with those that trained the same cells. Vectors that are the same whatever
    trained are one row."""
    kinds = variants(values, results)
    alike = {kind for kind in kinds if never_differ(kind, section, values, results)}
    places = [(p, v) for p in range(len(section.rows)) for v in kinds if p == 0 or v not in alike]
    numbers = {key: number for number, key in enumerate(places)}
    rows = []
    for (position, variant), number in numbers.items():
        row = section.rows[position]
        beside = None if variant in alike else position if variant else row.against
        against = None if beside is None else numbers[beside, ""]
        shown = shown_row(row, number, position, against, variant, kinds != [""])
        rows.append(one_for_all(shown) if variant in alike else shown)
    return rows


def never_differ(kind: str, section: RecordedSection, values: Sequence[str], results: Results) -> bool:
    """Whether further vectors have the very same scores in every row, seed by seed: nothing trained reaches them."""
    rows = section.rows
    if not kind or len(rows) < 2 or len({(row.data, tuple(row.seeds)) for row in rows}) > 1:
        return False
    scores = [results.by_score[f"{kind}{value}"] for value in values if f"{kind}{value}" in results.by_score]
    held = [[[score.get(cell, math.nan) for score in scores] for cell in row.cells] for row in rows]
    return bool(scores) and all(own == held[0] for own in held)


def one_for_all(row: Row) -> Row:
    kind = row.variant.rstrip("/")
    return replace(row, label=f"{ANY} · {kind}", axes={"embedding": kind})


def shown_row(row: RecordedRow, number: int, position: int, against: int | None, variant: str, several: bool) -> Row:
    kind = variant.rstrip("/")
    axes = row.axes | {"embedding": kind or "as trained"} if several else row.axes
    label = f"{row.label} · {kind}" if variant else row.label
    return Row(row, number, position, against, variant, label, axes)


def references_of(section: RecordedSection, results: Results) -> dict[str, dict[str, float]]:
    """What the section's data is measured against, named with its data where there are several: name → scores."""
    here = {row.data for row in section.rows}
    return {
        f"{reference.name}, {reference.data}" if reference.data else reference.name: reference.scores
        for reference in results.grid.references
        if reference.data in here
    }
