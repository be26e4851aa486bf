"""How many rows of each data set were kept, and how many were dropped, and why: beside the counts of the classes."""

from collections.abc import Iterator

from contrastive.runs.recorded import DataCounts
from reports.load import Results
from reports.markdown import markdown, plain
from reports.messages import Said, _, joined

# Why rows are dropped, by their names in grid.json
REASONS = {
    "repeated": _("repeated"),
    "contradicting": _("with contradicting labels"),
    "held_out": _("in a held-out split"),
    "partner_held_out": _("with a partner in a held-out split"),
}


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


def sifted_tables(results: Results) -> list[str]:
    """A table for each data set, a line for what it was read from, in Markdown in the language in use; its numbers add
    up to all rows."""
    tables = []
    for data in counted_data(results):
        lines = [
            [part, *(str(counts[reason]) for reason in REASONS), str(counts["rows"] - rows_dropped(counts)),
             str(counts["rows"])]
            for part, counts in data.sifted.items()
        ]  # fmt: skip
        head = [_("Rows{data}", data=named(data)), *REASONS.values(), _("kept"), _("all")]
        tables.append(markdown([[plain(name) for name in head], *lines]))
    return tables


def sentences(results: Results) -> list[Said]:
    """The same in a sentence for each source, for the page."""
    return [sentence(part, of, counts) for part, of, counts in sifted_parts(results)]


def sifted_parts(results: Results) -> Iterator[tuple[str, Said, dict[str, int]]]:
    for data in counted_data(results):
        for part, counts in data.sifted.items():
            yield part, named(data), counts


def sentence(part: str, of: Said, counts: dict[str, int]) -> Said:
    """`Of 180 rows (source of tweets), 120 were dropped: 60 repeated, 60 with contradicting labels.`"""
    why = [_("{count} {reason}", count=counts[name], reason=reason) for name, reason in REASONS.items() if counts[name]]
    rows, count = counts["rows"], rows_dropped(counts)
    if not why:
        return _("Of {rows} rows ({part}{data}), {count} were dropped.", rows=rows, part=part, data=of, count=count)
    reasons = joined(why, _(", "))
    return _(
        "Of {rows} rows ({part}{data}), {count} were dropped: {reasons}.",
        rows=rows, part=part, data=of, count=count, reasons=reasons,
    )  # fmt: skip
