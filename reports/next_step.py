"""The next step after a report: what decides the cheapest open comparison, or why nothing here decides the rest."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reports.forest import ForestRow, PrimaryComparison
from reports.markdown import duration, split_of
from reports.messages import _, listed
from reports.rows import seconds_of_cell
from reports.study import Results, Study
from reports.tables import what_decides

MAX_SEEDS = 20  # default of `--until-decided`
LISTED_SEEDS = 12  # most seeds that are written as a list
OTHERS = 2  # most comparisons that are named


@dataclass(frozen=True)
class NextStep:
    words: str
    command: str = ""
    also_open: str = ""  # what it leaves undecided


def next_step(rows: Sequence[ForestRow], results: Results, compared: Sequence[PrimaryComparison]) -> NextStep:
    """Suggest a next step and the command for it."""
    study = results.study
    file = study.file
    undecided = [pair for pair in compared if pair.comparison.verdict == "undecided"]
    means = {(row.section, row.label) for row in rows if row.parts and row.verdict != "undecided"}
    answered = {row.section for row in rows if row.verdict == "better"}
    decidable = sorted(filter(is_decidable, undecided), key=price)
    decidable.sort(key=lambda pair: (question_row(pair) in means, question_of(pair) in answered))
    hopeless = [pair for pair in undecided if not is_decidable(pair)]
    if study.foreign is not None:
        return NextStep(next_in_table(decidable), study.foreign.command) if study.foreign.command else NextStep("")
    cells = [cell for section in study.sections for row in section.rows for cell in row.cells]
    if any(cell not in results.cells or results.cells[cell].status not in ("finished", "diverged") for cell in cells):
        return NextStep(_("Next, run what is missing:"), f"ablate run {file}")
    if any(row.verdict in ("one seed", "no spread") for row in rows):
        return NextStep(_("Next, add seeds:"), f"ablate run {file} --until-decided")
    if decidable:
        step = to_decide(decidable, hopeless, results)
        if question_row(decidable[0]) not in means:
            return step
        return replace(step, words=" ".join([_("Decided on average."), step.words]))
    if not rows or any(row.verdict == "not comparable" for row in rows):
        return NextStep("")
    if hopeless:
        return NextStep(_("Stop here: {why}", why=cannot_be_decided(hopeless)))
    if open_means := [row.label for row in rows if row.parts and row.verdict == "undecided"]:
        words = _("Undecided on average: {rows}. Add seeds or data sets to {file}:", rows=listed(open_means), file=file)
        return NextStep(words, f"ablate plan {file}")
    return NextStep(
        _("All comparisons are decided. To ask more, add rows to {file}:", file=file), f"ablate plan {file}"
    )


def is_decidable(pair: PrimaryComparison) -> bool:
    """Return whether seeds or texts would decide a comparison."""
    needs = pair.comparison.needs
    return needs is not None and (needs.seeds or needs.texts) is not None


def question_row(pair: PrimaryComparison) -> tuple[str, str]:
    return question_of(pair), pair.score.row.label


def question_of(pair: PrimaryComparison) -> str:
    return pair.section.recorded.question or pair.section.recorded.title


def needed_seeds(pair: PrimaryComparison) -> int | None:
    return pair.comparison.needs.seeds if pair.comparison.needs else None


def price(pair: PrimaryComparison) -> tuple[float, float]:
    """Sort key: seconds to decide a comparison, then seeds."""
    seconds, seeds = pair.comparison.needs_seconds, needed_seeds(pair)
    return math.inf if math.isnan(seconds) else seconds, math.inf if seeds is None else seeds


def next_in_table(decidable: Sequence[PrimaryComparison]) -> str:
    """Suggest what to add to another program's table; the command builds the report again."""
    if not decidable:
        return _("Next, add rows or seeds to the table, then:")
    needed = what_decides(decidable[0].score.value, decidable[0].comparison)
    return _("Next, add more seeds to the table ({label} against {against} needs {needs}), then:",
             label=decidable[0].label, against=decidable[0].comparison.against.label, needs=needed)  # fmt: skip


def to_decide(
    decidable: Sequence[PrimaryComparison], hopeless: Sequence[PrimaryComparison], results: Results
) -> NextStep:
    """Suggest what would decide a comparison: numbers to write into the file, or seeds that a study adds to all
    undecided rows. `decidable`: those of questions without a better row first, the cheapest first."""
    study, target = results.study, decidable[0]
    seeds = needed_seeds(target)
    needs = what_decides(target.score.value, target.comparison, in_all=study.stopping is not None)
    also = cannot_be_decided(hopeless) if hopeless else ""
    words = _("To decide {label}: {needs}.", needs=needs, label=target.label)
    cheapest = min(decidable, key=price)
    if price(cheapest) < price(target):
        needed = what_decides(cheapest.score.value, cheapest.comparison, in_all=False)
        words += _(" The cheapest: {label}, {needs}.", label=cheapest.label, needs=needed)
    every = {tuple(row.cells) for section in study.sections for row in section.rows}
    if study.stopping is None:
        time = time_of(every, seeds or 0, results)
        comment = _(" # all rows: {time}", time=time) if time else ""
        setting = setting_text(target, study)
        how = _("Set {setting} in {file}.", setting=setting, file=study.file)
        return NextStep(f"{words} {how}", f"ablate run {study.file}{comment}", also)
    most = max(seeds or 0, study.stopping.most_seeds)
    more = "" if most == MAX_SEEDS else f" --max-seeds {most}"
    time = time_of(every, most, results)  # with other seeds at most, decided comparisons may be open again
    comment = _(" # at most {time}", time=time) if time else ""
    return NextStep(words, f"ablate run {study.file} --until-decided{more}{comment}", also)


def time_of(rows: Iterable[tuple[str, ...]], seeds: int, results: Results) -> str:
    """Return how long rows of cells train up to `seeds` seeds; empty if that is unknown or nothing."""
    seconds = sum(seconds_of_cell(cells, results) * max(0, seeds - len(cells)) for cells in rows)
    return duration(seconds) if seconds and math.isfinite(seconds) else ""


def setting_text(target: PrimaryComparison, study: Study) -> str:
    """Return the keys and values that decide a comparison. The seeds of a choice stay its own."""
    needs, has, parts = target.comparison.needs, target.score.row.seeds, list[str]()
    if needs and needs.seeds is not None:
        taken = {*has, *(study.choice.seeds if study.choice else [])}
        fresh = [seed for seed in range(needs.seeds + len(taken)) if seed not in taken]
        seeds = [*has, *fresh][: needs.seeds]
        few = len(seeds) <= LISTED_SEEDS
        parts.append(f"seeds: {seeds}" if few else f"seeds: [{seeds[0]}, {seeds[1]}, …, {seeds[-1]}]")
    if needs and needs.texts is not None and (needs.together or not parts):
        parts.append(f"{split_of(target.score.value)}: {needs.texts}")
    return listed(parts)


def cannot_be_decided(pairs: Sequence[PrimaryComparison]) -> str:
    """Say which comparisons no affordable number of seeds or texts decides."""
    labels = listed(list(dict.fromkeys(pair.label for pair in pairs)), OTHERS)
    limit = what_decides(pairs[0].score.value, pairs[0].comparison)
    return _("{rows} cannot be decided here: that takes {limit}.", rows=labels, limit=limit)
