"""The next step after a report: the cheapest one that answers its headline, and the rows that it leaves open."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.forest import ForestRow, PrimaryComparison, winner
from reports.markdown import duration
from reports.messages import N_, _
from reports.rows import seconds_of_cell
from reports.study import Results
from reports.tables import what_decides

MAX_SEEDS = 20  # default of `--until-decided`
OTHERS = 3  # most rows that are named as open too


@dataclass(frozen=True)
class NextStep:
    words: str
    command: str
    also_open: str = ""  # what it leaves undecided


def next_step(
    rows: Sequence[ForestRow],
    results: Results,
    compared: Sequence[PrimaryComparison],
    no_baseline: str,
    second: PrimaryComparison | None = None,
) -> NextStep:
    """Suggest a next step and the command for it. `no_baseline`: a setting that would name a baseline; `second`: the
    headline's row beside the next best."""
    study = results.study
    target = cheapest(compared, winner(rows))
    if study.foreign is not None:
        return NextStep(next_in_table(target), study.foreign.command)  # shown if there is a command
    cells = [cell for section in study.sections for row in section.rows for cell in row.cells]
    if any(cell not in results.cells or results.cells[cell].status not in ("finished", "diverged") for cell in cells):
        return NextStep(_("Next, run what is missing:"), "ablate run FILE")
    if no_baseline and not rows:
        words = _("Next, name a baseline in the file, such as {baseline}:", baseline=no_baseline)
        return NextStep(words, "ablate run FILE")
    if any(row.verdict == "one seed" for row in rows):
        return NextStep(_("Next, add seeds:"), "ablate run FILE --until-decided")
    # seeds set in the file would be one more look at a study that has stopped by its rules
    if second and is_decidable(second) and study.stopping is None:
        return to_decide(second, True, compared, results)
    if target is None:
        return NextStep(_("Next, add rows to the file and see what they cost:"), "ablate plan FILE")
    return to_decide(target, needed_seeds(target) is None, compared, results)


def needed_seeds(pair: PrimaryComparison) -> int | None:
    return pair.comparison.needs.seeds if pair.comparison.needs else None


def is_decidable(pair: PrimaryComparison) -> bool:
    """Return whether a comparison is open, and seeds or texts would decide it."""
    needs = pair.comparison.needs
    return pair.comparison.verdict == "undecided" and needs is not None and (needs.seeds or needs.texts) is not None


def cheapest(compared: Sequence[PrimaryComparison], best: ForestRow | None) -> PrimaryComparison | None:
    """Return the open comparison that takes the fewest seconds to decide, of the headline's section if it has one."""

    def price(pair: PrimaryComparison) -> tuple[bool, float, float]:
        seconds, seeds = pair.comparison.needs_seconds, needed_seeds(pair)
        elsewhere = best is not None and pair.anchor != best.anchor
        return elsewhere, math.inf if math.isnan(seconds) else seconds, math.inf if seeds is None else seeds

    return min(filter(is_decidable, compared), key=price, default=None)


def next_in_table(target: PrimaryComparison | None) -> str:
    """Suggest what to add to another program's table; the command builds the report again."""
    if target is None:
        return _("Next, add rows or seeds to the table, then:")
    needed = what_decides(target.score.value, target.comparison)
    return _("Next, add more seeds to the table ({label} against {against} needs {needs}), then:",
             label=target.score.row.label, against=target.comparison.against.label, needs=needed)  # fmt: skip


def to_decide(
    target: PrimaryComparison, in_file: bool, compared: Sequence[PrimaryComparison], results: Results
) -> NextStep:
    """Suggest what would decide a comparison: seeds or texts set in the file for all rows, or seeds that a study adds
    to the undecided rows."""
    value, seeds = target.score.value, needed_seeds(target) or 0
    names = {"label": target.label, "against": target.comparison.against.label}
    if in_file:
        every = {tuple(row.cells) for section in results.study.sections for row in section.rows}
        words = _(
            "Next, to decide {label} against {against} if the difference stays: set {needs} (now {now}) in FILE{time}:",
            needs=what_decides(value, target.comparison, in_all=False),
            now=target.comparison.seeds,
            time=time_until(seeds, every, N_(" ({time}, all rows)"), results) if seeds else "",
            **names,
        )
        return NextStep(words, "ablate run FILE", also_open(target, compared, seeds))
    most = max(seeds, MAX_SEEDS)
    rows = {row for pair in compared if pair.score.verdict == "undecided" for row in (pair.cells, pair.against)}
    words = _(
        "Next, to decide {label} against {against}: {needs}{time}:",
        needs=what_decides(value, target.comparison),
        time=time_until(most, rows, N_(", at most {time} with the other undecided rows"), results),
        **names,
    )
    more = f" --max-seeds {seeds}" if seeds > MAX_SEEDS else ""
    return NextStep(words, f"ablate run FILE --until-decided{more}", also_open(target, compared, most))


def time_until(seeds: int, rows: Iterable[tuple[str, ...]], words: str, results: Results) -> str:
    """Say how long rows, each by its cells, train until all have this number of seeds; empty if unknown."""
    total = 0.0
    for cells in rows:
        total += seconds_of_cell(cells, results) * max(0, seeds - len(cells))
    return _(words, time=duration(total)) if math.isfinite(total) else ""


def also_open(target: PrimaryComparison, compared: Sequence[PrimaryComparison], seeds: int) -> str:
    """Name the other open rows that so many seeds leave open; empty if there are none."""
    labels, baselines = list[str](), set[str]()
    for pair in compared:
        if pair.score.verdict != "undecided" or (pair.cells, pair.against) == (target.cells, target.against):
            continue
        needs = pair.comparison.needs
        if needs is None or needs.together or (needs.seeds or math.inf) > seeds:
            labels.append(pair.label)
            baselines.add(pair.comparison.against.label)
    labels = list(dict.fromkeys(labels))
    more = [_("{count} more", count=len(labels) - OTHERS)] if len(labels) > OTHERS else []
    named = _("; ").join([*labels[:OTHERS], *more])
    if len(baselines) == 1:
        return _("Still undecided then against {baseline}: {rows}.", baseline=baselines.pop(), rows=named)
    return _("Still undecided then: {rows}.", rows=named) if labels else ""
