"""`ablate judge`: run two commands until it is decided which is better; the exit code says so."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ablate.commands import (
    JOB,
    RunFailed,
    RunFolder,
    Runner,
    check_command,
    locked,
    run_command,
    run_twice,
)
from ablate.duel import BROKEN, Duel, fenced, fight
from ablate.ledger import Ledger, read_proposals, settings, summary
from contrastive.errors import UserError
from contrastive.runs.store import home
from flows.terminal import complain, say, tell


def judge_commands(
    duel: Duel, engine: str, jobs: int, budget: str, folder: Path | None, gate: Path | None, as_json: bool
) -> int:
    """Judge a candidate command against a baseline command; return the exit code.

    With `gate`, write the verdict there as Markdown; the exit code is then 0 unless the candidate is worse or broken.
    """
    duel.check()
    if gate and not gate.absolute().parent.is_dir():
        raise UserError(f"--gate {gate}: its folder does not exist; make it first")
    if gate:
        gate.unlink(missing_ok=True)
    deadline, code = float("inf"), duel.digest()
    if budget:
        from flows.forecast import budget_seconds

        deadline = time.monotonic() + budget_seconds(budget)
    where = folder or home() / "judge" / code
    with runner(engine) as run:
        runs = RunFolder(where, duel.metric, jobs, run, tell, deadline=deadline)
        try:
            with runs.opened():
                check_same(where, duel)
                if runs.runs:
                    tell(f"{len(runs.runs)} runs are in {where} already")
                outcome = fight(duel, runs, tell)
        except RunFailed as failed:
            return not_judged(str(failed), where, gate, as_json)
    if not folder and duel.digest() != code:
        tell(
            "warning: a file that the commands name, or one under Git, changed during the runs, so that the same "
            "command begins anew; if the commands write it, name it after `>`, put {seed} in its name, or name "
            "a --folder"
        )
    say(outcome.as_json() if as_json else str(outcome))
    if gate:
        gate.write_text(outcome.as_markdown(duel), encoding="utf-8")
        return int(outcome.verdict == "worse")
    return outcome.exit_code


def not_judged(why: str, folder: Path, gate: Path | None, as_json: bool) -> int:
    """Say that a run failed; return the exit code."""
    if gate:
        gate.write_text(f"**Not judged**: a run failed\n\n{fenced(why)}", encoding="utf-8")
    if as_json:
        say(json.dumps({"verdict": "broken", "why": why}))
    complain(f"{why}; its output is in {folder}")
    return BROKEN


def check_same(folder: Path, duel: Duel) -> None:
    """Raise UserError if a folder has the runs of other commands or another metric."""
    file, content = folder / "commands.json", json.dumps([duel.baseline, duel.candidate, duel.metric])
    if file.exists() and file.read_text(encoding="utf-8") != content:
        raise UserError(f"{folder} has runs of other commands or another metric; name another --folder")
    file.write_text(content, encoding="utf-8")


LEDGER_CODES = {"kept": 0, "dropped": 1, "failed": BROKEN}


def judge_in_ledger(
    folder: Path, baseline: str, candidate: str, metric: str, lower: bool, engine: str, as_json: bool
) -> int:
    """Judge a proposal of a ledger, or show the ledger if there is no candidate; return the exit code."""
    if not candidate:
        return show_ledger(folder, as_json)
    with locked(folder), runner(engine) as run:
        kept = settings(folder, {"metric": metric, "lower": lower})

        def run_one(who: str, command: str, seed: int, name: str) -> tuple[float, float]:
            return run_twice(run, who, command.replace(JOB, "0"), seed, kept["metric"], folder, tell, name)

        ledger = Ledger(folder, kept["metric"], kept["lower"], run_one, tell)
        ledger.load()
        named = baseline or ledger.baseline
        if named is None:
            raise UserError("a new ledger needs --baseline: the command that proposals must beat")
        check_command("--candidate", candidate)
        check_command("--baseline", named)
        try:
            proposal = ledger.judge(candidate, named)
        except RunFailed as failed:  # of the baseline
            complain(f"{failed}; its output is in {folder}")
            return BROKEN
    say(json.dumps(asdict(proposal)) if as_json else str(proposal).strip())
    if proposal.why:
        complain(f"{proposal.why}; its output is in {folder}")
    return LEDGER_CODES[proposal.result]


def show_ledger(folder: Path, as_json: bool) -> int:
    """Print what a ledger has tried and kept; another process may be at work in it."""
    if not folder.is_dir():
        raise UserError(f"there is no ledger {folder}; name --baseline, --candidate and --metric to begin one")
    proposals = read_proposals(folder)
    say("\n".join([json.dumps(asdict(each)) for each in proposals] if as_json else summary(folder, proposals)))
    return 0


@contextmanager
def runner(engine: str) -> Iterator[Runner]:
    """Yield a function that runs a command: on this machine, or on a node of the Ray cluster."""
    if engine != "ray":
        yield run_command
        return
    from contrastive.config.experiment import Resources
    from tasks import engines

    with engines.start("ray", Resources(), 1) as cluster:
        yield lambda command, metric, log: cluster.run("train", run_command, command, metric, log)
