"""Guards of single rows (missing results, other seeds, no baseline), and the section cells that all guards read."""

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from pydantic import BaseModel

from contrastive.config.experiment import PARTS, SETTINGS
from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.markdown import unit, with_unit
from reports.messages import N_, _, n_
from reports.rows import NearBest, near_best
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
    if unknown and not results.study.foreign:
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
        if without := [cell for cell in without if not results.study.foreign or cell.row.data in data or not data]:
            ours = not results.study.foreign
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


UNPAIRED = {
    "numbered": _("Not paired: the column {seed} only numbers the runs; --paired pairs equal numbers."),
    "sorted": _(
        "Not paired: {seed} only numbers the runs, which are sorted by score within each row, so equal "
        "numbers would pair best with best; --paired pairs them."
    ),
}


def unpaired(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Say why another program's runs are not paired though they have numbers."""
    if results.study.unpaired:
        yield Guard("unpaired", UNPAIRED[results.study.unpaired].format(seed=results.study.numbers))


READING = {
    "open": _("Left out, as their runs did not finish ({states}): {count} of the lines, of these rows: {rows}."),
    "early": _(
        "{early} of {count} runs end earlier than the others ({ends}): they may have failed, or trained for less time."
    ),
    "no seeds": _(
        "No column has seeds, so each line of a row is taken for a run of its own. If lines are checkpoints, "
        "days or parts of one training, the intervals are too narrow."
    ),
    "folds": _(
        "The runs are the {count} folds of a cross-validation, which share training texts. The intervals are widened "
        "for it (Nadeau and Bengio, 2003); repeating the cross-validation narrows them little."
    ),
    "splits": _(
        "The {count} values of {name} are taken for random splits, or for repeats of {folds} folds, which share "
        "training texts. The intervals are widened for it (Nadeau and Bengio, 2003). If they are the folds of one "
        "cross-validation, name the column `fold` and add a column `repeat` of zeros; if trainings share no texts, "
        "name it `seed`."
    ),
    "many": _(
        "{count} lines of a row are taken for runs of their own. If they are resamples or parts of fewer runs, the "
        "intervals are far too narrow."
    ),
    "shared": _(
        "Not used: {names}, which lines of a row share. If lines with equal values are not runs of their own, the "
        "intervals are too narrow: say what the column holds (--text, --data, --seed or --row)."
    ),
    "nested": _(
        "Not used: {names}; each value is shared by equally many runs of a row. If these runs have more in common than "
        "others, such as a pretrained checkpoint, the intervals are too narrow: average the lines of each value, and "
        "name its column `seed`."
    ),
    "same": _(
        "{second} is the same as {first} in all columns; so are {count} lines in all. If a run is there twice, the "
        "intervals are too narrow."
    ),
    "uneven": _(
        "Not used: {names}, in which rows differ ({rows}), so that differences between rows may be due to it; name it "
        "(--row or --data), or leave lines out."
    ),
    "alike": _("{rows}: these names differ only in case, spaces or hyphens, but are taken for different rows."),
}


def as_read(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Say what of another program's runs was left out, and what was taken for a run."""
    for kind, values in results.study.reading.items():
        yield Guard(kind, READING[kind].format(**values))


def assumed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Name the scores of another program whose direction is not known from their names."""
    names = results.study.assumed
    if len(names) == 1:
        yield Guard(
            "assumed", _("{score}: higher is assumed to be better; --lower {score} reverses this.", score=names[0])
        )
    elif names:
        words = _(
            "{scores}: higher is assumed to be better; --lower SCORE reverses this for one of them.",
            scores=listed(names),
        )
        yield Guard("assumed", words)


def one_seed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    if cells and not results.study.sigma and max(len(row.seeds) for row in section.rows) == 1:
        words = _("One seed per row: the spread between seeds is unknown, so no difference can be tested.")
        yield Guard("one seed", words, True)


def known_sigma(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Say where a known deviation of a run is used, beside what the runs themselves show."""
    for value, sigma in results.study.sigma.items():
        numbers = [values_of(results, [cell for cell in cells if cell.row is row], value) for row in section.rows]
        several = [np.array([*own.values()]) for own in numbers if len(own) > 1]
        words = _("{value}: ± comes from a known standard deviation of one run, {sigma} (--sigma).", value=value,
                  sigma=with_unit(f"{unit(value) * sigma:.3g}", unit(value) > 1))  # fmt: skip
        if freedom := sum(len(own) - 1 for own in several):
            spread = (sum(float(own.var(ddof=1)) * (len(own) - 1) for own in several) / freedom) ** 0.5
            words = _(
                "{said} The runs here have a standard deviation of {spread} within rows.",
                said=words,
                spread=with_unit(f"{unit(value) * spread:.3g}", unit(value) > 1),
            )
        yield Guard("sigma", words)


def texts_alone(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Name the rows that the number of test texts alone keeps from being told from the best, or from the one before."""
    if found := near_best(section, results):
        said = _(": ").join([of_texts(found), *([listed(found.near)] if found.near else [])])
        yield Guard("texts", _("{said}. The spread between seeds adds to this.", said=said))


def of_texts(found: NearBest) -> str:
    """Say how many rows the number of test texts alone keeps from being told from the best, or from the one before."""
    count, values = len(found.near), {"texts": found.texts, "best": found.best or _("the best row before it")}
    if not count:
        told = N_("{texts} test texts tell every other row from {best}")
        return _(told if found.best else N_("{texts} test texts tell each record from {best}"), **values)
    return n_(
        "On {texts} test texts, {count} row cannot be distinguished from {best}",
        "On {texts} test texts, {count} rows cannot be distinguished from {best}",
        count, **values,
    )  # fmt: skip


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
    unpaired,
    as_read,
    assumed,
    known_sigma,
    texts_alone,
    no_baseline,
)
