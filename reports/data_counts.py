"""How many texts each class of a data set has, and how many rows were kept and dropped, and why."""

from collections.abc import Iterator, Mapping

from contrastive.runs.recorded import DataCounts
from reports.load import Results
from reports.messages import Said, _, joined
from reports.tables import Entry, Table

# Why rows are dropped, by their names in grid.json
REASONS = {
    "repeated": _("repeated"),
    "contradicting": _("with contradicting labels"),
    "held_out": _("in a held-out split"),
    "partner_held_out": _("with a partner in a held-out split"),
}


def data_tables(results: Results) -> list[Table]:
    return [*class_tables(results), *row_tables(results)]


def class_tables(results: Results) -> list[Table]:
    """The texts of each class, split by split; a split without texts has no line."""
    tables = []
    for data, cells in cells_by_data(results).items():
        counts = {split: found for split, found in counts_of(results, cells).items() if any(found.values())}
        classes = list(dict.fromkeys(name for found in counts.values() for name in found))
        seed = seed_of_draw(results, cells)
        names = {
            split: f"{split} (seed {seed})" if split == "train" and seed is not None else split for split in counts
        }
        body = [
            [Entry(names[split]), *(number(found.get(name, 0)) for name in classes), number(sum(found.values()))]
            for split, found in counts.items()
        ]
        if body:
            head = _("Split of {data}", data=data) if data else _("Split")
            tables.append(Table(None, [head, *classes, _("all")], body))
    return tables


def row_tables(results: Results) -> list[Table]:
    """A line for what a data set was read from; its numbers add up to all rows."""
    return [
        Table(
            None,
            [_("Rows{data}", data=named(data)), *REASONS.values(), _("kept"), _("all")],
            [
                [
                    Entry(part),
                    *(number(counts[reason]) for reason in REASONS),
                    number(counts["rows"] - rows_dropped(counts)),
                    number(counts["rows"]),
                ]
                for part, counts in data.sifted.items()
            ],
        )
        for data in counted_data(results)
    ]


def number(count: int) -> Entry:
    return Entry(str(count), count)


def counted_data(results: Results) -> list[DataCounts]:
    """The data sets whose rows were counted: grids of before that have none."""
    return [data for data in results.grid.data if data.sifted]


def named(data: DataCounts) -> Said:
    """` of tweets`; nothing where there is one data set."""
    name = data.name
    if data.transfer:
        return _(" of transfer {name}", name=name)
    return _(" of {name}", name=name) if name else _("")


def rows_dropped(counts: dict[str, int]) -> int:
    return sum(counts[reason] for reason in REASONS)


def parts(results: Results) -> Iterator[tuple[str, Said, dict[str, int]]]:
    """Each file or split that was read, the data set that it belongs to, and its counts."""
    for data in counted_data(results):
        for part, counts in data.sifted.items():
            yield part, named(data), counts


def dropped_sentence(part: str, of: Said, counts: dict[str, int]) -> Said:
    """`Of 180 rows (source of tweets), 120 were dropped: 60 repeated, 60 with contradicting labels.`"""
    why = [_("{count} {reason}", count=counts[name], reason=reason) for name, reason in REASONS.items() if counts[name]]
    return _(
        "Of {rows} rows ({part}{data}), {count} were dropped: {reasons}.",
        rows=counts["rows"], part=part, data=of, count=rows_dropped(counts), reasons=joined(why, _(", ")),
    )  # fmt: skip


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
