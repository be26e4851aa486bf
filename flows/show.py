"""`ablate show`, `ablate diff` and `ablate cell`: print a run folder, what differs between two, or the command that
trains a cell."""

import json
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from contrastive.config.cell import Cell
from contrastive.errors import UserError
from contrastive.grid import deepspeed_file
from contrastive.grid.plan import settings_by_name
from contrastive.grid.status import flattened
from contrastive.runs import claim, store
from flows.terminal import say

CONTENTS = (("content of the data", "data", "content"), ("weights of the encoder", "encoder", "model"))


def find_run_folder(beginning: str) -> Path:
    """Return the run folder whose name begins so; raise UserError if there is none or several."""
    runs = store.home() / "runs"
    matching = sorted(path for path in runs.glob("*") if path.name.startswith(beginning)) if runs.is_dir() else []
    if len(matching) != 1:
        raise UserError(f"{len(matching)} ids in {runs} begin with `{beginning}`; `ablate plan FILE` lists all ids")
    return matching[0]


def by_hand(beginning: str, into: Path) -> str:
    """Return the shell command that trains a cell again into the folder `into`."""
    run = find_run_folder(beginning)
    config = claim.current_folder(run) / "config.json"
    try:
        cell = Cell.model_validate(store.read_json(config)["cell"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{config} is missing or damaged: start the cell with `ablate run` first") from error
    if cell.soup:
        raise UserError(f"{run.name} is a soup, the mean of other cells, and was not trained: name one of those")
    training = cell.training.model_dump()
    folders = [attempt["place"] for attempt in claim.attempts(run) if "place" in attempt]
    change_folder = f"cd {shlex.quote(str(folders[-1]))} && " if folders else ""  # relative paths refer to this folder
    return (
        f"{change_folder}ABLATE_HOME={shlex.quote(str(store.home()))} PYTHONSAFEPATH=1 "
        f"OMP_NUM_THREADS={training['threads']} {shlex.quote(sys.executable)} {launcher(training)}"
        f"-m contrastive.training.job {shlex.quote(str(config))} {shlex.quote(str(into.absolute()))}"
    )


def launcher(training: dict[str, Any]) -> str:
    """Return Accelerate's part of the command; empty for one process, sharded or not."""
    if training["processes"] == 1:
        return ""
    kind = "--use_deepspeed" if (training.get("sharding") or "").startswith(deepspeed_file.KIND) else "--multi_gpu"
    launch = f"-m accelerate.commands.launch {kind} --num_machines 1 --num_processes {training['processes']} "
    return launch + "--dynamo_backend no --mixed_precision no --main_process_port 0 "


def show(beginning: str) -> None:
    folder = find_run_folder(beginning)
    say(f"{folder.name}  {folder}")
    if config := read_content(claim.current_folder(folder) / "config.json"):
        say(config["name"])
        say(json.dumps(config["cell"], ensure_ascii=False, indent=1))
    for attempt in claim.attempts(folder):
        say(attempt_line(attempt))
    if failure := store.failure(folder):
        say(f"failed ({failure['kind']}): {failure['error']}")
    damage = store.damage(folder, "DONE", thorough=True)
    say("finished, all files intact" if damage is None else f"not finished: {damage}")
    if scores := read_content(folder / "scores.json"):
        for score in scores.get("scores", []):
            error = f"  standard error {score['standard_error']:.4f}" if score.get("standard_error") else ""
            unit = f"  {score['unit']}" if score.get("unit") else ""
            say(f"  {score['name']:28} {score['value']:.4f}{error}  n={score['count']}{unit}")
        for name, why in scores.get("notes", {}).items():
            say(f"  {name:28} left out: {why}")
    if provenance := read_content(folder / "provenance.json"):
        say(json.dumps({k: v for k, v in provenance.items() if k != "class_counts"}, ensure_ascii=False, indent=1))


def show_difference(first: str, second: str) -> None:
    """Print the settings, code, data, versions and scores that differ between two cells."""
    folders = [find_run_folder(first), find_run_folder(second)]
    sides = [described(folder) for folder in folders]
    names = [name for name in dict.fromkeys([*sides[0], *sides[1]]) if sides[0].get(name) != sides[1].get(name)]
    for folder in folders:
        config = read_content(claim.current_folder(folder) / "config.json")
        if not config:
            raise UserError(f"{folder} has no readable config.json: its cell was never started")
        say(f"{folder.name}  {config['name']}")
    for name in names:
        say(f"  {name:36} {sides[0].get(name, '–')} → {sides[1].get(name, '–')}")
    if not names:
        say("no setting, code, data, version or score differs")


def described(run: Path) -> dict[str, str]:
    """Return what `ablate diff` compares, by name."""
    folder = claim.current_folder(run)
    config, provenance = read_content(folder / "config.json"), read_content(run / "provenance.json")
    identity = config.get("identity", {})
    facts = settings_by_name(config.get("cell", {}))
    facts |= {name: str(identity[part][key]) for name, part, key in CONTENTS if key in identity.get(part, {})}
    facts |= {f"code of {module}": digest for module, digest in config.get("files", {}).items()}
    facts |= {name: str(provenance[name]) for name in ("commit", "processes", "micro_batch") if name in provenance}
    for part in ("packages", "hardware"):
        facts |= {name: str(value) for name, value in flattened(provenance.get(part, {}))}
    for score in read_content(run / "scores.json").get("scores", []):
        facts[score["name"]] = f"{score['value']:.4f}"
    return facts


def attempt_line(attempt: dict[str, Any]) -> str:
    """Describe an attempt in one line: number, stage, host, start, duration and outcome."""
    if missing := {"number", "stage", "host", "pid", "began"} - attempt.keys():
        return f"an attempt with a damaged attempt.json, which lacks {', '.join(sorted(missing))}"
    lasted = f"{attempt['ended'] - attempt['began']:.0f} s" if "ended" in attempt else "no end recorded"
    kind = f"{attempt['kind']}: " if "kind" in attempt else ""
    began = datetime.fromtimestamp(attempt["began"]).isoformat(" ", "seconds")
    return (
        f"attempt {attempt['number']}: {attempt['stage']} on {attempt['host']} (process {attempt['pid']}), {began}, "
        f"{lasted}: {kind}{attempt.get('outcome', 'running, or killed')}"
    )


def read_content(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if it is missing or damaged, which `show` reports separately."""
    try:
        document = store.read_json(path)
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
