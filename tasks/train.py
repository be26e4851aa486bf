"""Prefect task: train one cell on a slot of the engine, its curves going to MLflow while it runs.

Cells of a group train in one process: the first of their tasks that has a slot trains them all, the others wait for it.
"""

import threading
from functools import partial
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive.runs import claim, store
from contrastive.stages.request import Asked
from tasks import worker_calls
from tasks.curves import CurveWriter
from tasks.engines import Engine, Watch
from tasks.failures import infrastructure, raise_failure


class Group:
    """Cells that train together, by their ids; what has become of each, until its own task has asked."""

    def __init__(self, asked: dict[str, Asked], steps: int):
        self.asked, self.waiting, self.steps = asked, dict(asked), steps
        self.reports: dict[str, dict[str, Any] | None] = {}
        self.curves: dict[str, CurveWriter] = {}
        self.turn = threading.Lock()

    def train(self, cell_id: str, engine: Engine, curves: CurveWriter, hung_after: int) -> dict[str, Any] | None:
        self.curves[cell_id] = curves
        if len(self.asked) == 1:
            return self._alone(cell_id, engine, Watch(curves.send_new, hung_after))
        with self.turn:
            if cell_id not in self.reports:
                self.waiting[cell_id] = self.asked[cell_id]  # again, where this is another try
                watch = Watch(self._progress, hung_after)
                self.reports |= engine.run("train", worker_calls.train_together, dict(self.waiting), watch=watch)
            del self.waiting[cell_id]
            return self.reports.pop(cell_id)

    def step(self) -> int:
        """How many of the `steps` of all of them are done."""
        return min(self.steps, sum(curves.lines for curves in list(self.curves.values())))

    def _alone(self, cell_id: str, engine: Engine, watch: Watch) -> dict[str, Any] | None:
        asked = self.asked[cell_id]
        assist = partial(worker_calls.assist, cell_id, claim.latest(store.run_folder(cell_id)))
        processes = asked.cell.training.processes
        return engine.run("train", worker_calls.train, asked, cell_id, processes=processes, assist=assist, watch=watch)

    def _progress(self) -> object:
        """How far all of them are; None before the first has begun."""
        seen = [curves.send_new() for curves in list(self.curves.values())]
        return seen if any(step is not None for step in seen) else None


@task(
    name="train",
    task_run_name="train · {name}",
    retries=2,
    retry_condition_fn=infrastructure,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def train(name: str, cell_id: str, engine: Engine, group: Group, curves: CurveWriter, hung_after: int) -> None:
    raise_failure(group.train(cell_id, engine, curves, hung_after))
