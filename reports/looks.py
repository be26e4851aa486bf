"""Replay the looks of a study that adds seeds: what each look decided, and which rows get more seeds.

Each look follows from the results of its seeds alone. Building a report in between therefore changes nothing, and an
interrupted study continues as if it had not been interrupted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from contrastive.runs.recorded import RecordedSection, Stopping, StudyLook
from reports.compare import RowScore, Section, compare
from reports.guards import Guard, guards
from reports.statistics.cutoffs import looks_up_to
from reports.statistics.decide import DECIDED
from reports.statistics.futility import FUTILE
from reports.study import Results


@dataclass(frozen=True)
class LooksSoFar:
    """A section's looks so far, the seeds that each row has or needs, and why it has ended (empty: it has not)."""

    looks: list[StudyLook]
    seeds: list[int]
    ended: str = ""


def compare_section(section: RecordedSection, results: Results) -> tuple[list[Guard], Section]:
    """Run the guards of a section and compare its rows as far as they allow."""
    fired = guards(section, results)
    blocking = [guard for guard in fired if guard.blocks_ranking]
    may_compare = all(guard.leaves_rows_comparable for guard in blocking)
    return fired, compare(section, results, may_rank=not blocking, may_compare=may_compare)


def replay_looks(section: RecordedSection, results: Results, most_seeds: int, gives_up: bool = True) -> LooksSoFar:
    """Replay the looks for which all cells have results. All rows start with the first look's seeds; undecided rows and
    their baselines get more, with `gives_up` only if further seeds may decide them. `section` must have the cells of
    all possible seeds."""
    looks, sizes = list[StudyLook](), looks_up_to(most_seeds)
    seeds = [sizes[0]] * len(section.rows)
    results = replace(results, study=replace(results.study, stopping=Stopping(most_seeds)))
    for number, size in enumerate(sizes):
        now = rows_at(section, seeds)
        complete = all(len(row.cells) == count for row, count in zip(now.rows, seeds, strict=True))
        if not complete or any(cell not in results.cells for row in now.rows for cell in row.cells):
            return LooksSoFar(looks, seeds)
        _, compared = compare_section(now, results)
        scores = [score for score in compared.scores if score.comparison]
        looks.append(StudyLook(size, {f"{score.row.label}, {score.value}": score.verdict for score in scores}))
        lacking = {score.row.position for score in scores if lacks_result(score, seeds)}  # these get no more seeds
        undecided = [score for score in scores if score.verdict == "undecided" and score.row.position not in lacking]
        if not undecided:
            all_decided = not lacking and all(score.verdict in DECIDED for score in scores)
            why = ("decided" if all_decided else "not comparable") if scores else "nothing to compare"
            return LooksSoFar(looks, seeds, why)
        if number + 1 < len(sizes):
            promising = {
                score.row.position
                for score in undecided
                if not (gives_up and score.comparison and score.comparison.chance < FUTILE)
            }
            if not promising:
                return LooksSoFar(looks, seeds, "futile")
            continuing = promising | {row.against for i, row in enumerate(section.rows) if i in promising}
            seeds = [sizes[number + 1] if i in continuing else count for i, count in enumerate(seeds)]
    return LooksSoFar(looks, seeds, "most seeds")


def lacks_result(score: RowScore, seeds: Sequence[int]) -> bool:
    """Return whether a row or its baseline lacks a result, so that fewer of its seeds count."""
    if score.comparison is None:
        return False
    return score.comparison.seeds < min(seeds[score.row.position], seeds[score.comparison.against.position])


def check_looks(results: Results) -> list[str]:
    """Return a message for each section whose recorded looks do not follow from its results. Results may go further
    than looks if a study was interrupted, or if its budget ran out and other sections added seeds."""
    stopping = results.study.stopping
    if stopping is None:
        return []
    problems = []
    for section in results.study.sections:
        recorded = stopping.looks.get(section.title, [])
        looks = replay_looks(section, results, stopping.most_seeds, stopping.gives_up).looks
        is_whole = stopping.ended.get(section.title, "budget") != "budget"
        if looks[: len(recorded)] != recorded or (is_whole and len(looks) > len(recorded)):
            problems.append(f"{section.title}: the record of its looks is not what its results say")
    return problems


def rows_at(section: RecordedSection, seeds: Sequence[int]) -> RecordedSection:
    """Cut each row to its first `seeds[i]` seeds."""
    rows = [
        replace(row, cells=row.cells[:count], seeds=row.seeds[:count])
        for row, count in zip(section.rows, seeds, strict=True)
    ]
    return replace(section, rows=rows)
