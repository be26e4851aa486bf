"""Two flows that want one grid at the same moment, and a deployment's flow that is cancelled."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.serve.servers import prepare_child
from tests.asked import ask
from tests.chaos import grid, processes
from tests.waiting import soon

pytestmark = pytest.mark.full

CHECKOUT = Path(__file__).parents[2]
PREFECT = str(Path(sys.executable).parent / "prefect")
AT_THE_BARRIER = """
import sys
from flows.ablation_grid import ablation_grid
print("ready", flush=True)
sys.stdin.readline()
ablation_grid(sys.argv[1])
"""


def test_two_flows_at_once_train_each_cell_once(home, experiment, environment, truth):
    settings = environment | {"ABLATE_HOME": str(home), "PREFECT_LOGGING_LEVEL": "CRITICAL"}
    command = [sys.executable, "-c", AT_THE_BARRIER, str(experiment)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    flows = [subprocess.Popen(command, env=settings, text=True, **pipes) for _ in range(2)]
    for flow in flows:
        assert flow.stdout is not None and flow.stdout.readline() == "ready\n"
    for flow in flows:
        assert flow.stdin is not None
        flow.stdin.write("go\n")
        flow.stdin.flush()
    said = [flow.communicate(timeout=180) for flow in flows]
    assert [flow.returncode for flow in flows] == [0, 0], said
    assert grid.results(home) == truth
    assert [grid.trainings(run) for run in sorted(home.glob("runs/*"))] == [1] * len(truth)
    assert grid.left_in_the_store(home) == [] and processes.gone_within(10, home) == []


def test_a_cancelled_run_leaves_no_process_no_claim_and_nothing_running(home: Path, environment: dict[str, str]):
    settings = environment | {"ABLATE_HOME": str(home), "PWD": str(CHECKOUT)}

    def prefect(*words: str) -> str:
        done = subprocess.run(
            [PREFECT, "--no-prompt", *words], cwd=CHECKOUT, env=settings, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    longer = grid.write(home / "experiment", name="longer", training={"epochs": 4000, "batch_size": 8})
    prefect("work-pool", "create", "chaos", "--type", "process")
    prefect("deploy", "flows/ablation_grid.py:ablation_grid", "-n", "chaos", "--pool", "chaos")
    started = prefect("deployment", "run", "ablation-grid/chaos", "--param", f"experiment_file={longer}")
    run = next(line.split()[-1] for line in started.splitlines() if "UUID" in line)
    with open(home / "worker.log", "wb") as log:
        worker = subprocess.Popen(
            [PREFECT, "worker", "start", "--pool", "chaos"],
            env=settings,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=prepare_child,  # where SIGINT is ignored, as under `make test &`, it ignores SIGTERM too
        )
    try:
        soon(lambda: list(home.glob("runs/*/attempts/*/resume/state.pt")), otherwise="no cell began")
        services = processes.of_kind(home, "Prefect worker")
        prefect("flow-run", "cancel", run)
        of_run = f"{environment['PREFECT_API_URL']}/flow_runs/{run}"
        soon(lambda: ask(of_run, None)["state_name"] == "Cancelled", 60, "the run was not cancelled")
        soon(lambda: processes.of(home) == services, 30, "processes are left of a cancelled run")
        assert grid.left_in_the_store(home) == []
    finally:
        worker.terminate()
        worker.wait(120)
    assert not processes.gone_within(10, home)
