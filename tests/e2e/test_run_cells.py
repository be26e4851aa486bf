"""Cells are handed out longest first, and no more of them at a time than keep the devices busy."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from contrastive.cells import plan
from contrastive.experiment import load
from contrastive.runs import stopping, store
from flows import ablation_grid
from tasks.engines import Engine

pytestmark = pytest.mark.full
FILE = """
name: many
data: {source: "file:texts.csv", train: 40, validation: 10, test: 10}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16, heads: 2, vocabulary: 100}}
seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
sections: [{title: All, base: {loss: ce}, axes: {epochs: [1, 3, 2]}, baseline: {loss: ce, epochs: 3}}]
"""


class Counting(Engine):
    """Three devices that need a tenth of a second for nothing, and keep count."""

    def __init__(self, leave: Path):
        super().__init__(leave)
        self.begun: list[int] = []
        self.flying, self.most, self.free, self.lock = 0, 0, threading.Semaphore(3), threading.Lock()

    def run(self, stage: str, work: Callable[..., Any], *arguments: Any, **others: Any) -> None:
        with self.lock:
            self.flying += 1
            self.most = max(self.most, self.flying)
            if stage == "train":
                self.begun.append(arguments[0].cell.training.epochs)
        try:
            with self.free:
                self.check()
                time.sleep(0.1)
        finally:
            with self.lock:
                self.flying -= 1

    def room_for(self, processes: int) -> None:
        pass

    def width(self) -> int:
        return 6

    def at_once(self) -> int:
        return 3

    def stop(self) -> None:
        self.finish()


@pytest.fixture
def planned(tmp_path: Path, empty_store: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[plan.Plan]:
    home = tmp_path
    shutil.copy(empty_store, home / "mlflow.db")
    monkeypatch.setenv("ABLATE_HOME", str(home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(home)
    (home / "texts.csv").write_text("text,label\n" + "".join(f"word {i},{'ab'[i % 2]}\n" for i in range(60)))
    (home / "many.yaml").write_text(FILE)
    with temporary_settings({PREFECT_API_URL: server}):
        yield plan.make_plan(load.load_experiment(home / "many.yaml"))


def run(planned: plan.Plan, engine: Engine) -> list[Any]:
    @flow(task_runner=ablation_grid.supervisors)
    def one() -> list[Any]:
        return ablation_grid.run_cells(planned, engine)

    return one()


def test_the_longest_first_and_as_many_as_there_is_room_for(planned: plan.Plan):
    with stopping.granted(store.home()) as leave:
        engine = Counting(leave)
        outcomes = run(planned, engine)
    assert len(outcomes) == 30 and 3 < engine.most <= 6
    assert engine.begun[:6] == [3] * 6 and engine.begun[-6:] == [1] * 6  # in order, but for who of six is quicker
