"""What the server does by itself: it notices flows that nobody works on."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.schemas.automations import AutomationCore

from tests.asked import ask
from tests.flows.test_work_pools import POOLS
from tests.waiting import soon

pytestmark = pytest.mark.full
CHECKOUT = Path(__file__).parents[2]
AUTOMATION = CHECKOUT / "configs" / "automations" / "zombie-flows.yaml"
FLOWS = """
import flows, time
from prefect import flow

@flow(name="ablation-grid", persist_result=False)
def grid(seconds: float) -> None:
    time.sleep(seconds)

grid(0)
print("done", flush=True)
grid(1000)
"""


@pytest.fixture(scope="module")
def killed(server: str, prefect_home: Path) -> Iterator[dict[str, str]]:
    """One flow run that has finished, and one whose process is killed: state → id."""
    shipped = yaml.safe_load(AUTOMATION.read_text())
    assert shipped["trigger"]["within"] == 90
    shipped["trigger"]["within"] = 10  # the least that Prefect takes
    with SyncPrefectClient(server) as client:
        client.create_automation(AutomationCore.model_validate(shipped))
    environment = os.environ | {"PREFECT_API_URL": server, "PREFECT_HOME": str(prefect_home)}
    process = subprocess.Popen(
        [sys.executable, "-c", FLOWS], cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "done\n"
    runs = soon(lambda: runs_of(server, "RUNNING"))
    soon(lambda: events(server, f"prefect.flow-run.{runs[0]['id']}", "prefect.flow-run.heartbeat"))
    process.kill()
    process.wait()
    yield {"RUNNING": runs[0]["id"], "COMPLETED": runs_of(server, "COMPLETED")[0]["id"]}


def runs_of(server: str, state: str) -> list[dict[str, Any]]:
    wanted = {"flows": {"name": {"any_": ["ablation-grid"]}}, "flow_runs": {"state": {"type": {"any_": [state]}}}}
    return list(ask(f"{server}/flow_runs/filter", wanted | {"sort": "START_TIME_DESC"}))


def events(server: str, resource: str, prefix: str) -> list[dict[str, Any]]:
    wanted = {"event": {"prefix": [prefix]}, "resource": {"id": [resource]}}
    return list(ask(f"{server}/events/filter", {"filter": wanted})["events"])


def test_a_flow_that_was_killed_is_crashed_and_no_other(server: str, killed: dict[str, str]):
    (automation,) = [one for one in ask(f"{server}/automations/filter", {}) if "zombie" in one["name"]]
    assert automation["trigger"]["within"] == 10
    crashed = soon(lambda: [run["id"] for run in runs_of(server, "CRASHED") if run["id"] == killed["RUNNING"]])
    assert crashed and killed["COMPLETED"] in {run["id"] for run in runs_of(server, "COMPLETED")}


@pytest.mark.parametrize("kind", ["process", "kubernetes"])
def test_a_server_takes_the_template_of_a_work_pool(kind: str, server: str):
    template = json.loads(POOLS[kind].read_text())
    made = ask(f"{server}/work_pools/", {"name": f"a-{kind}", "type": kind, "base_job_template": template})
    assert made["type"] == kind and made["base_job_template"] == template
