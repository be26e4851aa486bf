"""Tables of a section as data: a list of configurations or a pivot of two axes, comparisons, effects, seeds.

Texts have no markup; Markdown and the page each add their own.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reports.compare import Comparison, RowScore, Section
from reports.markdown import (
    MISSING,
    SPLITS,
    code,
    difference_text,
    duration,
    heading,
    most_of,
    number_text,
    plain,
    probability,
    score_text,
    split_of,
    symbol,
    unit,
)
from reports.messages import N_, _
from reports.rows import Row, references_of, row_cost, seed_scores
from reports.statistics.effects import Effect
from reports.study import Results

SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "undecided": "?"}
WORDS = {
    "better": N_("better"),
    "worse": N_("worse"),
    "equivalent": N_("equivalent"),
    "undecided": N_("undecided"),
    "one seed": N_("one seed"),
    "no spread": N_("no spread"),
    "not comparable": N_("not comparable"),
    "reference": N_("reference"),
    "baseline": N_("baseline"),
}
BREAK = "\n"  # between the lines of a field
MOST_SEEDS = 2000  # a longer table of seeds is left out


@dataclass(frozen=True)
class Entry:
    """One field of a table: its text, the number to sort by, and the cells that it is computed from."""

    text: str
    value: float | None = None
    cells: list[str] = field(default_factory=list)
    bold: bool = False
    style: str = ""  # italic, code, words (in lines), or a verdict

    def markdown(self) -> str:
        if self.style == "code":
            return code(self.text)
        text = "<br>".join(map(plain, self.text.split(BREAK))) if self.style == "words" else plain(self.text)
        return f"**{text}**" if self.bold else f"*{text}*" if self.style == "italic" else text


@dataclass(frozen=True)
class Table:
    caption: str | None
    head: Sequence[str]
    rows: list[list[Entry]]
    folded: bool = False  # shown only after a click on its caption

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [[plain(words) for words in self.head], [":--", *["--:"] * (len(self.head) - 1)]]
        lines += [[entry.markdown() for entry in row] for row in self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section_tables(section: Section, results: Results) -> list[Table]:
    """Return a list, below pivots of its scores if the section asks for these, and a list of transfer scores if
    `show.transfer` is set."""
    show = section.recorded.show
    values = show.table.values
    tables = [list_table(section, values, results)]
    if show.table.columns is not None:
        pivots = [pivot_table(section, value) for value in values]
        tables = [*(table for table in pivots if table), replace(tables[0], caption=_("Each configuration"))]
    if show.transfer:
        tables.append(list_table(section, results.study.transfer, results))
    return tables


NEEDED = N_("Needed to decide")  # head of a column that a paper leaves out
# head, and entries by the number of a row or the name of a reference
Column = tuple[str, dict[int | str, Entry]]


def list_table(section: Section, values: Sequence[str], results: Results) -> Table:
    """Return a line for each configuration: its scores, each with its difference to the baseline, what would decide
    it, and its cost."""
    has_compared = not all(row.baseline for row in section.rows)
    known = references_of(section.recorded, results)
    references = {name: scores for name, scores in known.items() if any(value in scores for value in values)}
    names: dict[int | str, Entry] = {row.number: label(row, has_compared) for row in section.rows}
    columns: list[Column] = [(_("Configuration"), names | {name: Entry(name, style="italic") for name in references})]
    for value in values:
        places = section.places(value).mean
        entries: dict[int | str, Entry] = {
            row.number: entry(section.score_of[row.number, value], places) for row in section.rows
        }
        for name, scores in references.items():
            entries[name] = reference_entry(value, scores.get(value), places)
        columns += [(head(value), entries), *difference_columns(section, value)]
    columns += [*deciding_columns(section, values), *cost_columns(section, results)]
    lines: list[int | str] = [*(row.number for row in section.ordered), *references]
    body = [[entries.get(line, Entry("")) for _head, entries in columns] for line in lines]
    return Table(None, [words for words, _entries in columns], body)


def cost_columns(section: Section, results: Results) -> list[Column]:
    """Return a column of costs; none if they are unknown, or of several kinds of devices."""
    costs = {row.number: row_cost(row.cells, results) for row in section.rows}
    devices = {cost.device if cost else None for cost in costs.values()}
    device = devices.pop()
    if devices or device is None:
        return []
    return [(_(device), {n: Entry(number_text(cost.seconds), cost.seconds) for n, cost in costs.items() if cost})]


def difference_columns(section: Section, value: str) -> list[Column]:
    """Return a column of verdicts and differences; none if the score is not compared."""
    compared = [(score, comparison) for score, comparison in section.comparisons if score.value == value]
    places = section.places(value).difference
    entries: dict[int | str, Entry] = {
        score.row.number: verdict_entry(score, comparison, places) for score, comparison in compared
    }
    name = _("difference, points") if unit(value) > 1 else _("difference")
    return [(name, entries)] if compared else []


def deciding_columns(section: Section, values: Sequence[str]) -> list[Column]:
    """Return the baselines if there are several, and what would decide the open comparisons, if any."""
    compared = [score for score, _comparison in section.comparisons if score.value in values]
    rows = {score.row.number: score.row for score in compared}
    columns = list[Column]()
    if len({row.against for row in rows.values()}) > 1:
        labels = {n: section.rows[row.against or 0].label for n, row in rows.items()}
        columns.append((_("Baseline"), {n: Entry(label, style="words") for n, label in labels.items()}))
    if any(score.verdict == "undecided" for score in compared):
        ways: dict[int | str, Entry] = {n: Entry(deciding(row, section), style="words") for n, row in rows.items()}
        columns.append((_(NEEDED), ways))
    return columns


def pivot_table(section: Section, value: str) -> Table | None:
    """Return the means of trained vectors by two axes; None if rows in one place differ in a further axis."""
    table = section.recorded.show.table
    across = str(table.columns)
    down = table.rows or next(name for row in section.recorded.rows for name in row.axes if name != across)
    inside = [row for row in section.rows if across in row.axes and down in row.axes and not row.variant]
    places = section.places(value).mean
    entries = {(row.axes[down], row.axes[across]): entry(section.score_of[row.number, value], places) for row in inside}
    if len(entries) < len(inside):
        return None
    columns, names = (in_order(row.axes[axis] for row in inside) for axis in (across, down))
    body = [[Entry(str(name)), *(entries.get((name, column), Entry(MISSING)) for column in columns)] for name in names]
    return Table(head(value), [f"{symbol(down)} \\ {symbol(across)}", *map(str, columns)], body)


def head(value: str) -> str:
    return _("{score}, %", score=heading(value)) if unit(value) > 1 else heading(value)


def label(row: Row, has_compared: bool = True) -> Entry:
    """Return the label of a row; a baseline is marked if there are rows to compare with it."""
    return Entry(_("{value} (baseline)", value=row.label) if row.baseline and has_compared else row.label)


def entry(score: RowScore, places: int | None) -> Entry:
    """Return the mean with its standard deviation, bold if tied with the best."""
    if not math.isfinite(score.mean):
        return Entry(MISSING)
    text = score_text(score.value, score.mean, score.deviation, places)
    return Entry(text, score.mean, score.row.cells, score.bold)


def reference_entry(value: str, score: float | None, places: int | None = None) -> Entry:
    return Entry(MISSING if score is None else score_text(value, score, places=places), score)


def verdict_text(verdict: str, perhaps_negligible: bool) -> str:
    word = _(WORDS[verdict])
    return _("{verdict}, possibly negligible", verdict=word) if perhaps_negligible else word


def is_negligible(score: RowScore) -> bool:
    """Return whether a row is better or worse by a difference that may be within the margin."""
    comparison = score.comparison
    if comparison is None or score.margin is None or score.verdict not in ("better", "worse"):
        return False
    return abs(comparison.difference) - comparison.half_width < score.margin


def verdict_entry(score: RowScore, comparison: Comparison, places: int | None, in_words: bool = True) -> Entry:
    """Return a verdict, as a word or its sign alone, with its difference."""
    words = [SIGNS.get(score.verdict, "")]
    if in_words or not words[0]:
        words.append(verdict_text(score.verdict, is_negligible(score)))
    if math.isfinite(comparison.difference):
        scale = unit(score.value)
        words.append(
            difference_text(scale * comparison.difference, scale * comparison.half_width, most_of(score.value), places)
        )
    text = " ".join([word for word in words if word])
    value = comparison.difference if math.isfinite(comparison.difference) else None
    return Entry(text, value, score.row.cells, style=score.verdict.replace(" ", "-"))


def deciding(row: Row, section: Section) -> str:
    """Say what would decide the open comparisons of a row, if the true differences are the observed ones."""
    ways = []
    for score, comparison in section.comparisons:
        if score.row.number == row.number and score.verdict == "undecided":
            way = what_decides(score.value, comparison)
            several = len(section.tested) > 1
            ways.append(_("{score}: {way}", score=heading(score.value), way=way) if several else way)
    return BREAK.join(ways)


def what_decides(value: str, comparison: Comparison, in_all: bool = True) -> str:
    """Say how many seeds or texts would decide a comparison, and how long training the seeds takes."""
    needs, parts, split = comparison.needs, list[str](), _(SPLITS[split_of(value)])
    if needs and needs.seeds is not None:
        so_many = N_("{seeds} seeds in all") if in_all else N_("{seeds} seeds")
        seeds = _(so_many, seeds=needs.seeds)
        known = math.isfinite(comparison.needs_seconds)
        parts.append(_("{seeds} ({time})", seeds=seeds, time=duration(comparison.needs_seconds)) if known else seeds)
    if needs and needs.texts is not None:
        parts.append(_("{count} {split} examples", count=needs.texts, split=split))
    if not parts:
        both = _("more than 64 seeds and 100 times the {split} examples", split=split)
        return both if comparison.by_text else _("more than 64 seeds")
    return (_(" and ") if needs and needs.together else _(" or ")).join(parts)


def seeds_table(section: Section, results: Results) -> Table | None:
    """List each cell with its scores and the command that trains it again; None if there are too many or none."""
    values = [value for value in section.values if value in results.by_score]
    rows = [row for row in section.ordered if not row.variant and row.cells]
    if not 0 < sum(len(row.cells) for row in rows) <= MOST_SEEDS:
        return None
    by_hand = results.study.foreign is None
    body = []
    for row in rows:
        numbers = {value: seed_scores(row, value, results).tolist() for value in values}
        for position, (cell, seed) in enumerate(zip(row.cells, row.seeds, strict=True)):
            scores = [reference_entry(value, by_seed[position]) for value, by_seed in numbers.items()]
            scores = [replace(score, cells=[cell]) for score in scores]
            line = [Entry(row.label), Entry(str(seed), seed), *scores]
            body.append([*line, Entry(f"ablate cell {cell}", style="code")] if by_hand else line)
    again = [_("how to train it again")] if by_hand else []
    return Table(_("Each seed"), [_("Configuration"), _("seed"), *map(head, values), *again], body, folded=True)


def effects_tables(effects: Sequence[Effect]) -> list[Table]:
    """Return, for each score, a table of main effects and interactions of the axes."""
    tables = []
    for value in dict.fromkeys(effect.value for effect in effects):
        body = [
            [Entry(" × ".join(map(symbol, effect.factors))), Entry(f"{100 * effect.share:.1f} %", effect.share),
             Entry(f"{effect.f:.2f}", effect.f), Entry(probability(effect.p), effect.p)]
            for effect in effects
            if effect.value == value
        ]  # fmt: skip
        heads = [_("Effect on {value}", value=heading(value)), _("share of the variance"), _("F"), _("p")]
        tables.append(Table(_("Main effects and interactions"), heads, body))
    return tables


def in_order(values: Iterable[Any]) -> list[Any]:
    """Return the values of an axis once each: numbers by size, others as they come."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(isinstance(value, int | float) for value in distinct) else distinct
