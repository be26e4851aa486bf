"""`ablate run --until-decided`: choose which cells to run next, section by section, as results come in.

Each section is judged when all its cells have ended, while other sections still run. Decisions follow from the results
alone (reports/looks.py), so nothing else is stored and an interrupted study can continue.
"""

import time

from contrastive.grid.expand import LoadedExperiment, first_seeds, with_seeds
from contrastive.grid.plan import Plan, make_plan, recorded_declarations, recorded_grid
from contrastive.grid.status import Status
from contrastive.runs import store
from contrastive.runs.recorded import Stopping, StudyLook
from reports.load import load
from reports.looks import replay_looks
from reports.statistics.cutoffs import LOOKS
from tasks.address import tracking_uri
from tasks.sync import sync


class GrowingGrid:
    """An experiment with as many seeds as it needs: the seeds of each row so far, and the sections that have ended."""

    def __init__(
        self,
        resolved: LoadedExperiment,
        most_seeds: int,
        budget: float | None = None,
        *,
        gives_up: bool = True,
        records: bool = True,
    ):
        """`gives_up`: add no seeds where they will hardly decide. `records`: update MLflow from the run folders; if
        False, only read MLflow."""
        self.records, self.out_of_time = records, "budget"
        self.full_plan = make_plan(with_seeds(resolved, most_seeds))
        self.most_seeds, self.gives_up = most_seeds, gives_up
        self.deadline = None if budget is None else time.monotonic() + budget
        self.counts = [[LOOKS[0]] * len(part.rows) for part in self.full_plan.resolved.sections]
        self.ended: dict[str, str] = {}
        self.looks: dict[str, list[StudyLook]] = {}
        self.handed_out: set[str] = set()  # ids of cells given out to run
        self.ran: set[str] = set()  # ids of those cells that have ended

    def plan(self) -> Plan:
        """Return the plan of all cells requested so far."""
        resolved = first_seeds(self.full_plan.resolved, self.counts)
        return Plan(resolved, {cell: self.full_plan.statuses[cell] for cell in resolved.cells})

    def stopping(self) -> Stopping:
        return Stopping(self.most_seeds, self.looks, self.ended, self.gives_up)

    def after(self, cell: str) -> list[Status]:
        """Return further cells to run now that `cell` has ended."""
        self.ran.add(cell)
        complete = any(self._all_ended(number) for number, _ in self._undecided() if cell in self._ids(number))
        return self.next_cells() if complete else []

    def next_cells(self) -> list[Status]:
        """Return the cells to run next, after judging the sections that are complete."""
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
            elif self._may_add(number, replayed.seeds):
                self.counts[number], more = replayed.seeds, True
            else:
                self.ended[title] = self.out_of_time
        return more

    def _all_ended(self, number: int) -> bool:
        to_do = {status.id for status in self.full_plan.to_do} - self.ran
        return not to_do & self._ids(number)

    def _may_add(self, number: int, counts: list[int]) -> bool:
        """Return whether a section may grow to these numbers of seeds per row: in time, or by finished cells alone."""
        if self.deadline is None or time.monotonic() <= self.deadline:
            return True
        return all(s.action == "reuse" or s.id in self.handed_out for s in self._statuses(number, counts))

    def _undecided(self) -> list[tuple[int, str]]:
        """Return number and title of the sections that have not ended."""
        parts = enumerate(self.full_plan.resolved.sections)
        return [(number, part.title) for number, part in parts if part.title not in self.ended]

    def _ids(self, number: int) -> set[str]:
        """Return the ids of a section's cells at its current numbers of seeds."""
        return {status.id for status in self._statuses(number, self.counts[number])}

    def _statuses(self, number: int, counts: list[int]) -> list[Status]:
        """Return the cells of a section at these numbers of seeds per row."""
        rows = self.full_plan.resolved.sections[number].rows
        cells = [cell for row, count in zip(rows, counts, strict=True) for cell in row.cells[:count]]
        return [self.full_plan.statuses[cell] for cell in cells]


def plan_so_far(resolved: LoadedExperiment, records: bool) -> tuple[Plan, Stopping | None]:
    """Plan an experiment with the seeds of its file; if it was run as a study, with the seeds requested so far.

    Also return the record of the study, None if it is none. `records`: whether MLflow may be updated.
    """
    declared = recorded_declarations(resolved.experiment.name)
    if not declared or declared[-1].most_seeds is None:
        return make_plan(resolved), None
    growing = GrowingGrid(
        resolved, declared[-1].most_seeds, budget=0.0, gives_up=declared[-1].gives_up, records=records
    )
    growing.out_of_time = ""  # nothing is trained now, so the budget ended nothing
    growing.next_cells()
    return growing.plan(), growing.stopping()
