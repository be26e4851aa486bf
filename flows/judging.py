"""`ablate judge`: run two commands until it is decided which is better, or judge one proposal of a ledger."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ablate.code_state import code_digest
from ablate.commands import RunFailed, RunFolder, Runner, locked, run_command
from ablate.duel import Duel, Outcome, fenced, fight
from ablate.ledger import Ledger, settings
from contrastive.errors import UserError
from contrastive.runs.store import home, write_atomic
from flows.terminal import complain, say, seconds_of, tell

EXIT_CODES = {"better": 0, "worse": 1, "equivalent": 1, "undecided": 2, "broken": 3}
LEDGER_CODES = {"kept": 0, "dropped": 1, "failed": 3, "baseline failed": 4}
RESULT_FILES = ("commands.json", "runs.jsonl")  # files of a folder that --fresh removes
CHANGED = (
    "warning: a file that the commands name, or one under Git, changed during the runs, so that the same command "
    "runs everything again; if the commands write it, name it after `>`, let Git ignore it, or name a --folder"
)


@dataclass(frozen=True)
class RunOptions:
    """Where commands run, when no further one starts, and when a running one is stopped."""

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


def judge_pair(
    duel: Duel, options: RunOptions, folder: Path | None, fresh: bool, gate: Path | None, as_json: bool
) -> int:
    """Decide between two commands, and print the verdict; return the exit code.

    `gate`: file for the verdict as Markdown, for a pull request; the code is then 0 unless the candidate is worse.
    """
    if gate:
        gate.write_text("**Not judged**\n", encoding="utf-8")  # no verdict of an earlier call
    duel.check()
    try:
        outcome = decide_pair(duel, options, folder, fresh)
    except RunFailed as failed:
        if as_json:
            say(json.dumps({"verdict": "broken", "why": str(failed)}))
        complain(str(failed))
        if gate:
            gate.write_text(f"**Not judged**: a run failed\n\n{fenced(str(failed))}", encoding="utf-8")
        return EXIT_CODES["broken"]
    say(outcome.as_json() if as_json else outcome)
    if gate:
        gate.write_text(outcome.as_markdown(duel), encoding="utf-8")
        return int(outcome.verdict == "worse")
    return EXIT_CODES[outcome.verdict]


def decide_pair(duel: Duel, options: RunOptions, folder: Path | None = None, fresh: bool = False) -> Outcome:
    """Run what is missing to decide between two commands. Raises RunFailed."""
    deadline = time.monotonic() + (seconds_of("--budget", options.budget) if options.budget else float("inf"))
    identify = partial(code_digest, duel.baseline, duel.candidate, metric=duel.metric)
    digest = identify()
    where = folder or home() / "judge" / digest
    tell(f"runs are kept in {where}")
    with options.runner() as run, locked(where, tell):
        if fresh:
            for name in RESULT_FILES:
                (where / name).unlink(missing_ok=True)
        check_same(where, duel)
        runs = RunFolder(where, duel.metric, options.jobs, run, tell, deadline=deadline)
        runs.load()
        if count := len(runs.runs):
            checked = "whatever has changed in code" if folder else "commands, files that they name and Git unchanged"
            tell(f"{count} run{'s' * (count != 1)} reused: {checked}; --fresh begins anew")
        outcome = fight(duel, runs, tell)
    if not folder and identify() != digest:
        tell(CHANGED)
    return outcome


def check_same(folder: Path, duel: Duel) -> None:
    """Raise UserError if a folder has the runs of other commands or another metric."""
    file, content = folder / "commands.json", json.dumps([duel.baseline, duel.candidate, duel.metric])
    if file.exists() and file.read_text(errors="replace") != content:
        raise UserError(f"{folder} has runs of other commands or another metric; name another --folder")
    write_atomic(file, content)


def open_ledger(folder: Path, metric: str, lower: bool | None, run: Runner) -> Ledger:
    begun = settings(folder, metric, lower)
    runs = RunFolder(folder, begun.metric, runner=run, tell=tell)
    ledger = Ledger(runs, begun.lower, partial(code_digest, metric=begun.metric))
    ledger.load()
    return ledger


def judge_proposal(
    folder: Path, commands: tuple[str, str], metric: str, lower: bool | None, options: RunOptions, as_json: bool
) -> int:
    """Judge a proposal of a ledger; return the exit code. `commands`: candidate, and baseline or an empty string."""
    tell(f"runs are kept in {folder}")
    with locked(folder, tell), options.runner() as run:
        ledger = open_ledger(folder, metric, lower, run)
        try:
            proposal = ledger.judge(*commands)
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
