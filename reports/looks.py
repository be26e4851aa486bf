"""A study that stops by itself: what each look decided, and which rows get more seeds, from the results alone.

Looking in between changes nothing, and a study that was interrupted goes on as if it had not been: what was decided
follows from the results of the seeds that each look had.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from contrastive.runs.recorded import RecordedSection, Stopping, StudyLook
from reports.compare import DECIDED, Section, compare
from reports.guards import Guard, guards
from reports.load import Results
from reports.statistics.cutoffs import looks_up_to

# Guards that leave whole rows comparable, seed by seed; any other one says that no two rows are.
COVERAGE = {"missing", "missing score", "seeds", "one seed"}


@dataclass(frozen=True)
class LooksSoFar:
    """Of one section: its looks so far, the seeds that each row has or needs, and why it needs no more."""

    looks: list[StudyLook]
    seeds: list[int]
    ended: str = ""


def judge_section(section: RecordedSection, results: Results) -> tuple[list[Guard], Section]:
    """What a section shows, as far as its guards allow it. While cells are at work nothing is compared, so that whoever
    looks early does not look twice."""
    running = results.progress is not None
    fired = [guard for guard in guards(section, results) if not (running and guard.kind in COVERAGE)]
    blocking = {guard.kind for guard in fired if guard.blocks_ranking}
    return fired, compare(section, results, may_rank=not blocking, may_compare=blocking <= COVERAGE and not running)


def replay_looks(section: RecordedSection, results: Results, most_seeds: int) -> LooksSoFar:
    """`section` has the cells of all seeds that may be. All rows begin; the undecided and their baselines go on."""
    looks, sizes = list[StudyLook](), looks_up_to(most_seeds)
    seeds = [sizes[0]] * len(section.rows)
    results = replace(results, grid=replace(results.grid, stopping=Stopping(most_seeds)))
    for number, size in enumerate(sizes):
        now = rows_at(section, seeds)
        whole = all(len(row.cells) == count for row, count in zip(now.rows, seeds, strict=True))
        if not whole or any(cell not in results.cells for row in now.rows for cell in row.cells):
            return LooksSoFar(looks, seeds)
        _, compared = judge_section(now, results)
        scores = [score for score in compared.scores if score.comparison]
        looks.append(StudyLook(size, {f"{score.row.label}, {score.value}": score.verdict for score in scores}))
        undecided = {score.row.position for score in scores if score.verdict == "undecided"}
        if not undecided:
            whole = all(score.verdict in DECIDED for score in scores)
            why = ("decided" if whole else "not comparable") if scores else "nothing to compare"
            return LooksSoFar(looks, seeds, why)
        if number + 1 < len(sizes):
            wanted = undecided | {row.against for i, row in enumerate(section.rows) if i in undecided}
            seeds = [sizes[number + 1] if i in wanted else count for i, count in enumerate(seeds)]
    return LooksSoFar(looks, seeds, "most seeds")


def check_looks(results: Results) -> list[str]:
    """Where the record of a study's looks is not what its results say. Of a study that was interrupted, results may
    have come after its last look."""
    stopping = results.grid.stopping
    if stopping is None:
        return []
    problems = []
    for section in results.grid.sections:
        noted = stopping.looks.get(section.title, [])
        looks = replay_looks(section, results, stopping.most_seeds).looks
        if looks[: len(noted)] != noted or (section.title in stopping.ended and len(looks) > len(noted)):
            problems.append(f"{section.title}: the record of its looks is not what its results say")
    return problems


def rows_at(section: RecordedSection, seeds: Sequence[int]) -> RecordedSection:
    rows = [
        replace(row, cells=row.cells[:count], seeds=row.seeds[:count])
        for row, count in zip(section.rows, seeds, strict=True)
    ]
    return replace(section, rows=rows)
