"""`ablate show CELL`: one run folder, for people."""

import json
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from contrastive.config.cell import Cell
from contrastive.errors import UserError
from contrastive.grid import deepspeed_file
from contrastive.runs import claim, store
from flows.terminal import say


def find(beginning: str) -> Path:
    """The one run folder whose name begins so."""
    runs = store.home() / "runs"
    matching = sorted(path for path in runs.glob("*") if path.name.startswith(beginning)) if runs.is_dir() else []
    if len(matching) != 1:
        raise UserError(
            f"{len(matching)} cells below {runs} begin with `{beginning}`; `ablate plan EXPERIMENT` lists the ids"
        )
    return matching[0]


def by_hand(beginning: str, into: Path) -> str:
    """The command that trains a cell again, into a folder of its own."""
    run = find(beginning)
    config = claim.current_folder(run) / "config.json"
    try:
        training = Cell.model_validate(store.read_json(config)["cell"]).training.model_dump()
    except FileNotFoundError:
        raise UserError(f"{run} has no config.json: the cell was never begun") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{config} is not readable: `ablate run` the experiment again") from error
    places = [attempt["place"] for attempt in claim.attempts(run) if "place" in attempt]
    there = f"cd {shlex.quote(str(places[-1]))} && " if places else ""  # where relative paths are looked for
    return (
        f"{there}ABLATE_HOME={shlex.quote(str(store.home()))} OMP_NUM_THREADS={training['threads']} "
        f"{shlex.quote(sys.executable)} {launcher(training)}-m contrastive.training.job "
        f"{shlex.quote(str(config))} {shlex.quote(str(into.absolute()))}"
    )


def launcher(training: dict[str, Any]) -> str:
    """Accelerate's part of the command; one process needs none, sharded or not."""
    if training["processes"] == 1:
        return ""
    kind = "--use_deepspeed" if (training.get("sharding") or "").startswith(deepspeed_file.KIND) else "--multi_gpu"
    several = f"-m accelerate.commands.launch {kind} --num_machines 1 --num_processes {training['processes']} "
    return several + "--dynamo_backend no --mixed_precision no --main_process_port 0 "


def show(beginning: str) -> None:
    folder = find(beginning)
    say(f"{folder.name}  {folder}")
    if config := content(claim.current_folder(folder) / "config.json"):
        say(config["name"])
        say(json.dumps(config["cell"], ensure_ascii=False, indent=1))
    for attempt in claim.attempts(folder):
        say(attempt_line(attempt))
    if failure := store.failure(folder):
        say(f"failed ({failure['kind']}): {failure['error']}")
    damage = store.damage(folder, "DONE", thorough=True)
    say("finished, every file whole" if damage is None else f"not finished: {damage}")
    if scores := content(folder / "scores.json"):
        for score in scores.get("scores", []):
            error = f" ± {score['standard_error']:.4f} (standard error)" if score.get("standard_error") else ""
            unit = f"  {score['unit']}" if score.get("unit") else ""
            say(f"  {score['name']:28} {score['value']:.4f}{error}  n={score['count']}{unit}")
        for name, why in scores.get("notes", {}).items():
            say(f"  {name:28} left out: {why}")
    if provenance := content(folder / "provenance.json"):
        say(json.dumps({k: v for k, v in provenance.items() if k != "class_counts"}, ensure_ascii=False, indent=1))


def attempt_line(attempt: dict[str, Any]) -> str:
    """One line an attempt: which, of what, where, for how long, and what came of it."""
    if missing := {"number", "stage", "host", "pid", "began"} - attempt.keys():
        return f"an attempt whose attempt.json is damaged: it lacks {', '.join(sorted(missing))}"
    lasted = f"{attempt['ended'] - attempt['began']:.0f} s" if "ended" in attempt else "no end noted"
    began = datetime.fromtimestamp(attempt["began"]).isoformat(" ", "seconds")
    return (
        f"attempt {attempt['number']}: {attempt['stage']} on {attempt['host']} (process {attempt['pid']}), {began}, "
        f"{lasted}: {attempt.get('outcome', 'at work, or died without a word')}"
    )


def content(path: Path) -> dict[str, Any]:
    """What a file of the folder says; nothing where it is missing or damaged, which is told apart."""
    try:
        document = store.read_json(path)
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
