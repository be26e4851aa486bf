"""Flow runs that say Running although nobody works on them any more."""

from typing import Any

import yaml

from flows.serve.ports import ask
from flows.serve.supervise import CHECKOUT

POOL = "ablate"
AUTOMATION = CHECKOUT / "configs" / "automations" / "zombie-flows.yaml"


def give_up_cut_off_runs(api: str) -> None:
    """Runs that a dead worker has left: they hold the slot of their deployment. Only for a server that is ours alone.

    Prefect notes a process by its number without its machine, so on a shared server the automation has to find them.
    """
    unfinished = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
    state = {"type": "CRASHED", "message": "its worker died or was stopped; run it again, finished cells are reused"}
    for run in ask(f"{api}/flow_runs/filter", {"flow_runs": unfinished, "work_pools": {"name": {"any_": [POOL]}}}):
        ask(f"{api}/flow_runs/{run['id']}/set_state", {"state": state})


def watch_for_zombies(api: str, automation: dict[str, Any] | None = None) -> None:
    """See that the server has the automation; one of that name is left as it is, whatever was changed in it."""
    wanted = automation or yaml.safe_load(AUTOMATION.read_text(encoding="utf-8"))
    held = ask(f"{api}/automations/filter", {"automations": {"name": {"any_": [wanted["name"]]}}})
    if not held:
        ask(f"{api}/automations/", wanted)
