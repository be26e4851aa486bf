"""Two flows that want one grid at the same moment, and one whose grid was edited after it was finished."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from contrastive.grid import load
from contrastive.grid import plan as plans
from contrastive.runs import claim, store
from tests.chaos import grid, processes, soak, ways
from tests.waiting import soon

pytestmark = pytest.mark.e2e

AT_THE_BARRIER = """
import sys
from flows.ablation_grid import ablation_grid
print("ready", flush=True)
sys.stdin.readline()
ablation_grid(sys.argv[1])
"""


def test_two_flows_at_once_train_each_cell_once(
    tmp_path: Path, empty_store: Path, experiment: Path, environment: dict[str, str], truth: dict[str, Any]
):
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(empty_store, home / "mlflow.db")
    settings = os.environ | environment | {"ABLATE_HOME": str(home), "PREFECT_LOGGING_LEVEL": "CRITICAL"}
    command = [sys.executable, "-c", AT_THE_BARRIER, str(experiment)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    flows = [subprocess.Popen(command, env=settings, text=True, **pipes) for _ in range(2)]
    for flow in flows:
        assert flow.stdout is not None and flow.stdout.readline() == "ready\n"
    for flow in flows:
        assert flow.stdin is not None
        flow.stdin.write("go\n")
        flow.stdin.flush()
    try:
        said = [flow.communicate(timeout=180) for flow in flows]
    except subprocess.TimeoutExpired:  # they wait for each other for ever
        for left in processes.of(home):
            left.kill()
        raise
    assert [flow.returncode for flow in flows] == [0, 0], said
    assert grid.results(home) == truth
    assert [soak.trainings(run) for run in sorted(home.glob("runs/*"))] == [1] * len(truth)
    assert soak.left_in_the_store(home) == [] and processes.gone_within(10, home) == []


class Stopper(threading.Thread):
    """Stops whichever process trains the cell `hanging`: once, or every time that it is tried."""

    def __init__(self, home: Path, hanging: str, times: int):
        super().__init__(daemon=True)
        self.run_folder, self.times, self.stopped = home / "runs" / hanging, times, list[int]()

    def run(self) -> None:
        while len(self.stopped) < self.times:
            for known in claim.attempts(self.run_folder)[-1:]:
                attempt = self.run_folder / "attempts" / claim.latest_attempt(self.run_folder)
                is_new = "ended" not in known and known["number"] not in self.stopped
                if is_new and (attempt / "resume" / "state.pt").exists():
                    os.kill(known["pid"], signal.SIGSTOP)
                    self.stopped.append(known["number"])
            time.sleep(0.01)


BAD = {
    "failing": {"title": "Failing", "base": {"text": "no such column"}, "baseline": {}},
    "hanging": {"title": "Hanging", "base": {"weight_decay": 0.5}, "baseline": {}},
    "diverging": {"title": "NaN", "base": {"encoder_lr": 1e30, "head_lr": 1e30, "clip": 0}, "baseline": {}},
}


def test_an_edited_grid_reuses_what_stands_and_bad_cells_stop_no_other(
    tmp_path: Path, finished: Path, environment: dict[str, str], request: pytest.FixtureRequest
):
    """The value ce+supcon is removed, ce+simcse is added, and cells that fail, hang and diverge, each in each place."""
    texts = Path(store.read_json(next(finished.glob("runs/*/config.json")))["cell"]["data"]["source"][5:]).parent
    thoroughly = bool(request.config.getoption("--kills"))
    for turn in range(3 if thoroughly else 1):
        home = tmp_path / str(turn)
        shutil.copytree(finished, home, copy_function=shutil.copy2)
        names = [*BAD][turn:] + [*BAD][:turn]
        good = {"title": "Alone", "axes": {"loss": ["ce", "ce+simcse"]}, "baseline": {}}
        edited = grid.write(
            texts,
            name="edited",
            sections=[BAD[names[0]], good, BAD[names[1]], BAD[names[2]]],
            resources={"checkpoint_every": grid.CHECKPOINT_EVERY, "hung_after": 15},
        )
        cells = planned(edited, home)
        before = {path: path.stat().st_mtime_ns for path in home.glob("runs/*/*") if path.is_file()}
        stopper = Stopper(home, cells["Hanging"], times=3 if thoroughly else 1)
        stopper.start()
        way = ways.Command(home, edited, environment)
        way.begin()
        soon(lambda way=way: not way.running(), otherwise="a grid with bad cells did not end")
        said = (home / "said.txt").read_text()
        assert way.process is not None and way.process.returncode == 1 and "Traceback" not in said, said[-3000:]
        assert "1 of them finished before" in said
        assert before.items() <= {path: path.stat().st_mtime_ns for path in home.glob("runs/*/*")}.items()
        told(home, cells, thoroughly)
        assert soak.left_in_the_store(home) == [] and way.end() == []


def planned(experiment_file: Path, home: Path) -> dict[str, str]:
    """Section → the id of its last cell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(home))
        plan = plans.make_plan(load.load_experiment(experiment_file))
    return {title: status.id for cell, status in plan.statuses.items() for title in plan.resolved.titles[cell]}


def told(home: Path, cells: dict[str, str], hangs_for_ever: bool) -> None:
    """What became of each: tried once, hung and killed, a number that is none; the others done."""
    tried = {title: claim.attempts(home / "runs" / cell) for title, cell in cells.items()}
    failures = {title: store.failure(home / "runs" / cell) or {} for title, cell in cells.items()}
    assert len(tried["Failing"]) == 1 and failures["Failing"]["kind"] == "config"
    assert len(tried["NaN"]) == 1 and failures["NaN"]["kind"] == "diverged"
    trainings = [one.get("outcome") for one in tried["Hanging"] if one["stage"] == "train"]
    if hangs_for_ever:
        assert trainings == ["lost", "lost", None]  # the one that comes after notes it
        assert "considered hung" in failures["Hanging"]["error"]
    else:
        assert trainings == ["lost", "done"] and store.finished(home / "runs" / cells["Hanging"])
    assert store.finished(home / "runs" / cells["Alone"])
