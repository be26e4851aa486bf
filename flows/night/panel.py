"""A panel measured anew: an experiment run by a process of its own, in a home of its own, and what it left there.

The process may be of other code than this, which is how `ablate bisect` measures a commit.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import requires, version
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar

from packaging.requirements import Requirement

from contrastive.cells.grid import Resolved
from contrastive.errors import UserError
from contrastive.experiment.check import score_names_of
from contrastive.experiment.load import load_experiment as load_panel
from contrastive.runs.fingerprint import key
from contrastive.runs.store import read_json
from flows.night import stopwatch
from flows.night.commits import check_out
from flows.serve.supervise import CHECKOUT
from reports.load import Results, load
from reports.nightly.measured import AT
from reports.nightly.settings import TIMINGS

STOP = 60.0  # seconds that a panel has to end when it is told to
REPEATS = 5  # of the timings that a panel has not by itself
Value = float | None
Cells = TypeVar("Cells")


def measure_panel(panel: Path, home: Path, engine: str, code: Path = CHECKOUT, timed: bool = True) -> dict[str, Any]:
    """Scores and timings of a panel, metric → a value a seed; cells that failed have none. The home is a new folder."""
    home.mkdir(parents=True)
    name = load_panel(panel).experiment.name
    command = ["-c", "from flows.cli import main; main()", "run", str(panel), "--engine", engine]
    done, said = run_python(command, home, code)
    if not (home / "mlflow.db").exists() or done not in (0, 1):
        raise UserError(
            f"the panel {panel} could not be run (code {done}): {said[-2000:].strip() or 'it said nothing'}"
        )
    results = load(name, f"sqlite:///{home / 'mlflow.db'}")
    rows = rows_by_label(results)
    document: dict[str, Any] = {
        "values": panel_scores(results, rows) | training(home, rows),
        "configurations": list(rows),
        "seeds": list(results.grid.experiment.seeds),
        "texts": {score: kind.count for score, kind in sorted(results.kinds.items()) if kind.count},
        "directions": {
            score: kind.higher_is_better
            for score, kind in sorted(results.kinds.items())
            if kind.higher_is_better is not None
        },
        "failed": failures(results, rows),
        "hardware": hardware_of_night(results),
    }
    if timed:
        document["values"] |= timings(panel, home, code, next(iter(rows.values())))
    return document


def measure_commit(commit: str, code: Path, panel: Path, engine: str, timed: bool) -> dict[str, Any]:
    """The same by the code of a commit, which is checked out in a worktree; its home beside it is gone afterwards."""
    home = code.with_name(commit)  # MLflow keeps a database open by its name, also one that is gone
    check_out(commit, code)
    try:
        return measure_panel(panel, home, engine, code, timed)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def run_python(arguments: Sequence[str], home: Path, code: Path) -> tuple[int, str]:
    """Exit code and output of a process of this environment's Python, with the given code in the place of our own."""
    with subprocess.Popen(
        [sys.executable, "-P", *arguments],
        env=surroundings(home, code),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            said, _ = process.communicate()
        except BaseException:  # Ctrl-C, or SIGTERM in the shape that Prefect gives it
            process.terminate()
            try:
                process.wait(STOP)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return process.returncode, said


def surroundings(home: Path, code: Path) -> dict[str, str]:
    """The environment of a panel: its own home and tracking, our Prefect server."""
    from prefect.settings import get_current_settings

    own = ("MLFLOW_TRACKING_URI", "ABLATE_COMMIT", "ABLATE_WEBHOOK")
    kept = {name: value for name, value in os.environ.items() if name not in own and not name.startswith("PREFECT__")}
    server = get_current_settings().api.url
    return kept | {"ABLATE_HOME": str(home), "PYTHONPATH": str(code)} | ({"PREFECT_API_URL": server} if server else {})


def rows_by_label(results: Results) -> dict[str, list[str]]:
    """Label of a configuration → its cells, in the order of the seeds. One that several sections show is one."""
    return labelled((section.title, row.label, row.cells) for section in results.grid.sections for row in section.rows)


def labelled(rows: Iterable[tuple[str, str, Cells]]) -> dict[str, Cells]:
    """Label → cells, from the title of the section, the label and the cells of each row."""
    by_label: dict[str, Cells] = {}
    for title, label, cells in rows:
        if cells not in by_label.values():
            by_label[label if label not in by_label else f"{title}: {label}"] = cells
    return by_label


def expected(panel: Resolved) -> list[str]:
    """What a panel may measure, as its file has it; a score that has no direction is not among what it does."""
    parts = labelled((part.section.title, row.label, row.cells) for part in panel.sections for row in part.rows)
    evaluation = panel.experiment.evaluation
    scores = [
        f"{vectors}{post}{name}"
        for vectors in ("", *(f"{part}/" for part in evaluation.vectors))
        for post in ("", *(f"{part}/" for part in evaluation.post))
        for name in score_names_of(evaluation)
    ]
    return [*scores, *TIMINGS, *(f"{score}{AT}{part}" for score in scores for part in parts)]


def panel_scores(results: Results, rows: Mapping[str, list[str]]) -> dict[str, list[Value]]:
    """Each score that has a direction: over the panel, and of each configuration."""
    columns: dict[str, list[Value]] = {}
    for name, kind in sorted(results.kinds.items()):
        if kind.higher_is_better is None:
            continue
        column = results.scores[name].to_dict()
        by_row = {label: [_finite(column.get(cell)) for cell in cells] for label, cells in rows.items()}
        columns[name] = over_rows(by_row)
        columns |= {f"{name}{AT}{label}": values for label, values in by_row.items()}
    return columns


def training(home: Path, rows: Mapping[str, list[str]]) -> dict[str, list[Value]]:
    """Timings that training notes by itself: geometric means over configurations, since these differ by factors."""
    by_row: dict[str, dict[str, list[Value]]] = {"training_seconds": {}, "texts_per_second": {}}
    for label, cells in rows.items():
        folders = [home / "runs" / cell for cell in cells]
        by_row["training_seconds"][label] = [_log(_seconds(folder)) for folder in folders]
        by_row["texts_per_second"][label] = [_log(_rate(folder)) for folder in folders]
    return {
        name: [None if value is None else math.exp(value) for value in over_rows(values)]
        for name, values in by_row.items()
    }


def over_rows(by_row: Mapping[str, list[Value]]) -> list[Value]:
    """The mean over configurations at each seed; none where one is missing."""
    columns = zip(*by_row.values(), strict=True)
    return [None if None in column else fmean(v for v in column if v is not None) for column in columns]


def timings(panel: Path, home: Path, code: Path, cells: Sequence[str]) -> dict[str, list[Value]]:
    """Seconds of an evaluation and of a report, by the code that is measured; none where it cannot do them."""
    arguments = [str(Path(stopwatch.__file__)), str(panel), str(REPEATS), *cells[:REPEATS]]
    done, said = run_python(arguments, home, code)
    return json.loads(said.splitlines()[-1]) if done == 0 else {"evaluation_seconds": [], "report_seconds": []}


def failures(results: Results, rows: Mapping[str, list[str]]) -> list[str]:
    failed = []
    for label, cells in rows.items():
        for number, cell in enumerate(cells):
            run = results.cells.get(cell)
            if run is None or run.status != "finished":
                why = f"{run.status}: {run.error}" if run else "not in MLflow: "
                failed.append(f"{label}, seed number {number + 1}: {why}")
    return failed


def hardware_of_night(results: Results) -> dict[str, str]:
    machines = [vars(run.provenance.hardware) for run in results.cells.values() if run.provenance]
    names = machines[0] if machines else ()
    return {name: ", ".join(sorted({str(machine[name]) for machine in machines})) for name in names}


def panel_environment(panel: Path, engine: str, baseline: int) -> dict[str, str]:
    """What decides numbers beside the code: another one of these, and an earlier night tells nothing of tonight."""
    wanted = load_panel(panel).experiment
    names = [
        requirement for line in requires("ablate-contrastive") or () if not (requirement := Requirement(line)).marker
    ]
    return {
        "python": sys.version.split()[0],
        **{requirement.name: version(requirement.name) for requirement in names},
        "threads": str(wanted.training.threads),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", ""),
        "engine": engine,
        "panel": key("panel", experiment=wanted.model_dump(mode="json", exclude={"description"})),
        "repeats": str(REPEATS),
        "baseline": str(baseline),
    }


def _finite(value: Any) -> Value:
    return float(value) if value is not None and math.isfinite(value) else None


def _log(value: Value) -> Value:
    return math.log(value) if value is not None and value > 0 else None


def _seconds(folder: Path) -> Value:
    try:
        return float(read_json(folder / "provenance.json")["wall_seconds"])
    except (OSError, ValueError, KeyError):
        return None


def _rate(folder: Path) -> Value:
    """Texts a second of the median step: the first ones are slow."""
    try:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return median(json.loads(line)["examples_per_second"] for line in lines)
    except (OSError, ValueError, KeyError):
        return None
