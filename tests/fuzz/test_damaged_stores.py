"""A finished home that is damaged, and what the commands make of it: `python -m tests.fuzz.test_damaged_stores FOLDER`.

A line in is the number of a round, a line out what went wrong in it. Each round is a fork of this process, so that no
round knows anything of an earlier one; all use one home, by whose path MLflow's database names its files.
"""

import io
import json
import os
import random
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from contrastive.data import tokens
from contrastive.errors import UserError
from contrastive.evaluation.grid_references import data_folders
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.grid import load
from contrastive.grid import plan as plans
from contrastive.grid.identity import evaluation_key
from contrastive.grid.plan import Plan
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
    "encoder": {"model": "scratch:bert", "scratch": {"layers": 1, "hidden": 16, "heads": 2, "vocabulary": 300}},
    "training": {"epochs": 1, "batch_size": 8, "head_lr": 1e-3, "encoder_lr": 1e-3},
    "seeds": [0],
    "resources": {"slots": 1},
}
TRIES = 4  # of `audit --mend` and `run`; a database that has to go takes two
PLACES = ("runs", "runs", "cache", "cache", "mlflow.db", "mlartifacts", "locks")


def written(folder: Path) -> Path:
    """An experiment whose cells leave every kind of file behind: a reference, untrained embeddings, frozen blocks."""
    texts = grid.write(folder).parent / "texts.csv"
    data = {"source": f"file:{texts}", "train": 32, "validation": 8, "test": 24, "max_length": 16}
    transfer = {"name": "again", "source": f"file:{texts}", "train": 16, "test": 16}
    model, tune = f"file:{folder / 'bert'}", {"last_blocks": 1, "frozen_dropout": False}
    sections = [
        {"title": "Recipes", "axes": {"loss": ["ce", "sccl"]}, "show": {"tsne": True}},
        {"title": "Frozen blocks", "base": {"model": model, "scratch": None, "tune": tune}},
    ]
    path = folder / "damaged.yaml"
    evaluation = {"metrics": ["accuracy"], "transfer": [transfer]}
    whole = EXPERIMENT | {"data": data, "evaluation": evaluation, "sections": sections[:1]}
    path.write_text(json.dumps(whole))
    save_encoder(folder / "bert", tokens.open_tokens(prepare_cell_tokens(planned(path).to_do[0].cell)))
    path.write_text(json.dumps(whole | {"sections": sections}))
    return path


def save_encoder(folder: Path, prepared: tokens.Tokens) -> None:
    shape = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=prepared.vocab_size, **shape), add_pooling_layer=False).save_pretrained(folder)
    PreTrainedTokenizerFast.from_pretrained(prepared.tokenizer).save_pretrained(folder)


def planned(path: Path) -> Plan:
    return plans.make_plan(load.load_experiment(path))


def run(path: Path) -> None:
    """As the flow does it, without Prefect."""
    plan = planned(path)
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
    said = io.StringIO()
    store._digest.cache_clear()  # as in a process of its own
    try:
        with redirect_stdout(said), redirect_stderr(said):
            run(path) if name == "run" else app([name, str(path), *options], standalone_mode=False)
    except UserError as error:
        return f"{error}", ""
    except OSError as error:
        return store.explain_os_error(error), ""
    except (typer.Exit, SystemExit):
        return said.getvalue(), ""
    except Exception:
        return said.getvalue(), traceback.format_exc()
    return said.getvalue(), ""


HARMS = ("flip", "flip", "truncate", "truncate", "garbage", "JSON", "delete", "folder", "link", "swap")
JSON = ("{}", "[]", "null", "1", '{"files": []}', '{"files": {"a": 1}}', '[{"name": 1}]')


def spoil(path: Path, way: str, chance: random.Random) -> None:
    content, status = bytearray(path.read_bytes()), path.stat()
    others = [other for other in files_of(path.parent) if other != path]
    if way == "flip" and content:  # one bit; half of the time size and time stay, as where a disk forgets
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        if chance.random() < 0.5:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif way == "truncate":
        os.truncate(path, chance.choice((0, chance.randrange(max(1, len(content))))))
    elif way == "garbage":  # a piece in the middle
        place, piece = chance.randrange(max(1, len(content))), chance.randbytes(chance.choice((16, 4096)))
        content[place : place + len(piece)] = piece
        path.write_bytes(content)
    elif way == "JSON":
        path.write_text(chance.choice(JSON))
    elif way == "swap" and others:
        aside, other = path.with_name("aside"), chance.choice(others)
        for place, moved in ((path, aside), (other, path), (aside, other)):
            os.replace(place, moved)
    elif way in ("delete", "folder", "link"):
        path.unlink()
        if way == "folder":
            path.mkdir()
            (path / "something").write_text("of somebody")
        elif way == "link":
            path.symlink_to(chance.choice((path, path.parent / "nowhere")))


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def harm(home: Path, chance: random.Random) -> list[str]:
    """Damage one to three files; what was done to which."""
    done = []
    for _ in range(chance.randint(1, 3)):
        place = home / chance.choice(PLACES)
        if found := files_of(place) if place.is_dir() else [place] if place.is_file() else []:
            path, way = chance.choice(found), chance.choice(HARMS)
            spoil(path, way, chance)
            done.append(f"{way} {path.relative_to(home)}")
    return done


def obey(said: str) -> None:
    """Do what a message asks for."""
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
    before = chance.sample(("plan", "audit", "sync", "report", "run"), k=chance.randint(1, 4))

    def command(name: str, *options: str) -> str:
        said, crash = outcome(name, path, *options)
        obey(said)
        faults.extend([f"{name}: {crash}"] if crash else [])
        return said

    for name in before:
        command(name)
    for _ in range(TRIES):
        command("audit", "--mend")
        command("run")
        command("report")
        if grid.results(home) == truth and "agrees with them" in outcome("audit", path)[0]:
            break
    said = command("audit")
    if grid.results(home) != truth:
        faults.append(f"the numbers are not those of before: {sorted(grid.results(home))}")
    if "run folders are complete, MLflow agrees with them, the report" not in said:
        faults.append(f"after all, an audit says: {said}")
    return {"done": done, "before": before, "faults": faults}


def fork(work: Callable[[], Any]) -> Any:
    """Do it in a process of its own."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            said = work()
        except BaseException:
            said = {"faults": [traceback.format_exc()]}
        with os.fdopen(writer, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = json.loads(pipe.read() or '{"faults": ["the round died"]}')
    os.waitpid(child, 0)
    return said


def make(place: Path) -> dict[str, Any]:
    run(written(place))
    return {"truth": grid.results(store.home())}


def main() -> None:
    folder = Path(sys.argv[1])
    home, pristine = folder / "home", folder / "pristine"
    os.environ["ABLATE_HOME"] = str(home)
    made = fork(lambda: make(folder))
    print(json.dumps(made), flush=True)
    shutil.copytree(home, pristine, copy_function=shutil.copy2)
    for line in sys.stdin:
        shutil.rmtree(home)
        shutil.copytree(pristine, home, copy_function=shutil.copy2)
        number = int(line)
        print(json.dumps(fork(lambda: look(number, folder / "damaged.yaml", home, made["truth"]))), flush=True)  # noqa: B023


Look = Callable[[int], dict[str, Any]]


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next one, among what libraries say; empty where the process died."""
    assert process.stdout is not None
    return next((dict(json.loads(line)) for line in process.stdout if line.startswith("{")), {})


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """Asks a process that has a finished home for a round."""
    folder = tmp_path_factory.mktemp("damaged")
    kept = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    with open(folder / "said.txt", "wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.test_damaged_stores", str(folder)], env=kept | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
    made = answer(process)
    assert len(made.get("truth", {})) == 3, f"{made} {(folder / 'said.txt').read_text()[-3000:]}"

    def of_round(number: int) -> dict[str, Any]:
        assert process.stdin is not None
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        return answer(process)

    yield of_round
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)


@pytest.mark.full
def test_damaged_files_are_mended_and_never_shown_as_tracebacks(ask: Look, rounds: Rounds):
    for number, _ in rounds(1):
        found = ask(number)
        assert found.get("faults") == [], f"round {number}, {found}".replace("\\n", "\n")


if __name__ == "__main__":
    main()
