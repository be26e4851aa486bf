"""The next step after a report: the cheapest one that answers its headline, and the rows that it leaves open."""

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from reports.forest import ForestRow, PrimaryComparison, winner
from reports.markdown import duration
from reports.messages import _
from reports.study import Results
from reports.tables import what_decides

MAX_SEEDS = 20  # default of `--until-decided`
OTHERS = 3  # most rows that are named as open too


def next_step(
    rows: Sequence[ForestRow],
    results: Results,
    compared: Sequence[PrimaryComparison],
    no_baseline: str,
    second: PrimaryComparison | None = None,
) -> tuple[str, str, str]:
    """Suggest a next step, the command for it, and say what else is open. `second`: the headline's row beside the next
    best."""
    found, best = decidable(compared), winner(rows)
    target = next((each for each in found if best and each.anchor == best.anchor), next(iter(found), None))
    # seeds set in the file would be one more look at a study that has stopped by its rules
    question = second if second and second.comparison.needs and results.study.stopping is None else None
    if results.progress is not None:
        return _("Nothing is compared until all cells have ended. What is left:"), "ablate plan FILE", ""
    if results.study.foreign is not None:
        asked = next(iter(decidable([question] if question else [])), target)
        return next_in_table(rows, asked, no_baseline), results.study.foreign.command, ""  # shown if there is a command
    every = {tuple(row.cells) for section in results.study.sections for row in section.rows}
    cells = [cell for row in every for cell in row]
    if any(cell not in results.cells or results.cells[cell].status not in ("finished", "diverged") for cell in cells):
        return _("Next, run what is missing:"), "ablate run FILE", ""
    if no_baseline and not rows:
        return _("Next, name a baseline in the file, such as {baseline}:", baseline=no_baseline), "ablate run FILE", ""
    if any(row.verdict == "one seed" for row in rows):
        return _("Next, add seeds:"), "ablate run FILE --until-decided", ""
    if question and decidable([question]):
        return to_decide(question, every, compared, results, in_file=True)
    step: tuple[str, str, str] = _("Next, add rows to the file and see what they cost:"), "ablate plan FILE", ""
    if target:
        step = to_decide(target, every, compared, results, in_file=False)
    if question is None:
        return step
    label, against, needed = (
        question.score.row.label,
        question.comparison.against.label,
        what_decides(question.score.value, question.comparison),
    )
    lead = _(
        "{label} against {against} needs {needs}. {next}", label=label, against=against, needs=needed, next=step[0]
    )
    return lead, *step[1:]


def to_decide(
    target: PrimaryComparison, every: Collection[tuple[str, ...]], compared: Sequence[PrimaryComparison],
    results: Results, in_file: bool,
) -> tuple[str, str, str]:  # fmt: skip
    """Suggest what would decide a comparison: seeds for the undecided rows or, `in_file`, for every row."""
    value, label, against = target.score.value, name_of(target, compared), target.comparison.against.label
    seeds = target.comparison.needs.seeds if target.comparison.needs else None
    if in_file or seeds is None:
        seconds = math.nan if seeds is None else seconds_until(seeds, every, results)
        time = _(" ({time}, all rows)", time=duration(seconds)) if math.isfinite(seconds) else ""
        words = _(
            "Next, to decide {label} against {against} if the difference stays: set {needs} (now {now}) in FILE{time}:",
            label=label,
            against=against,
            needs=what_decides(value, target.comparison, in_all=False),
            now=target.comparison.seeds,
            time=time,
        )
        return words, "ablate run FILE", also_open(target, compared, seeds)
    most, more = max(seeds, MAX_SEEDS), f" --max-seeds {seeds}" if seeds > MAX_SEEDS else ""
    open_rows = {row for each in compared if each.score.verdict == "undecided" for row in (each.cells, each.against)}
    seconds = seconds_until(most, open_rows, results)
    time = _(", at most {time} with the other undecided rows", time=duration(seconds)) if math.isfinite(seconds) else ""
    words = _("Next, to decide {label} against {against}: {needs}{time}:",
              label=label, against=against, needs=what_decides(value, target.comparison), time=time)  # fmt: skip
    return words, f"ablate run FILE --until-decided{more}", also_open(target, compared, most)


def also_open(target: PrimaryComparison, compared: Sequence[PrimaryComparison], seeds: int | None) -> str:
    """Name the other open rows that so many seeds leave open; empty if there are none."""
    rows, baselines = dict[tuple[str, ...], str](), dict[str, None]()
    for each in compared:
        if each.score.verdict == "undecided" and (each.cells, each.against) != (target.cells, target.against):
            needs = each.comparison.needs
            if not (needs and needs.seeds and seeds and needs.seeds <= seeds) or needs.together:
                rows[each.cells] = name_of(each, compared)
                baselines[each.comparison.against.label] = None
    more = [_("{count} more", count=len(rows) - OTHERS)] if len(rows) > OTHERS else []
    named = _("; ").join([*list(rows.values())[:OTHERS], *more])
    if len(baselines) == 1:
        return _("Still undecided then against {baseline}: {rows}.", baseline=next(iter(baselines)), rows=named)
    return _("Still undecided then: {rows}.", rows=named) if rows else ""


def name_of(each: PrimaryComparison, compared: Sequence[PrimaryComparison]) -> str:
    """Return the label of a row, with its section if sections have their own baselines or rows of the same name."""
    label = each.score.row.label
    several = len({other.against for other in compared}) > 1 < len({other.anchor for other in compared})
    if several or any(other.score.row.label == label and other.cells != each.cells for other in compared):
        return _("{label} ({section})", label=label, section=each.section.recorded.title)
    return label


def seconds_until(seeds: int, rows: Iterable[tuple[str, ...]], results: Results) -> float:
    """Return the seconds that rows, each by its cells, train until all have this number of seeds."""
    total = 0.0
    for cells in rows:
        seconds = [p.wall_seconds for cell in cells if (p := results.provenance(cell))]
        total += (math.fsum(seconds) / len(seconds) if seconds else math.nan) * max(0, seeds - len(cells))
    return total


def next_in_table(rows: Sequence[ForestRow], cheapest: PrimaryComparison | None, no_baseline: str) -> str:
    """Suggest what to add to another program's table; the command builds the report again."""
    if no_baseline and not rows:
        return _("Next, name a baseline:")
    if any(row.verdict == "one seed" for row in rows):
        return _("Next, add at least one more seed of each row to the table, then:")
    if cheapest is not None:
        label, needed = cheapest.score.row.label, what_decides(cheapest.score.value, cheapest.comparison)
        return _("Next, add more seeds to the table ({label} against {against} needs {needs}), then:",
                 label=label, against=cheapest.comparison.against.label, needs=needed)  # fmt: skip
    return _("Next, add rows or seeds to the table, then:")


def decidable(compared: Sequence[PrimaryComparison]) -> list[PrimaryComparison]:
    """Return the open comparisons that seeds or texts would decide, the cheapest first, each pair of rows once."""
    found = [
        each
        for each in compared
        if each.score.verdict == "undecided" and (needs := each.comparison.needs)
        if needs.seeds is not None or needs.texts is not None
    ]
    pairs = {(each.cells, each.against): each for each in reversed(found)}
    return sorted(pairs.values(), key=cost_to_decide)


def cost_to_decide(each: PrimaryComparison) -> tuple[float, float]:
    """Return the seconds that decide a comparison (infinite if unknown), and the seeds in all."""
    seeds = each.comparison.needs.seeds if each.comparison.needs else None
    return float(np.nan_to_num(each.comparison.needs_seconds, nan=np.inf)), math.inf if seeds is None else seeds
