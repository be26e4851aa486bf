"""`ablate judge`: run two commands until it is decided which is better, or judge one proposal of a ledger."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ablate.commands import RunFailed, RunFolder, Runner, locked, run_command
from ablate.duel import Duel, Outcome, fenced, fight
from ablate.identity import identity_of
from ablate.ledger import Ledger, settings
from contrastive.errors import UserError
from contrastive.runs.store import home, write_atomic
from flows.terminal import complain, say, seconds_of, tell

EXIT_CODES = {"better": 0, "worse": 1, "equivalent": 1, "undecided": 2, "broken": 3}
LEDGER_CODES = {"kept": 0, "dropped": 1, "failed": 3, "baseline failed": 4}
RESULT_FILES = ("commands.json", "runs.jsonl")  # files of a folder that --fresh removes
CHANGED = (
    "warning: a file that the commands name, or one under Git, changed during the runs, so that the same command "
    "begins anew; if the commands write it, name it after `>`, let Git ignore it, or name a --folder"
)


@dataclass(frozen=True)
class RunOptions:
    """Where commands run, and when no other begins or one is ended."""

    engine: str = "local"
    timeout: str = ""
    budget: str = ""
    jobs: int = 1

    @contextmanager
    def runner(self) -> Iterator[Runner]:
        """Yield a function that runs a command, here or on a node of the Ray cluster."""
        limit = seconds_of("--timeout", self.timeout) if self.timeout else None
        if self.engine != "ray":
            yield partial(run_command, timeout=limit)
            return
        from contrastive.config.experiment import Resources
        from tasks import engines

        with engines.start("ray", Resources(), 1) as cluster:
            yield lambda command, metric, log: cluster.run("train", run_command, command, metric, log, limit)


def judge_pair(duel: Duel, options: RunOptions, folder: Path | None = None, fresh: bool = False) -> Outcome:
    """Run what is missing to decide between two commands. Raises RunFailed."""
    duel.check()
    deadline = time.monotonic() + (seconds_of("--budget", options.budget) if options.budget else float("inf"))
    identify = partial(identity_of, duel.baseline, duel.candidate, metric=duel.metric)
    identity = identify()
    where = folder or home() / "judge" / identity.digest
    tell(f"runs are kept in {where}")
    with options.runner() as run, locked(where, tell):
        if fresh:
            for name in RESULT_FILES:
                (where / name).unlink(missing_ok=True)
        check_same(where, duel)
        runs = RunFolder(where, duel.metric, options.jobs, run, tell, deadline=deadline)
        runs.load()
        if count := len(runs.runs):
            checked = "whatever has changed in code" if folder else f"{identity.checked} unchanged"
            tell(f"{count} run{'s' * (count != 1)} reused: {checked}; --fresh begins anew")
        outcome = fight(duel, runs, tell)
    if not folder and identify() != identity:
        tell(CHANGED)
    return outcome


def check_same(folder: Path, duel: Duel) -> None:
    """Raise UserError if a folder has the runs of other commands or another metric."""
    file, content = folder / "commands.json", json.dumps([duel.baseline, duel.candidate, duel.metric])
    if file.exists() and file.read_text(errors="replace") != content:
        raise UserError(f"{folder} has runs of other commands or another metric; name another --folder")
    write_atomic(file, content)


def show_verdict(duel: Duel, outcome: Outcome, as_json: bool, gate: Path | None) -> int:
    """Print a verdict, and write it as Markdown for a pull request; return the exit code.

    With `gate`, that is 0 unless the candidate is worse.
    """
    say(json.dumps(outcome.as_json()) if as_json else outcome)
    if gate:
        gate.write_text(outcome.as_markdown(duel), encoding="utf-8")
    return 0 if gate and outcome.verdict != "worse" else EXIT_CODES[outcome.verdict]


def show_failure(why: str, as_json: bool, gate: Path | None) -> int:
    """Say that a run failed, so that nothing was judged; return the exit code."""
    if as_json:
        say(json.dumps({"verdict": "broken", "why": why}))
    complain(why)
    if gate:
        gate.write_text(f"**Not judged**: a run failed\n\n{fenced(why)}", encoding="utf-8")
    return EXIT_CODES["broken"]


def open_ledger(folder: Path, metric: str, lower: bool | None, run: Runner) -> Ledger:
    begun = settings(folder, metric, lower)
    runs = RunFolder(folder, begun.metric, runner=run, tell=tell)
    ledger = Ledger(runs, begun.lower, lambda *commands: identity_of(*commands, metric=begun.metric).digest)
    ledger.load()
    return ledger


def judge_proposal(
    folder: Path, candidate: str, baseline: str, metric: str, lower: bool | None, options: RunOptions, as_json: bool
) -> int:
    """Judge a proposal of a ledger; return the exit code."""
    tell(f"runs are kept in {folder}")
    with locked(folder, tell), options.runner() as run:
        ledger = open_ledger(folder, metric, lower, run)
        try:
            proposal = ledger.judge(candidate, baseline)
        except RunFailed as failed:  # of the baseline
            complain(f"{failed}; nothing is recorded, and the same call goes on")
            return LEDGER_CODES["baseline failed"]
    say(json.dumps(asdict(proposal)) if as_json else str(proposal).strip())
    if proposal.why:
        complain(proposal.why)
    return LEDGER_CODES[proposal.result]


def show_ledger(folder: Path, as_json: bool) -> None:
    """Print what a ledger has tried and kept; another process may be at work in it."""
    if not folder.is_dir():
        raise UserError(f"there is no ledger {folder}; name --baseline, --candidate and --metric to begin one")
    ledger = open_ledger(folder, "", None, run_command)
    for proposal in ledger.proposals:
        say(json.dumps(asdict(proposal)) if as_json else proposal)
    if not as_json:
        say(ledger.summary())
