"""What stands above the numbers of a report: how they are to be read, and how many texts each class has."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pandas as pd

from reports.load import Results
from reports.markdown import MARKDOWN, Markup, markdown, plain
from reports.messages import Said, _


def how_to_read(seeds: int, by_itself: bool = False, drawn: Collection[bool] = (False,)) -> list[Said]:
    """What stands above the numbers of any experiment of so many seeds; `by_itself`: it stops where all is decided;
    `drawn`: whether each seed draws its own training texts, of all its rows."""
    if seeds == 1:
        return [
            _(
        "One seed a configuration: nothing is known of the spread between seeds, and no difference here "
        "can be called real. Nothing is ranked, and nothing is bold."),
        ]  # fmt: skip
    return [
        _(
        "Up to {seeds} seeds a configuration; numbers are the mean over seeds ± half the width of its 95 "
        "% interval (Student's t).", seeds=seeds)
        if by_itself
        else _(
        "{seeds} seeds a configuration; numbers are the mean over seeds ± half the width of its 95 % "
        "interval (Student's t).", seeds=seeds),
        _(
        "Verdicts come from one interval of each difference to the baseline, which holds for all "
        "comparisons of a section together: better or worse where it leaves out 0, equivalent where it "
        "lies within the margin that was declared too small to matter, undecided otherwise."),
        _(
        "Bold is every value that is tied with the best of its column, among those on the same data: "
        "nothing was shown to be better, over all pairs of the section. Where a section is not ranked, "
        "nothing in it is bold."),
        TRAINED_ON[frozenset(drawn)],
    ]  # fmt: skip


TRAINED_ON = {
    frozenset({False}): _("All seeds train on the same texts: what is concluded holds for these training texts."),
    frozenset({True}): _(
        "Each seed draws its own training texts: what is concluded holds for training texts drawn from this data."
    ),
    frozenset({False, True}): _(
        "With data.resample each seed draws its own training texts; without it all seeds train on the "
        "same, and what is concluded holds for these."
    ),
}


def reading(results: Results, to: Markup = MARKDOWN) -> list[Said]:
    """How the numbers are to be read: what stands above them all."""
    rows = [row for section in results.grid.sections for row in section.rows]
    drawn = {row.drawn for row in rows} or {False}
    lines = how_to_read(len(results.grid.experiment.seeds), results.grid.stopping is not None, drawn)
    for error in standard_errors(results):
        count, size = error.count, f"{error.value:.4f}"
        name = _(" of {data}", data=to.text(error.data)) if error.data else ""
        lines.append(
            _(
                "On {count} test texts{name}, one accuracy has a standard error of {size} by the choice of texts "
                "alone.",
                count=count,
                name=name,
                size=size,
            )
        )
    return lines


@dataclass(frozen=True)
class StandardError:
    data: str
    count: int  # of texts
    value: float


def standard_errors(results: Results) -> list[StandardError]:
    """What chance alone makes of one accuracy on so many test texts."""
    if "test.accuracy" not in results.scores:
        return []
    errors = []
    for data, cells in cells_by_data(results).items():
        counts = counts_of(results, cells).get("test")
        mean = float(results.scores["test.accuracy"].reindex(cells).mean())
        if counts and 0 <= mean <= 1:
            count = sum(counts.values())
            errors.append(StandardError(data, count, (mean * (1 - mean) / count) ** 0.5))
    return errors


def class_counts(results: Results) -> list[str]:
    """A table for each data set, in Markdown in the language in use."""
    counted = []
    for data, cells in cells_by_data(results).items():
        if counts := dict(counts_of(results, cells)):
            if (seed := seed_of_draw(results, cells)) is not None:
                counts[f"train (seed {seed})"] = counts.pop("train")
            frame = pd.DataFrame(counts).T.fillna(0).astype(int)
            lines = [
                [str(split), *map(str, row), str(sum(row))]
                for split, row in zip(frame.index, frame.to_numpy(), strict=True)
            ]
            head = _("Split of {data}", data=plain(data)) if data else _("Split")
            counted.append(markdown([[str(head), *map(plain, frame.columns), str(_("all"))], *lines]))
    return counted


def counts_of(results: Results, cells: list[str]) -> Mapping[str, Mapping[str, int]]:
    """Of the first cell of which they are noted."""
    noted = (provenance for cell in cells if (provenance := results.provenance(cell)))
    first = next(noted, None)
    return first.class_counts if first else {}


def seed_of_draw(results: Results, cells: list[str]) -> int | None:
    """Whose training texts these counts are of; None where all seeds have the same."""
    first = next((cell for cell in cells if results.provenance(cell)), None)
    rows = [row for section in results.grid.sections for row in section.rows if row.drawn and first in row.cells]
    return rows[0].seeds[rows[0].cells.index(str(first))] if rows else None


def cells_by_data(results: Results) -> dict[str, list[str]]:
    """Name of the data → the cells of it that MLflow knows."""
    cells: dict[str, list[str]] = {}
    for section in results.grid.sections:
        for row in section.rows:
            cells.setdefault(row.data, []).extend(cell for cell in row.cells if cell in results.cells)
    return cells
