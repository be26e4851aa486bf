"""Whether every row has its cells: what is missing is said, and nothing is ranked over rows that have unequal seeds."""

from collections.abc import Iterator

from contrastive.runs.recorded import RecordedSection
from reports.guards.shown import Guard, Shown, grouped, values_of, where
from reports.load import Results
from reports.messages import _, joined

STATES = {
    "running": _("running"), "failed": _("failed"), "diverged": _("diverged"), "unfinished": _("unfinished"),
}  # fmt: skip


def unfinished(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Cells without a result, those of one reason in one sentence."""
    holes = [cell for cell in cells if cell.status != "finished"]
    for (status, error), group in grouped(holes, lambda cell: (cell.status, cell.error)).items():
        said = (
            [error]
            if status == "missing"
            else [STATES.get(status, status), error]
            if error
            else [STATES.get(status, status)]
        )
        yield Guard("missing", _("{where}: {why}", where=where(group), why=joined(said, _(": "))), True)


def unmeasured(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Finished cells without a score that the table shows."""
    finished = [cell for cell in cells if cell.status == "finished"]
    for value in section.show.table.values:
        held = values_of(results, finished, value)
        without = [cell for cell in finished if cell.cell not in held]
        if without:
            said = _("{where}: finished, without {value}", where=where(without), value=value)
            if why := left_out(without, value, results):
                said = _("{said}: {why}", said=said, why=why)
            yield Guard("missing score", said, True)


def left_out(cells: list[Shown], value: str, results: Results) -> str:
    """Why the texts of a score's split could not have all scores, as the evaluation noted it."""
    split = value.rpartition(".")[0]
    notes = (results.notes.get(cell.cell, {}).items() for cell in cells)
    reasons = {why: None for some in notes for name, why in some if name.rpartition(".")[0] == split}
    return "; ".join(reasons)


def unequal_seeds(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Rows of other seeds than the first row."""
    if results.grid.stopping is not None:
        return  # each row has as many as it took
    rows = list(grouped(cells, lambda cell: id(cell.row)).values())
    seeds = [sorted(cell.seed for cell in row) for row in rows]
    other = [cell for row, own in zip(rows, seeds, strict=True) if own != seeds[0] for cell in row]
    if other:
        location = where(other)
        yield Guard(
            "seeds",
            _("Rows with other seeds than the first one cannot be paired with it: {location}.", location=location),
            True,
        )


def one_seed(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    if cells and max(len(row.seeds) for row in section.rows) == 1:
        yield Guard(
            "one seed",
            _("One seed a row: nothing is known of the spread between seeds, no difference can be called real."),
            True,
        )


def no_baseline(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Where a section names a baseline that has no results, or rows that have none to be compared with."""
    wanted = [
        definition.baseline for definition in results.grid.experiment.sections if definition.title == section.title
    ]
    rows = section.rows
    if not any(wanted) or len(rows) < 2 or rows[0].settings is None:
        return
    finished = {id(cell.row) for cell in cells if cell.status == "finished"}
    baselines = [row for row in rows if row.baseline and id(row) in finished]
    alone = [cell for cell in cells if not cell.row.baseline and cell.row.against is None]
    if not baselines:
        yield Guard(
            "baseline",
            _("The baseline has no results: nothing is compared with it."),
            False,
        )
    elif alone:
        location = where(alone, seeds=False)
        yield Guard("baseline", _("Without a baseline: {location}.", location=location), False)


CHECKS = (unfinished, unmeasured, unequal_seeds, one_seed, no_baseline)
