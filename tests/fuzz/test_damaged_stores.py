"""A finished home that is damaged, and what the commands make of it.

Each round is a process of its own: `python -m tests.fuzz.test_damaged_stores FOLDER NUMBER`. All use one home, by whose
path MLflow's database names its files.
"""

import io
import json
import os
import random
import shutil
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import typer

from contrastive.errors import UserError
from contrastive.evaluation.reference import data_folders
from contrastive.grid import load
from contrastive.grid import plan as plans
from contrastive.grid.identity import evaluation_key
from contrastive.runs import store
from contrastive.training.job import TrainRequest
from flows.cli import app
from tasks import worker_calls
from tasks.record import record_cell
from tasks.sync import sync
from tasks.tracking import open_tracker
from tests.chaos import grid
from tests.fuzz.conftest import Rounds

EXPERIMENT: dict[str, Any] = {
    "name": "damaged",
    "encoder": {"model": "scratch:bert", "scratch": {"layers": 2, "hidden": 16, "heads": 2, "vocabulary": 300}},
    "training": {"epochs": 1, "batch_size": 8, "head_lr": 1e-3, "encoder_lr": 1e-3},
    "seeds": [0],
    "resources": {"slots": 1},
}
TRIES = 4  # of `audit --mend` and `run`; a database that has to go takes two
CHECKOUT = Path(__file__).parents[2]
PLACES = ("runs", "runs", "cache", "cache", "mlflow.db", "mlartifacts", "locks")


def written(folder: Path) -> Path:
    """An experiment whose cells leave every kind of file behind: a reference, untrained embeddings, frozen blocks."""
    texts = grid.write(folder).parent / "texts.csv"
    data = {"source": f"file:{texts}", "train": 32, "validation": 8, "test": 24, "max_length": 16}
    transfer = {"name": "again", "source": f"file:{texts}", "train": 16, "test": 16}
    sections = [
        {"title": "Recipes", "rows": {"ce": {"loss": "ce"}, "sccl": {"loss": "sccl"}}, "show": {"tsne": True}},
        {"title": "Frozen blocks", "rows": {"ce": {"tune": {"last_blocks": 1, "frozen_dropout": False}}}},
    ]
    path = folder / "damaged.yaml"
    evaluation = {"metrics": ["accuracy"], "transfer": [transfer]}
    path.write_text(json.dumps(EXPERIMENT | {"data": data, "evaluation": evaluation, "sections": sections}))
    return path


def run(path: Path) -> None:
    plan = plans.make_plan(load.load_experiment(path))
    store.check_home()
    for cell in plan.statuses:
        worker_calls.prepare(cell, plan.experiment.evaluation.test)
    for folder, test in (pair for pairs in data_folders(plan).values() for pair in pairs):
        worker_calls.reference(folder, test)
    asked = plan.experiment
    for status in plan.to_do:
        told = TrainRequest(status.cell, plan.name(status.cell), 100, asked.evaluation, asked.speed)
        report = None if status.action == "evaluate" else worker_calls.train(told, status.id)
        report = report or worker_calls.evaluate(status.id, asked.evaluation)
        if report is not None and "traceback" in report and report["kind"] != "infrastructure":
            raise RuntimeError(report["traceback"])
        key = evaluation_key(asked.evaluation)
        sections = plan.resolved.titles[status.cell]
        record_cell(open_tracker(store.home()), asked.name, store.run_folder(status.id), sections, key)
        if report is not None:
            raise UserError(report["error"])
    sync(plan)


def outcome(name: str, path: Path, *options: str) -> tuple[str, str]:
    """What a command said to people, and the traceback where it said something else."""
    said, crash = io.StringIO(), ""
    store._digest.cache_clear()  # as in a process of its own
    try:
        with redirect_stdout(said), redirect_stderr(said):
            run(path) if name == "run" else app([name, str(path), *options], standalone_mode=False)
    except (UserError, OSError) as error:
        return store.explain_os_error(error) if isinstance(error, OSError) else str(error), ""
    except (typer.Exit, SystemExit):
        pass
    except Exception:
        crash = traceback.format_exc()
    return said.getvalue(), crash


JSON = ("{}", "[]", "null", "1", '{"files": []}', '{"files": {"a": 1}}', '[{"name": 1}]')


def flip(path: Path, chance: random.Random) -> None:
    """One bit; half of the time size and time stay, as where a disk forgets."""
    content, status = bytearray(path.read_bytes() or b"0"), path.stat()
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    if chance.random() < 0.5:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_by_folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").write_text("of somebody")


HARMS = {
    "flip": flip,
    "truncate": lambda path, chance: os.truncate(path, chance.randrange(max(1, path.stat().st_size))),
    "JSON": lambda path, chance: path.write_text(chance.choice(JSON)),
    "delete": lambda path, _: path.unlink(),
    "folder": replace_by_folder,
}


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def harm(home: Path, chance: random.Random) -> list[str]:
    """Damage one to three files; what was done to which."""
    done = []
    for _ in range(chance.randint(1, 3)):
        place = home / chance.choice(PLACES)
        if files := files_of(place) if place.is_dir() else [place] if place.is_file() else []:
            path, way = chance.choice(files), chance.choice([*HARMS])
            HARMS[way](path, chance)
            done.append(f"{way} {path.relative_to(home)}")
    return done


def obey(said: str) -> None:
    for line in said.split("\n"):
        if "move it away" in line:
            place, _, _ = line.rpartition(" is a ")
            store.remove(Path(place[place.index("/") :]))
        if "move mlflow.db* away" in line:
            for file in store.home().glob("mlflow.db*"):
                store.remove(file)


def look(number: int, path: Path, home: Path, truth: dict[str, Any]) -> dict[str, Any]:
    """One round: the faults it found, and what was done to the home."""
    chance = random.Random(number)
    done, faults = harm(home, chance), []

    def command(name: str, *options: str) -> str:
        said, crash = outcome(name, path, *options)
        obey(said)
        faults.extend([f"{name}: {crash}"] if crash else [])
        return said

    for name in chance.sample(("plan", "audit", "sync", "report", "run"), k=chance.randint(1, 4)):
        command(name)
    for _ in range(TRIES):
        command("audit", "--mend")
        command("run")
        command("report")
        if "agrees with them" in (said := command("audit")):
            break
    if grid.results(home) != truth:
        faults.append(f"the numbers are not those of before: {sorted(grid.results(home))}")
    if "run folders are complete, MLflow agrees with them, the report" not in said:
        faults.append(f"after all, an audit says: {said}")
    return {"done": done, "faults": faults}


def main() -> None:
    """Make the home, or damage a copy of it and print what came of it."""
    folder, number = Path(sys.argv[1]), sys.argv[2]
    home, pristine = folder / "home", folder / "pristine"
    os.environ["ABLATE_HOME"] = str(home)
    if number == "make":
        run(written(folder))
        home.rename(pristine)
        print(json.dumps(grid.results(pristine)))
        return
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(pristine, home, copy_function=shutil.copy2)
    print(json.dumps(look(int(number), folder / "damaged.yaml", home, grid.results(pristine))))


def in_a_process(folder: Path, number: object) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    command = [sys.executable, "-m", "tests.fuzz.test_damaged_stores", str(folder), str(number)]
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, f"round {number}: {done.stderr[-3000:]}"
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.full
def test_damaged_files_are_mended_and_never_shown_as_tracebacks(tmp_path: Path, rounds: Rounds):
    assert len(in_a_process(tmp_path, "make")) == 3
    for number, _ in rounds(1):
        outcome = in_a_process(tmp_path, number)
        assert outcome["faults"] == [], f"round {number}, {outcome}".replace("\\n", "\n")


if __name__ == "__main__":
    main()
