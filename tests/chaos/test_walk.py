"""A real walk: server, process worker, a deployment of its own, whose run is cancelled."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.serve.servers import prepare_child
from tests.asked import ask
from tests.chaos import grid, processes, soak
from tests.waiting import soon

pytestmark = pytest.mark.e2e

CHECKOUT = Path(__file__).parents[2]
NAME = "ablation-grid/walk"


def prefect(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "prefect"), *arguments]


@pytest.fixture(scope="module")
def home(environment: dict[str, str], empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a process worker, which the flows of its deployment inherit; no process may be left when it is stopped."""
    home = tmp_path_factory.mktemp("walk")
    (home / "mlflow.db").write_bytes(empty_store.read_bytes())
    settings = os.environ | environment | {"ABLATE_HOME": str(home)}
    for arguments in (["work-pool", "create", "walk", "--type", "process"], deployment(home / "experiment")):
        done = subprocess.run(
            prefect("--no-prompt", *arguments), cwd=CHECKOUT, env=settings | {"PWD": str(CHECKOUT)}, capture_output=True
        )
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    with open(home / "worker.log", "wb") as log:
        worker = subprocess.Popen(
            prefect("worker", "start", "--pool", "walk"),
            env=settings,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=prepare_child,  # where SIGINT is ignored, as under `make test &`, it ignores SIGTERM too
        )
    try:
        yield home
    finally:
        worker.terminate()
        worker.wait(120)
    assert not processes.gone_within(10, home)


def deployment(folder: Path) -> list[str]:
    entrypoint = "flows/ablation_grid.py:ablation_grid"
    return ["deploy", entrypoint, "-n", "walk", "--pool", "walk", "--param", f"experiment_file={grid.write(folder)}"]


def run(environment: dict[str, str], *parameters: str) -> str:
    """Ask for a run of the deployment; its id."""
    command = prefect("deployment", "run", NAME, *(word for given in parameters for word in ("--param", given)))
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(line.split()[-1] for line in done.stdout.splitlines() if "UUID" in line)


def state(environment: dict[str, str], flow_run: str) -> str:
    return str(ask(f"{environment['PREFECT_API_URL']}/flow_runs/{flow_run}", None)["state_name"])


def test_a_cancelled_run_leaves_no_process_no_claim_and_nothing_running(home: Path, environment: dict[str, str]):
    longer = grid.write(home / "longer", name="longer", training={"epochs": 4000, "batch_size": 8})
    flow_run = run(environment, f"experiment_file={longer}")
    soon(lambda: list(home.glob("runs/*/attempts/*/resume/state.pt")), otherwise="no cell began")
    services = processes.of_kind(home, "Prefect worker")
    command = prefect("flow-run", "cancel", flow_run)
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True)
    soon(lambda: state(environment, flow_run) == "Cancelled", 60, "the run was not cancelled")
    soon(lambda: processes.of(home) == services, 30, "processes are left of a cancelled run")
    assert soak.left_in_the_store(home) == []
