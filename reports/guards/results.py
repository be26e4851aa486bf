"""Guards of results that are missing or odd, and the section cells that all guards read."""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive.config.scores import score_facts
from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.markdown import heading
from reports.messages import N_, _, listed, n_
from reports.study import CellRun, Results

NAMED_ROWS = 3  # rows that a sentence names; the others are counted
NEARLY = 1e-5  # tolerance for rounding at the ends of a range
TIMES = re.compile(r".*(_per_second|memory_mib|seconds)")  # scores that differ between runs of the same seed
SPLITS = ("test", "validation", "train")  # whose classes are counted
STATES = {
    "running": N_("running"), "failed": N_("failed"), "diverged": N_("diverged"), "unfinished": N_("unfinished"),
}  # fmt: skip


@dataclass(frozen=True)
class Guard:
    """A warning above a table."""

    kind: str
    words: str
    blocks_ranking: bool = False  # nothing is ranked or compared in the table
    leaves_rows_comparable: bool = False  # ranking is blocked, but complete rows may be compared seed by seed


@dataclass(frozen=True, eq=False)
class SectionCell:
    """A cell in its row of a section, with its run in MLflow."""

    row: RecordedRow
    seed: int
    cell: str
    run: CellRun  # of status "missing" if MLflow has none

    def setting(self, name: str) -> str:
        """Return a setting's recorded value; objective settings have no prefix (`loss`)."""
        return self.run.params.get(name, "left out")


def section_cells(section: RecordedSection, results: Results) -> list[SectionCell]:
    """Return the cells of a section, row by row."""
    return [
        SectionCell(row, seed, cell, results.cells.get(cell) or CellRun(cell, "missing", why))
        for row in section.rows
        for cell, seed in zip(row.cells, row.seeds, strict=True)
        for why in [results.study.failed.get(cell, "not in MLflow")]
    ]


def finished_cells(cells: Iterable[SectionCell]) -> list[SectionCell]:
    return [cell for cell in cells if cell.run.status == "finished"]


def values_of(results: Results, cells: Iterable[SectionCell], name: str) -> dict[str, float]:
    """Return a score by cell id, without the cells that lack it."""
    score = results.by_score.get(name, {})
    return {cell.cell: score[cell.cell] for cell in cells if not math.isnan(score.get(cell.cell, math.nan))}


def grouped(cells: Iterable[SectionCell], key: Callable[[SectionCell], Hashable]) -> dict[Any, list[SectionCell]]:
    groups: dict[Any, list[SectionCell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


def by_row(cells: Iterable[SectionCell]) -> list[list[SectionCell]]:
    return list(grouped(cells, lambda cell: id(cell.row)).values())


def where(cells: Sequence[SectionCell], *, seeds: bool = True) -> str:
    """Name cells by row and seed: `ce, seed 1; ce+supcon, seeds 0 and 1; and 7 more rows`."""
    rows, names = by_row(cells), list[str]()
    for row in rows[:NAMED_ROWS]:
        label, numbers = row[0].row.label, list(dict.fromkeys(str(cell.seed) for cell in row))
        phrase = n_("{label}, seed {seeds}", "{label}, seeds {seeds}", len(numbers), label=label, seeds=listed(numbers))
        names.append(phrase if seeds else label)
    if len(rows) > NAMED_ROWS:
        names.append(n_("and {count} more row", "and {count} more rows", len(rows) - NAMED_ROWS))
    return _("; ").join(names)


def unfinished(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of cells without a result, with one sentence per reason."""
    missing = [cell for cell in cells if cell.run.status != "finished"]
    for (status, error), group in grouped(missing, lambda cell: (cell.run.status, cell.run.error)).items():
        state = "" if status == "missing" else _(STATES.get(status, status))
        why = _(": ").join(part for part in (state, error) if part)
        words = _("{where}: {why}", where=where(group), why=why)
        yield Guard("missing", words, blocks_ranking=True, leaves_rows_comparable=True)


def unmeasured(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of finished cells that lack a score of the table."""
    finished, ours = finished_cells(cells), results.study.foreign is None
    for value in section.show.table.values:
        measured = values_of(results, finished, value)
        without = [cell for cell in finished if cell.cell not in measured]
        if not ours and measured:  # a task may have a score of its own
            data = {cell.row.data for cell in finished if cell.cell in measured}
            without = [cell for cell in without if cell.row.data in data]
        if not without:
            continue
        text = N_("{where}: finished, without {value}") if ours else N_("{where}: no value of {value}")
        words = _(text, where=where(without), value=value)
        if reasons := reasons_missing(without, value, results):
            words = _("{finding}: {why}", finding=words, why=listed(reasons))
        if not ours:
            words = _("{finding}. A row with missing runs is not called better or equivalent.", finding=words)
        yield Guard("missing score", words, blocks_ranking=True, leaves_rows_comparable=True)


def reasons_missing(cells: list[SectionCell], value: str, results: Results) -> list[str]:
    """Return the reasons that the evaluation noted for missing scores of the same split."""
    split = value.rpartition(".")[0]
    notes = [note for cell in cells for note in results.notes.get(cell.cell, {}).items()]
    return list(dict.fromkeys(reason for name, reason in notes if name.rpartition(".")[0] == split))


def one_seed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    if cells and max(len(row.seeds) for row in section.rows) == 1:
        words = _("One seed per row: the spread between seeds is unknown, so no difference can be tested.")
        yield Guard("one seed", words, blocks_ranking=True, leaves_rows_comparable=True)


def without_provenance(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    unknown = [cell for cell in finished_cells(cells) if not cell.run.provenance]
    if unknown and results.study.foreign is None:
        words = _("The origin of these numbers is not recorded: {location}.", location=where(unknown))
        yield Guard("provenance", words, blocks_ranking=True)


def as_read(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Say how another program's runs were read."""
    for number, note in enumerate(results.study.foreign.notes if results.study.foreign else ()):
        yield Guard(f"read {number}", note)


def no_baseline(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of rows without a baseline, if the section declares one."""
    without = [cell for cell in cells if not cell.row.baseline and cell.row.against is None]
    if without and len(section.rows) > 1 and section.title in results.study.baselines:
        yield Guard("baseline", _("These rows have no baseline: {location}.", location=where(without, seeds=False)))


def out_of_range(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of scores outside their range, and of scores in scores.json that are not finite."""
    finished = {cell.cell: cell for cell in finished_cells(cells)}
    measured = results.measured[results.measured["cell"].isin({*finished})]
    not_finite = measured[~np.isfinite(measured["value"].to_numpy(float))]
    wrong = [*zip(not_finite["score"], not_finite["cell"], strict=True)]
    scores = results.scores.reindex(list(finished))
    for name in results.score_names:
        (low, high), values = score_facts(name).limits, scores[name].to_numpy(float)
        outside = (values < low - NEARLY) | (values > high + NEARLY)
        wrong += [(name, cell) for cell in scores.index[outside]]
    if wrong:
        names = listed(sorted({name for name, _cell in wrong}), 3)
        location = where([finished[cell] for cell in finished if any(cell == odd for _name, odd in wrong)])
        words = _("Impossible values of {names}: {location}.", names=names, location=location)
        yield Guard("range", words, blocks_ranking=True)


def idle_seeds(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of rows with the very same numbers at all seeds (times aside), where the seed does nothing."""
    columns = [name for name in results.scores.columns if not TIMES.fullmatch(name)]
    finished = [cell for cell in finished_cells(cells) if cell.cell in results.scores.index]
    scores = results.scores.reindex([cell.cell for cell in finished], columns=columns).to_numpy(float)
    numbers = {
        cell: values.tobytes() for cell, values in zip(finished, scores, strict=True) if np.isfinite(values).any()
    }
    idle = [
        cell
        for row in by_row(numbers)
        if len({cell.cell for cell in row}) > 1 and len({numbers[cell] for cell in row}) == 1
        for cell in row
    ]
    if idle:
        location = where(idle)
        words = _("All seeds give the same numbers, so the seed has no effect here: {location}.", location=location)
        yield Guard("idle seeds", words)


def collapsed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of cells whose vectors, or what a loss compares, are all the same, so that their scores measure nothing."""
    for name in (name for name in results.scores.columns if name.endswith(".collapsed")):
        embedding, _slash, split = name.removesuffix(".collapsed").rpartition("/")
        alarms = values_of(results, cells, name)
        if affected := [cell for cell in cells if alarms.get(cell.cell) == 1]:
            parts = {"location": where(affected), "split": split, "extra": f" ({embedding})" if embedding else ""}
            yield Guard("collapsed", _("{location}: all {split} embeddings{extra} have one direction", **parts))
    steps = {cell: cell.run.provenance.collapsed_since for cell in cells if cell.run.provenance}
    since = [cell for cell, step in steps.items() if step is not None]
    for step, affected in grouped(since, steps.__getitem__).items():
        words = _(
            "{location}: collapsed, since from step {step} on nearly all vectors that the loss compares are the same",
            location=where(affected),
            step=step,
        )
        yield Guard("collapsed", words)


def chance(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of rows whose mean accuracy is not above that of always predicting the largest class."""
    for value in section.show.table.values:
        split = value.partition(".")[0]
        if not score_facts(value).guessed or split not in SPLITS:
            continue
        low = []
        for row in by_row(finished_cells(cells)):
            accuracies = [*values_of(results, row, value).values()]
            shares = [share for cell in row if (share := largest_class(cell, split))]
            if accuracies and shares and sum(accuracies) / len(accuracies) <= shares[0]:
                low += row
        if low:
            words = _(
                "{score} is not higher than always predicting the largest class: {location}.",
                score=heading(value), location=where(low, seeds=False),
            )  # fmt: skip
            yield Guard("chance", words)


def largest_class(cell: SectionCell, split: str) -> float:
    """Return the share of the largest class among a split's texts; 0 if the counts are unknown."""
    counts = cell.run.provenance.class_counts.get(split, {}) if cell.run.provenance else {}
    return max(counts.values(), default=0) / max(1, sum(counts.values()))


ABSENT = (unfinished, unmeasured, one_seed, without_provenance, as_read, no_baseline)
ODD = (out_of_range, idle_seeds, collapsed, chance)
