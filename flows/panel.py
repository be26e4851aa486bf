"""Measure the nightly panel in a new process and a new home, with the current code or that of a commit."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from pydantic import ValidationError

from contrastive.errors import UserError
from contrastive.grid.choose import require_settled, with_rows_written
from contrastive.grid.load import load_experiment
from contrastive.runs import provenance
from contrastive.runs.fingerprint import key
from contrastive.runs.provenance import PACKAGES, processor
from flows.serve.servers import CHECKOUT
from flows.terminal import tell
from reports.load import load
from reports.night import NightSettings
from reports.study import Results

STOP = 60.0  # seconds until a panel that does not end after SIGTERM is killed
LAST_LINES = 30  # of the output, shown when a panel could not be run


def read_settings(path: Path) -> NightSettings:
    """Read the settings of the verdict."""
    try:
        return NightSettings.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read ({error}); name a file such as configs/nightly/verdict.yaml") from None
    except ValidationError as error:
        mistakes = [f"{path}: {'.'.join(map(str, mistake['loc']))}: {mistake['msg']}" for mistake in error.errors()]
        raise UserError("\n".join(mistakes)) from None


def measure_panel(panel: Path, home: Path, engine: str, code: Path) -> dict[str, Any]:
    """Return scores and timings of a panel in a new home; failed cells have none."""
    resolved = load_experiment(panel)
    experiment, settled = resolved.experiment, require_settled(resolved)
    shutil.rmtree(home, ignore_errors=True)  # remnants of a killed night
    home.mkdir(parents=True)
    if experiment.choose is not None:  # a night takes the values as they were chosen
        panel = home / "panel.yaml"
        panel.write_text(json.dumps(with_rows_written(settled)), encoding="utf-8")
    exit_code, output = run_ablate(["run", str(panel), "--engine", engine], surroundings(home, code))
    if not (home / "mlflow.db").exists() or exit_code not in (0, 1):
        raise UserError(f"the panel {panel} could not be run (exit code {exit_code}): {output or 'no output'}")
    return measured(load(experiment.name, f"sqlite:///{home / 'mlflow.db'}"), home)


def measured(results: Results, home: Path) -> dict[str, Any]:
    rows = rows_by_label(results)
    cells = [cell for row in rows.values() for cell in row]
    provenances = [results.provenance(cell) for cell in cells]
    directions = {score: kind.higher_is_better for score, kind in sorted(results.kinds.items())}
    higher = {score: direction for score, direction in directions.items() if direction is not None}
    return {
        "scores": {
            score: {label: [finite(results.by_score[score].get(cell)) for cell in row] for label, row in rows.items()}
            for score in higher
        },
        "higher": higher,
        "texts": {score: kind.count for score, kind in sorted(results.kinds.items()) if kind.count},
        "timings": {
            "training_seconds": [run and run.wall_seconds for run in provenances],
            "texts_per_second": [texts_per_second(home / "runs" / cell) for cell in cells],
        },
        "failed": failures(results, rows),
        "devices": ", ".join(sorted({run.hardware.device for run in provenances if run})),
    }


def run_ablate(arguments: list[str], environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Run `ablate` in a process of its own; print its output, and return the exit code and the last lines."""
    command = [sys.executable, "-P", "-c", "from flows.cli import main; main()", *arguments]
    lines = deque[str](maxlen=LAST_LINES)
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=environment, text=True, errors="replace", **pipes) as process:
        try:
            for line in process.stdout or ():
                tell(line.rstrip("\n"))
                lines.append(line)
            process.wait()
        except BaseException:  # Ctrl-C, or the exception that Prefect makes of SIGTERM
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP)
            process.kill()  # without effect if it has ended
            raise
    return process.returncode, "".join(lines).strip()


def surroundings(home: Path, code: Path) -> dict[str, str]:
    """Return the environment of a panel: its own home and MLflow store, and this Prefect server."""
    from prefect.settings import get_current_settings

    ours = ("MLFLOW_TRACKING_URI", "ABLATE_COMMIT")
    kept = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("PREFECT__")}
    server = get_current_settings().api
    kept |= {"ABLATE_HOME": str(home), "PYTHONPATH": str(code)}
    kept |= {"PREFECT_API_URL": server.url} if server.url else {}
    return kept | ({"PREFECT_API_AUTH_STRING": server.auth_string.get_secret_value()} if server.auth_string else {})


def rows_by_label(results: Results) -> dict[str, list[str]]:
    """Map the label of each row to its cells, in order of seeds; a row of several sections counts once."""
    by_label: dict[str, list[str]] = {}
    for section in results.study.sections:
        for row in section.rows:
            if row.cells not in by_label.values():
                by_label[row.label if row.label not in by_label else f"{section.title}: {row.label}"] = row.cells
    return by_label


def failures(results: Results, rows: dict[str, list[str]]) -> list[str]:
    failed = []
    for label, cells in rows.items():
        for number, cell in enumerate(cells, start=1):
            run = results.cells.get(cell)
            if run is None or run.status != "finished":
                why = f"{run.status}: {run.error}" if run else "not in MLflow"
                failed.append(f"{label}, seed number {number}: {why}")
    return failed


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def texts_per_second(folder: Path) -> float | None:
    """Return the throughput of the median step, since the first steps are slow."""
    try:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return median(json.loads(line)["examples_per_second"] for line in lines)
    except (OSError, ValueError, KeyError):
        return None


def conditions(panel: Path, engine: str) -> dict[str, str]:
    """Return everything besides the code that affects results; nights that differ in it are not compared."""
    experiment = load_experiment(panel).experiment
    return {
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "python": sys.version.split()[0],
        **{name: version(name) for name in PACKAGES},
        "threads": str(experiment.training.threads),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", ""),
        "engine": engine,
        "panel": key("panel", experiment=experiment.model_dump(mode="json", exclude={"description"})),
    }


@contextmanager
def worktree(folder: Path, commit: str) -> Iterator[Path]:
    """Check out a commit into a folder, within a `with` block; remnants of a killed run are removed first."""
    code = folder / "code"
    try:
        shutil.rmtree(folder, ignore_errors=True)
        git("worktree", "prune")
        git("worktree", "add", "--quiet", "--detach", str(code), commit)
        yield code
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        git("worktree", "prune", check=False)


def commits_after(since: str) -> list[tuple[str, str]]:
    """Return id and subject of the commits after another one, newest first; nothing if Git does not know it."""
    if not since or not provenance.commit():
        return []
    log = git("log", "-n50", "--format=%h%x09%s", f"{since.rstrip('+')}..HEAD", check=False).stdout
    parts = [line.partition("\t") for line in log.splitlines()]
    return [(commit, subject) for commit, _, subject in parts]


def commit_of(name: str) -> str:
    if not provenance.commit():
        raise UserError(f"--against needs a Git checkout of this project; {CHECKOUT} is none")
    commit = git("rev-parse", "--verify", "--quiet", "--short", f"{name}^{{commit}}", check=False).stdout.strip()
    if not commit:
        raise UserError(f"{CHECKOUT} has no commit {name}")
    return commit


def git(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["git", "-C", str(CHECKOUT), *arguments], capture_output=True, text=True)
    if check and done.returncode:
        raise UserError(f"git {arguments[0]}: {done.stderr.strip() or 'failed'}")
    return done
