"""Set up Prefect's server before a worker connects: create the pool, mark runs of a dead worker as crashed.

Runs as a separate program, since importing Prefect's client takes seconds.
"""

import json
import os
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import FlowRunFilter, WorkPoolFilter
from prefect.client.schemas.objects import State
from prefect.states import Crashed

from flows.serve.deployments import POOL

TEMPLATE = Path(__file__).with_name("process.json")


def main() -> None:
    with get_client(sync_client=True) as client:
        if not os.environ.get("PREFECT_API_DATABASE_CONNECTION_URL"):  # otherwise others may use the server's database
            give_up_cut_off_runs(client)
        template = json.loads(TEMPLATE.read_text(encoding="utf-8"))
        pool = WorkPoolCreate(name=POOL, type="process", base_job_template=template)
        client.create_work_pool(pool, overwrite=True)


def give_up_cut_off_runs(client: SyncPrefectClient) -> None:
    """Mark flow runs of a dead worker as crashed, since they hold the slot of their deployment.

    Only for a server that is not shared: Prefect stores a process number without its machine. On a shared server the
    automation of configs/automations finds these runs.
    """
    unfinished = FlowRunFilter.model_validate({"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}})
    ours = WorkPoolFilter.model_validate({"name": {"any_": [POOL]}})
    crashed: State[None] = Crashed(message="its worker died or was stopped; run it again, finished cells are reused")
    for run in client.read_flow_runs(flow_run_filter=unfinished, work_pool_filter=ours):
        client.set_flow_run_state(run.id, crashed)


if __name__ == "__main__":
    main()
