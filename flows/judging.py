"""`ablate judge`: run two commands until it is decided which is better; the exit code says so."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.identity import Identity, identity_of, note_outputs
from contrastive.errors import UserError, brief
from contrastive.runs.store import home, write_atomic
from flows.terminal import complain, say, seconds_of, tell

if TYPE_CHECKING:  # these imports take seconds, and a verdict that is known needs none
    from ablate.commands import Runner
    from ablate.duel import Duel
    from ablate.ledger import Ledger

TEXTS = ("baseline", "candidate", "metric", "seeds_from")  # what users write of a pair of commands
BROKEN = 3  # exit code: a run failed
CHANGED = (
    "warning: a file that the commands name, or one that Git does not ignore, changed during the runs, so that the "
    "same command begins anew; if the commands write it, let Git ignore it, name it after `>`, put {seed} in its name, "
    "or name a --folder"
)


def judge_pair(
    asked: dict[str, Any],
    folder: Path | None,
    gate: Path | None,
    as_json: bool,
    receipt: Path | None = None,
    **how: Any,
) -> int:
    """Answer with the verdict that is known, or run what is missing (see `run_missing`); return the exit code.

    With `gate`, write the verdict there as Markdown; the exit code is then 0 unless the candidate is worse or broken.
    With `receipt`, write it there.
    """
    commands, metric = (asked["baseline"], asked["candidate"]), asked["metric"]
    if not (all(commands) and metric):
        raise UserError("--baseline, --candidate and --metric are needed, or --ledger FOLDER")
    clear(gate, "--gate")
    clear(receipt, "--receipt")
    if receipt:
        from ablate.commands import check_text

        check_text(**{name.replace("_", "-"): str(asked[name]) for name in TEXTS})
    what = f"{metric} seeds from {asked['seeds_from']}" if asked.get("seeds_from") else metric
    own = [path for path in (folder, gate, receipt) if path]
    identify = partial(identity_of, *commands, metric=what, own=own)
    identity = identify()
    where = folder or home() / "judge" / identity.digest
    checked = "whatever has changed in code" if folder else f"{identity.checked} unchanged"
    if told := known_verdict(where, asked):
        tell(reused(told["json"]["runs"], where, checked))
    else:
        tell(f"runs are kept in {where}")  # before imports that take a second
        from ablate.commands import RunFailed
        from ablate.duel import Duel

        try:
            told = run_missing(Duel(**asked), where, checked, identity.digest, **how)
        except RunFailed as failed:
            write(receipt, where, asked, identity)
            return not_judged(str(failed), where, gate, as_json)
        finally:  # also after Ctrl-C, so that the same command goes on
            if not folder:
                where = keep_identity(where, identity, identify)
    say(json.dumps(told["json"]) if as_json else told["text"])
    if gate:
        gate.write_text(told["markdown"], encoding="utf-8")
    write(receipt, where, asked, identity)
    return int(told["json"]["verdict"] == "worse") if gate else int(told["code"])


def write(receipt: Path | None, where: Path, asked: dict[str, Any], identity: Identity) -> None:
    """Write the receipt of a pair of commands, and tell its hash."""
    if receipt:
        from ablate.commands import RunFolder
        from ablate.duel import Duel
        from ablate.receipt import write_receipt

        folder = RunFolder(where, asked["metric"])
        folder.load()
        tell(f"receipt {receipt}: {write_receipt(receipt, folder, Duel(**asked), identity.as_json())}")


def check(receipt: Path, count: int, engine: str, timeout: str, as_json: bool) -> int:
    """Check a receipt, run some of its runs again, and say what differs; return the exit code, 0 if nothing does."""
    from ablate.receipt_check import check_receipt, rerun

    found = check_receipt(receipt)
    if count:
        with runner(engine, timeout) as run:
            rerun(found, count, run, tell)
    if as_json:
        say(
            json.dumps(
                {"sound": not found.differs, **{key: getattr(found, key) for key in ("hash", "differs", "notes")}}
            )
        )
    else:
        for line in [*found.differs, *(f"note: {note}" for note in found.notes)]:
            say(line)
        word = (
            "not sound" if found.differs else f"sound, {found.last.get('verdict')} after {found.last.get('runs')} runs"
        )
        say(f"receipt {receipt}: {found.hash}: {word}")
    return int(bool(found.differs))


def keep_identity(where: Path, before: Identity, identify: Callable[[], Identity]) -> Path:
    """Keep the runs under the identity that the same command has now, if only configuration that they wrote differs.

    Return where they are.
    """
    written = note_outputs(before, identify())
    now = identify().digest
    if now != before.without(written):
        tell(CHANGED)
    elif now != before.digest and where.exists() and not (where.parent / now).exists():
        return where.rename(where.parent / now)
    return where


def known_verdict(where: Path, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return what was told of a verdict if its commands, code, settings and runs are unchanged."""
    try:
        stored: dict[str, Any] = json.loads((where / "verdict.json").read_bytes())
        return stored if stored["key"] == verdict_key(where, asked) else None
    except (OSError, ValueError, KeyError, TypeError):  # it is made again
        return None


def verdict_key(where: Path, asked: dict[str, Any]) -> str:
    """Identify what a verdict depends on: the settings and all runs."""
    content = json.dumps(asked, sort_keys=True).encode() + (where / "runs.jsonl").read_bytes()
    return hashlib.sha256(content).hexdigest()


def reused(count: int, where: Path, checked: str) -> str:
    return f"{count} run{'s' * (count != 1)} reused from {where}: {checked}; --folder NEW begins anew"


def run_missing(
    duel: "Duel", where: Path, checked: str, identity: str, engine: str, jobs: int, budget: str, timeout: str
) -> dict[str, Any]:
    """Run what is missing; return what to tell of the verdict, which is kept unless the budget ended it."""
    from ablate.commands import RunFolder, locked
    from ablate.duel import fight

    duel.check()
    deadline = time.monotonic() + (seconds_of("--budget", budget) if budget else float("inf"))
    with runner(engine, timeout) as run, locked(where, tell):
        runs = RunFolder(where, duel.metric, jobs, run, tell, deadline=deadline, code=identity)
        runs.load()
        check_same(where, duel)
        if runs.runs:
            tell(reused(len(runs.runs), where, checked))
        outcome = fight(duel, runs, tell)
        told = {"code": outcome.exit_code, "text": str(outcome), "json": outcome.as_json()}
        told["markdown"] = outcome.as_markdown(duel)
        if time.monotonic() <= deadline:
            write_atomic(where / "verdict.json", json.dumps(told | {"key": verdict_key(where, asdict(duel))}))
    return told


def clear(file: Path | None, option: str) -> None:
    if file is None:
        return
    if not file.absolute().parent.is_dir():
        raise UserError(f"{option} {file}: its folder does not exist; make it first")
    if option == "--gate":
        file.unlink(missing_ok=True)
    elif file.exists() and not (file.is_file() and b'"entry": "receipt"' in file.read_bytes()[:1000]):
        raise UserError(f"{option} {file}: this is no receipt; name a new file")


def not_judged(why: str, folder: Path, gate: Path | None, as_json: bool) -> int:
    """Say that a run failed; return the exit code."""
    from ablate.duel import fenced

    if gate:
        gate.write_text(f"**Not judged**: a run failed\n\n{fenced(why)}", encoding="utf-8")
    if as_json:
        say(json.dumps({"verdict": "broken", "why": why}))
    complain(f"{why}; its output is in {folder}")
    return BROKEN


def check_same(folder: Path, duel: "Duel") -> None:
    """Raise UserError if a folder has the runs of other commands, another metric or other seeds."""
    words = [duel.baseline, duel.candidate, duel.metric, *([duel.seeds_from] if duel.seeds_from else [])]
    file, content = folder / "commands.json", json.dumps(words)
    if (begun := file.read_text(errors="replace") if file.exists() else "") not in ("", content):
        same = begun.startswith(json.dumps(words[:3])[:-1])
        other = "seeds from another text (--seeds-from)" if same else "runs of other commands or another metric"
        raise UserError(f"{folder} has {other}; name another --folder")
    write_atomic(file, content)


LEDGER_CODES = {"kept": 0, "dropped": 1, "failed": BROKEN}
BASELINE_FAILED = 4  # exit code of a ledger


def lower_is_better(metric: str, lower: bool | None, ledger: Path | None = None) -> bool | None:
    """Return the direction that was asked for, or that higher is better; None leaves it to a ledger that has begun.

    Raise UserError if the words of the metric say otherwise.
    """
    from ablate.directions import higher_is_better

    if lower is not None or (ledger is not None and (ledger / "runs.jsonl").exists()):
        return lower
    if next(filter(lambda told: told is not None, map(higher_is_better, words_of_metric(metric))), None) is False:
        raise UserError(f"--metric `{brief(metric)}`: lower seems to be better; say --lower, or --higher if it is not")
    return False


def words_of_metric(metric: str) -> Iterator[str]:
    """Yield what a regular expression says before its first group, and after it: `loss` of `[Ll]oss=(.*)`."""
    text = re.sub(r"\\.", " ", re.sub(r"\[(\w)\w\](?=\w)", r"\1", metric))
    before, _, after = re.sub(r"\(\?P<(\w+)>", r"\1 (", text).partition("(")
    for part in (before, after.partition(")")[2]):
        yield re.sub(r"[^\w/% -]", " ", part).strip()


def judge_in_ledger(
    folder: Path,
    baseline: str,
    candidate: str,
    metric: str,
    lower: bool | None,
    engine: str,
    as_json: bool,
    timeout: str,
    receipt: Path | None = None,
    seeds_from: str = "",
) -> int:
    """Judge a proposal of a ledger, or show the ledger if there is no candidate; return the exit code."""
    clear(receipt, "--receipt")
    if not candidate:
        return show_ledger(folder, as_json, receipt)
    tell(f"runs are kept in {folder}")
    from ablate.commands import RunFailed, RunFolder, check_command, check_text, locked
    from ablate.ledger import Ledger, settings

    check_text(baseline=baseline, candidate=candidate, metric=metric, **{"seeds-from": seeds_from})
    with locked(folder, tell), runner(engine, timeout) as run:
        kept = settings(folder, metric, lower, seeds_from)
        code_of = partial(identity_of, metric=kept.metric, own=[folder, *([receipt] if receipt else [])])
        runs = RunFolder(folder, kept.metric, runner=run, tell=tell)
        ledger = Ledger(runs, kept.lower, lambda *commands: code_of(*commands).digest, seeds_from=kept.seeds_from)
        ledger.load()
        beaten = baseline or ledger.baseline
        if beaten is None:
            raise UserError("a new ledger needs --baseline: the command that proposals must beat")
        check_command("--candidate", candidate)
        check_command("--baseline", beaten)
        before = code_of(candidate, beaten)
        try:
            if (proposal := ledger.known(candidate, beaten)) is None:
                proposal = ledger.judge(candidate, beaten)
            else:
                tell(f"proposal {proposal.number} again, with the same code: nothing runs")
        except RunFailed as failed:  # of the baseline
            complain(f"{failed}; its output is in {folder}; nothing is recorded, and the same call goes on")
            return BASELINE_FAILED
        finally:
            note_outputs(before, code_of(candidate, beaten))
        write_of_ledger(receipt, ledger)
    say(json.dumps(asdict(proposal)) if as_json else str(proposal).strip())
    if proposal.why:
        complain(f"{proposal.why}; its output is in {folder}")
    return LEDGER_CODES[proposal.result]


def write_of_ledger(receipt: Path | None, ledger: "Ledger") -> None:
    if receipt:
        from ablate.receipt import write_receipt

        tell(f"receipt {receipt}: {write_receipt(receipt, ledger.folder, ledger, {})}")


def show_ledger(folder: Path, as_json: bool, receipt: Path | None) -> int:
    """Print what a ledger has tried and kept; another process may be at work in it."""
    if not folder.is_dir():
        raise UserError(f"there is no ledger {folder}; name --baseline, --candidate and --metric to begin one")
    from ablate.commands import RunFolder
    from ablate.ledger import Ledger, settings

    kept = settings(folder, "", lower=None)
    ledger = Ledger(RunFolder(folder, kept.metric), kept.lower, seeds_from=kept.seeds_from)
    ledger.load()
    for each in ledger.proposals:
        say(json.dumps(asdict(each)) if as_json else each)
    if not as_json:
        count, runs = sum(each.result == "kept" for each in ledger.proposals), ledger.folder.runs
        tries = ledger.folder.failures()
        hours = (sum(run.seconds for run in runs) + sum(each.seconds for each in tries)) / 3600
        failed = f" and {len(tries)} that failed" if tries else ""
        say(f"{len(ledger.proposals)} proposals, {count} kept, {len(runs)} runs{failed}, {hours:.1f} h")
    write_of_ledger(receipt, ledger)
    return 0


@contextmanager
def runner(engine: str, timeout: str) -> Iterator["Runner"]:
    """Yield a function that runs a command, here or on a node of the Ray cluster."""
    from ablate.commands import run_command

    limit = seconds_of("--timeout", timeout) if timeout else None
    if engine != "ray":
        yield partial(run_command, timeout=limit)
        return
    from contrastive.config.experiment import Resources
    from tasks import engines

    with engines.start("ray", Resources(), 1) as cluster:
        yield lambda command, metric, log: cluster.run("train", run_command, command, metric, log, limit)
