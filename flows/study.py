"""`ablate run --until-decided`: choose which cells to run next, section by section, as results come in; and
`ablate plan --to-decide`: list what would decide each open comparison.

Each section is judged when all its cells have ended, while other sections still run. Decisions follow from the results
alone (reports/looks.py), so nothing else is stored and an interrupted study can continue.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator

from contrastive.config.cell import Cell, Data
from contrastive.errors import UserError
from contrastive.grid.estimate import CostEstimator
from contrastive.grid.expand import LoadedExperiment, first_seeds, with_seeds
from contrastive.grid.plan import Plan, declaration, make_plan, recorded_declarations, recorded_grid
from contrastive.grid.status import Status
from contrastive.runs import store
from contrastive.runs.recorded import Stopping, StudyLook
from flows.terminal import human_span
from reports.compare import Comparison
from reports.guards import changed_declarations
from reports.load import load
from reports.looks import compare_section, replay_looks
from reports.markdown import difference_text, most_of, split_of, unit, with_unit
from reports.provenance import rows_dropped
from reports.statistics.cutoffs import LOOKS
from reports.statistics.decide import DECIDED
from reports.study import Results
from tasks.address import tracking_uri
from tasks.engines import Engine
from tasks.sync import sync

NOT_JUDGED = {
    "not comparable": "cells have no results, or a warning in the report rules out the comparison",
    "one seed": "one seed shows no spread between seeds; `ablate run FILE --until-decided` adds seeds",
    "no spread": "all seeds give the same score",
}
NOTHING = "even 64 seeds and 100 times the {split} texts would not decide a difference this small"


class Study:
    """An experiment with as many seeds as it needs: the seeds of each row so far, and the sections that have ended."""

    def __init__(
        self,
        resolved: LoadedExperiment,
        most_seeds: int,
        budget: float | None = None,
        *,
        keep_stale: bool = False,
        gives_up: bool = True,
        records: bool = True,
    ):
        """`gives_up`: add no seeds where they will hardly decide. `records`: update MLflow from the run folders; if
        False, only read MLflow."""
        self.records, self.out_of_time = records, "budget"
        self.full_plan = make_plan(with_seeds(resolved, most_seeds), keep_stale=keep_stale)
        self.most_seeds, self.gives_up = most_seeds, gives_up
        self.deadline = None if budget is None else time.monotonic() + budget
        self.counts = [[LOOKS[0]] * len(part.rows) for part in self.full_plan.resolved.sections]
        self.ended: dict[str, str] = {}
        self.looks: dict[str, list[StudyLook]] = {}
        self.handed_out: set[str] = set()  # ids of cells given out to run
        self.ran: set[str] = set()  # ids of those cells that have ended
        self.engine: Engine | None = None  # where new cells would run; None if none is started

    def plan(self) -> Plan:
        """Return the plan of all cells requested so far."""
        resolved = first_seeds(self.full_plan.resolved, self.counts)
        return Plan(resolved, {cell: self.full_plan.statuses[cell] for cell in resolved.cells}, self.full_plan.kept)

    def stopping(self) -> Stopping:
        return Stopping(self.most_seeds, self.looks, self.ended, self.gives_up)

    def begin(self, engine: Engine | None = None) -> list[Status]:
        """Return the first cells to run on an engine, after judging the sections that are complete already."""
        self.engine = engine
        return self._next_cells()

    def after(self, cell: str) -> list[Status]:
        """Return further cells to run now that `cell` has ended."""
        self.ran.add(cell)
        complete = any(self._all_ended(number) for number, _ in self._undecided() if cell in self._ids(number))
        return self._next_cells() if complete else []

    def _next_cells(self) -> list[Status]:
        while self._judge():
            pass  # the results of the added seeds may exist already
        fresh = [status for status in self.plan().to_do if status.id not in self.handed_out]
        self.handed_out |= {status.id for status in fresh}
        return fresh

    def _judge(self) -> bool:
        """Judge the sections whose cells have all ended. Return whether any of them needs more seeds."""
        ready = [(number, title) for number, title in self._undecided() if self._all_ended(number)]
        if not ready:
            return False
        plan, name = self.plan(), self.full_plan.experiment.name
        if self.records:
            settled = {cell: s for cell, s in plan.statuses.items() if s.action == "reuse" or s.id in self.ran}
            sync(plan, self.stopping(), settled)
        results, more = load(name, tracking_uri(store.home()), recorded_grid(plan, [])), False
        sections = recorded_grid(self.full_plan, []).sections
        for number, title in ready:
            replayed = replay_looks(sections[number], results, self.most_seeds, self.gives_up)
            self.looks[title] = replayed.looks
            if replayed.ended:
                self.ended[title] = replayed.ended
            elif replayed.seeds == self.counts[number]:
                continue  # MLflow lacks a cell, which `ablate sync` adds
            elif self._fits(number, replayed.seeds):
                self.counts[number], more = replayed.seeds, True
            else:
                self.ended[title] = self.out_of_time
        return more

    def _all_ended(self, number: int) -> bool:
        to_do = {status.id for status in self.full_plan.to_do} - self.ran
        return not to_do & self._ids(number)

    def _fits(self, number: int, counts: list[int]) -> bool:
        """Return whether a section with these numbers of seeds per row should end within the budget.

        Cells of unknown duration count as no time.
        """
        if self.deadline is None:
            return True
        rows = self.full_plan.resolved.sections[number].rows
        cells = {cell for row, count in zip(rows, counts, strict=True) for cell in row.cells[:count]}
        new = [
            cell
            for cell in cells
            if (s := self.full_plan.statuses[cell]).action != "reuse" and s.id not in self.handed_out
        ]
        if not new:
            return True
        if self.engine is None:
            return time.monotonic() <= self.deadline
        experiment = self.full_plan.experiment
        fit = CostEstimator(experiment.evaluation, experiment.speed)
        seconds = fit.total_seconds(new) or 0.0
        return time.monotonic() + seconds / max(1, self.engine.parallel_trainings()) <= self.deadline

    def _undecided(self) -> list[tuple[int, str]]:
        """Return number and title of the sections that have not ended."""
        parts = enumerate(self.full_plan.resolved.sections)
        return [(number, part.section.title) for number, part in parts if part.section.title not in self.ended]

    def _ids(self, number: int) -> set[str]:
        """Return the ids of a section's cells at its current numbers of seeds."""
        rows = self.full_plan.resolved.sections[number].rows
        counts = self.counts[number]
        return {self.full_plan.statuses[cell].id for row, n in zip(rows, counts, strict=True) for cell in row.cells[:n]}


def plan_so_far(resolved: LoadedExperiment, records: bool) -> tuple[Plan, Stopping | None]:
    """Plan an experiment with the seeds of its file; if it was run as a study, with the seeds requested so far.

    Also return the record of the study, None if it is none. `records`: whether MLflow may be updated.
    """
    declared = recorded_declarations(resolved.experiment.name)
    if not declared or declared[-1].most_seeds is None:
        return make_plan(resolved), None
    study = Study(resolved, declared[-1].most_seeds, budget=0.0, gives_up=declared[-1].gives_up, records=records)
    study.out_of_time = ""  # nothing is trained now, so the budget ended nothing
    study.begin()
    return study.plan(), study.stopping()


def lines_to_decide(plan: Plan) -> Iterator[str]:
    """Yield what would decide each open comparison, with or without results so far."""
    fit = CostEstimator(plan.experiment.evaluation, plan.experiment.speed)
    yield cost_of_one_seed(plan, fit)
    try:
        plan, stopping = plan_so_far(plan.resolved, records=False)
        results = load(plan.experiment.name, tracking_uri(store.home()), recorded_grid(plan, [], stopping))
    except UserError:
        yield (
            "nothing has run yet, so the spread between seeds is unknown: `ablate run FILE --until-decided` starts "
            f"with {LOOKS[0]} seeds and adds more where undecided"
        )
        return
    now = declaration(plan, stopping)
    for before in recorded_declarations(plan.experiment.name)[-1:]:
        for change in changed_declarations(before, now):
            yield f"changed since the last declaration of how results are judged: {change}"
    yield from undecided(plan, results, fit)


def cost_of_one_seed(plan: Plan, fit: CostEstimator) -> str:
    """Describe the training time of one seed of every configuration here."""
    cells = {row.cells[0] for part in plan.resolved.sections for row in part.rows}
    seconds = fit.total_seconds(cells)
    if seconds is None:
        return "the training time of one seed is unknown until a cell with each encoder has finished"
    return f"one seed of all {len(cells)} configurations trains for {human_span(seconds)}"


def undecided(plan: Plan, results: Results, fit: CostEstimator) -> Iterator[str]:
    """Yield a line per undecided comparison: the seeds or texts it needs, the cheaper first."""
    missing = {status.id for status in plan.statuses.values()} - results.cells.keys()
    if missing:
        yield f"{len(missing)} of {len(plan.statuses)} cells have no results yet: `ablate run FILE` trains them"
    verdicts = Counter[str]()
    for section in results.study.sections:
        _, compared = compare_section(section, results)
        rows = {part.section.title: part.rows for part in plan.resolved.sections}.get(section.title, ())
        if not compared.comparisons:
            yield f"{section.title}: nothing to compare; name a baseline with `baseline:`"
        for score, comparison in compared.comparisons:
            verdicts[score.verdict] += 1
            if score.verdict == "undecided":
                label, against, scale = score.row.label, comparison.against.label, unit(score.value)
                cells = [row.cells[0] for row in rows if row.label in (label, against)]
                ways = [
                    *more_seeds(comparison, cells, fit),
                    *more_texts(score.value, comparison, cells, plan, results, fit),
                ]
                joint = " together with " if comparison.needs and comparison.needs.together else ", or "
                known = difference_text(
                    scale * comparison.difference, scale * comparison.half_width, most_of(score.value)
                )
                size = with_unit(known, scale > 1)
                advice = joint.join(text for _, text in sorted(ways)) or NOTHING.format(split=split_of(score.value))
                yield f"{section.title}: {label} vs. {against} in {score.value} is undecided, {size}: {advice}"
    total = verdicts.total()
    for kind, why in NOT_JUDGED.items():
        if verdicts[kind]:
            yield f"{verdicts[kind]} of {total} comparisons cannot be judged yet: {why}"
    yield f"{sum(verdicts[kind] for kind in DECIDED)} of {total} comparisons are decided"


def more_seeds(comparison: Comparison, cells: list[Cell], fit: CostEstimator) -> Iterator[tuple[float, str]]:
    """Yield (training seconds, text) for the seeds that would decide a comparison."""
    if comparison.needs and comparison.needs.seeds is not None:
        once = fit.total_seconds(cells)
        seconds = (once or 0.0) * (comparison.needs.seeds - comparison.seeds)
        time = "" if not cells or once is None else f" ({human_span(seconds)} of training)"
        yield seconds, f"{comparison.needs.seeds} seeds{time}"


def more_texts(
    value: str, comparison: Comparison, cells: list[Cell], plan: Plan, results: Results, fit: CostEstimator
) -> Iterator[tuple[float, str]]:
    """Yield (seconds, text) for the texts that would decide a comparison, or why there are none."""
    needs = comparison.needs
    if not cells or needs is None or needs.texts is None:
        return
    count, data, split = needs.texts, cells[0].data, split_of(value)
    evaluation = plan.experiment.evaluation.model_copy(update={"test": count})
    left = texts_left(split, data, plan, results)
    reason = (evaluation.unmeasurable(data) if split == "test" else "") or (
        f"the data has only {left} texts left" if left is not None and left < count else ""
    )
    if not reason and split != "test":
        reason = f"set data.{split}; every cell is then trained again"
    if reason:
        yield math.inf, f"{count} {split} texts ({reason})"
        return
    each = [fit.embedding_seconds(cell, count) for cell in plan.resolved.cells]
    seconds = sum(s for s in each if s is not None)
    kind = " of evaluation, without training"
    if needs.together and needs.seeds is not None:
        further = (fit.embedding_seconds(cell, count) for cell in cells)
        seconds += sum(s for s in further if s is not None) * (needs.seeds - comparison.seeds)
        kind = " of evaluation"
    time = f"; {human_span(seconds)}{kind}" if None not in each else ""
    yield seconds, f"{count} test texts (`evaluation: {{test: {count}}}`{time})"


def texts_left(split: str, data: Data, plan: Plan, results: Results) -> int | None:
    """Return how many texts are left for a split; None if they have not been counted."""
    name = plan.resolved.data_names[data]
    counts = next((part.sifted.get("source") for part in results.study.data if part.name == name), None)
    others = [getattr(data, name) for name in ("train", "validation", "test") if name != split]
    if counts is None or not all(isinstance(size, int) for size in others):
        return None
    return counts["rows"] - rows_dropped(counts) - sum(others)
