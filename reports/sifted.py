"""How many rows of each data set were kept, and how many were dropped, and why: beside the counts of the classes."""

from collections.abc import Iterator

from contrastive.runs.recorded import DataCounts
from reports.bilingual import Words
from reports.load import Results
from reports.markdown import markdown, plain

# Why rows are dropped, by their names in grid.json
REASONS = {
    "repeated": Words("repeated", "重复"),
    "contradicting": Words("with contradicting labels", "标签矛盾"),
    "held_out": Words("in a held-out split", "属于留出部分"),
    "partner_held_out": Words("with a partner in a held-out split", "配对文本属于留出部分"),
}


def counted_data(results: Results) -> list[DataCounts]:
    """The data sets whose rows were counted: grids of before that have none."""
    return [data for data in results.grid.data if data.sifted]


def named(data: DataCounts) -> Words:
    """` of tweets`; nothing where there is one data set."""
    name = data.name
    if data.transfer:
        return Words(f" of transfer {name}", f"（迁移数据 {name}）")
    return Words(f" of {name}", f"（{name}）") if name else Words("", "")


def rows_dropped(counts: dict[str, int]) -> int:
    return sum(counts[reason] for reason in REASONS)


def sifted_tables(results: Results) -> list[Words]:
    """A table for each data set, a line for what it was read from; its numbers add up to all rows."""
    tables = []
    for data in counted_data(results):
        of = named(data)
        lines = [
            [part, *(str(counts[reason]) for reason in REASONS), str(counts["rows"] - rows_dropped(counts)),
             str(counts["rows"])]
            for part, counts in data.sifted.items()
        ]  # fmt: skip
        english = [plain("Rows" + of.en), *(reason.en for reason in REASONS.values()), "kept", "all"]
        chinese = [plain("行数" + of.zh), *(reason.zh for reason in REASONS.values()), "保留", "合计"]
        tables.append(Words(markdown([english, *lines]), markdown([chinese, *lines])))
    return tables


def sentences(results: Results) -> list[Words]:
    """The same in a sentence for each source, for the page."""
    return [sentence(part, of, counts) for part, of, counts in sifted_parts(results)]


def sifted_parts(results: Results) -> Iterator[tuple[str, Words, dict[str, int]]]:
    for data in counted_data(results):
        for part, counts in data.sifted.items():
            yield part, named(data), counts


def sentence(part: str, of: Words, counts: dict[str, int]) -> Words:
    """`Of 180 rows (source of tweets), 120 were dropped: 60 repeated, 60 with contradicting labels.`"""
    why = {reason: counts[name] for name, reason in REASONS.items() if counts[name]}
    english = ", ".join(f"{count} {reason.en}" for reason, count in why.items())
    chinese = "、".join(f"{reason.zh} {count}" for reason, count in why.items())
    count = rows_dropped(counts)
    return Words(
        f"Of {counts['rows']} rows ({part}{of.en}), {count} were dropped{f': {english}' if english else ''}.",
        f"{part}{of.zh}的 {counts['rows']} 行中有 {count} 行被删除{f'：{chinese}' if chinese else ''}。",
    )
