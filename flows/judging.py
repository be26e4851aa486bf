"""`ablate judge`: run two commands until it is decided which is better; the exit code says so."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ablate.commands import RunFailed, RunFolder, Runner, run_command
from ablate.duel import BROKEN, Duel, fight
from contrastive.runs.store import home
from flows.terminal import complain, say, tell


def judge_commands(duel: Duel, engine: str, jobs: int, budget: str, folder: Path | None, as_json: bool) -> int:
    """Judge a candidate command against a baseline command; return the exit code."""
    duel.check()
    deadline = float("inf")
    if budget:
        from flows.forecast import budget_seconds

        deadline = time.monotonic() + budget_seconds(budget)
    where = folder or home() / "judge" / duel.digest()
    with runner(engine) as run:
        runs = RunFolder(where, duel.metric, jobs, run, tell, deadline=deadline)
        try:
            with runs.opened():
                if runs.runs:
                    tell(f"{len(runs.runs)} runs are in {where} already")
                outcome = fight(duel, runs, tell)
        except RunFailed as failed:
            complain(f"{failed}; its output is in {where}")
            return BROKEN
    say(outcome.as_json() if as_json else str(outcome))
    return outcome.exit_code


@contextmanager
def runner(engine: str) -> Iterator[Runner]:
    """Yield a function that runs a command: on this machine, or on a node of the Ray cluster."""
    if engine != "ray":
        yield run_command
        return
    from contrastive.config.experiment import Resources
    from tasks import engines

    with engines.start("ray", Resources(), 1) as cluster:
        yield lambda command, metric, log: cluster.run("evaluate", run_command, command, metric, log)
