"""Compare MLflow with the run folders: `sync` updates MLflow, `audit` lists differences and damage.

Mending deletes a run that differs and records the cell anew; nothing is repaired in place. Abandoned runs are closed:
those that say RUNNING although the process that trained the cell was killed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.entities import Run

from contrastive.config.cell import Cell
from contrastive.evaluation.reference import known_references
from contrastive.grid.identity import evaluation_key
from contrastive.grid.plan import (
    DECLARATIONS,
    Plan,
    declaration_file,
    recorded_declarations,
    recorded_grid,
    restore_declarations,
)
from contrastive.grid.status import MEASURED_OTHERWISE, Status, outcome
from contrastive.runs import claim, store
from contrastive.runs.recorded import Declaration, Stopping
from reports.load import Artifacts, all_runs
from reports.study import SCORE
from tasks import record
from tasks.address import file_of, masked, tracking_uri
from tasks.tracking import (
    RECORDED,
    as_tracking_error,
    by_cell,
    end_runs,
    experiment_id,
    find_runs,
    open_tracker,
    or_warning,
    remove_runs,
    runs_of_cells,
    writing,
)

CELLS = "attributes.status = 'RUNNING' AND tags.`ablate.kind` = 'cell'"
MOST = 50_000  # most results of one MLflow search


class Synced(NamedTuple):
    message: str
    runs: list[Run] | None  # all runs of the experiment; None if some were recorded anew and have to be read again


@as_tracking_error()
def sync(plan: Plan, stopping: Stopping | None = None, cells: Mapping[Cell, Status] | None = None) -> Synced:
    """Update MLflow to the run folders of an experiment, including cells that other experiments have trained.

    `stopping`: the record of a study. `cells`: those to record, all if None. A run with the mark of its folder is kept.
    """
    client, name, key = open_tracker(store.home()), plan.experiment.name, evaluation_key(plan.experiment.evaluation)
    before = all_runs(client, experiment_id(client, name))
    held, count = by_cell(before), 0
    changed = all(run.data.tags.get("ablate.kind") != "grid" for run in before)
    for cell, status in (plan.statuses if cells is None else cells).items():
        folder, sections, runs = store.run_folder(status.id), plan.resolved.titles[cell], held.get(status.id, [])
        if not folder.exists():
            continue
        count += 1
        tags = record.quick_tags(folder, sections, key)
        held_key = runs[0].data.tags.get(record.EVALUATION) if runs else None
        if held_key == key and MEASURED_OTHERWISE in tags[RECORDED]:
            continue  # evaluated for another experiment since; the run holds the scores of this one
        if not record.is_recorded(runs, tags):
            record.record_cell(client, name, folder, sections, key)
            changed = True
        elif runs[0].info.run_name != (label := plan.name(cell)):
            client.update_run(runs[0].info.run_id, name=label)
            changed = True
    grid = recorded_grid(plan, known_references(plan), stopping)
    grid = replace(grid, declared=restore_declarations(name, held_declarations(client, name)))
    record.record_grid(client, name, grid.document())
    message = f"{count} of {len(plan.statuses)} cells are in MLflow ({masked(tracking_uri(store.home()))})"
    return Synced(message, None if changed else before)


@as_tracking_error()
def audit(plan: Plan) -> list[str]:
    """List damaged run folders, and differences between MLflow and the folders."""
    client, name = open_tracker(store.home()), plan.experiment.name
    compared = compare_cells(client, plan)
    found = [f"{cell}: {difference}" for cell, _, differences in compared for difference in differences]
    held = held_declarations(client, name)
    if recorded_declarations(name)[: len(held)] != held:
        found.append(f"{declaration_file(name)} does not begin with the declarations that MLflow has")
    return found


def held_declarations(client: MlflowClient, experiment: str) -> list[Declaration]:
    """Return the declarations in MLflow; none if it has no readable grid."""
    runs = record.grid_runs(client, experiment)
    path = Artifacts(client).file(runs[0], "grid.json") if runs else None
    try:
        return [] if path is None else DECLARATIONS.validate_python(json.loads(path.read_bytes())["declared"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


@as_tracking_error()
def mend_tracking(plan: Plan, stopping: Stopping | None) -> str:
    """Delete the MLflow runs that differ from their folders, and record the cells anew."""
    client = open_tracker(store.home())
    for _, runs, differences in compare_cells(client, plan):
        if differences:
            remove_runs(client, runs)
    return sync(plan, stopping).message


def compare_cells(client: MlflowClient, plan: Plan) -> Iterator[tuple[str, list[Run], list[str]]]:
    """Yield the name of each cell, its MLflow runs, and its differences."""
    held, key = runs_of_cells(client, plan.experiment.name), evaluation_key(plan.experiment.evaluation)
    for cell, status in plan.statuses.items():
        runs = held.get(status.id, [])
        if status.action == "stale" and not runs and not store.run_folder(status.id).exists():
            yield f"{status.id} {plan.name(cell)}", runs, [f"not run yet ({status.why})"]
            continue
        yield f"{status.id} {plan.name(cell)}", runs, [*differences_of_cell(client, runs, status.id, key)]


def differences_of_cell(client: MlflowClient, runs: list[Run], cell_id: str, key: str) -> Iterator[str]:
    """Yield the damage of a cell's folder, or how MLflow differs from the folder."""
    folder = store.run_folder(cell_id)
    damage = store.damage(folder, "DONE", thorough=True)
    if damage and store.failure(folder) is None:
        yield f"not finished: {damage}"
    elif outcome(folder, key)[1] == MEASURED_OTHERWISE:
        yield MEASURED_OTHERWISE
    elif len(runs) != 1:
        yield f"MLflow has {len(runs)} runs of it" if runs else "not in MLflow"
    else:
        yield from differences_of_run(client, runs[0], folder, key)


def differences_of_run(client: MlflowClient, run: Run, folder: Path, key: str = "") -> Iterator[str]:
    wanted, metrics, tags = record.wanted_run(folder, key), run.data.metrics, run.data.tags
    if tags.get("ablate.status") != wanted.status:
        yield f"MLflow says {tags.get('ablate.status', 'running')}, the folder is {wanted.status}"
    if record.losses_held(client, run) != record.losses(wanted.rows):
        yield "the loss curve in MLflow differs from metrics.jsonl"
    if wanted.status == "finished":
        for name in sorted(set(filter(SCORE.match, metrics)) - wanted.scores.keys()):
            yield f"MLflow has {name}, which is not in the folder"
        for name, value in wanted.scores.items():
            if metrics.get(name) != value:
                yield f"{name} is {value} in the folder and {metrics.get(name)} in MLflow"
    if run.data.params != wanted.params:
        yield "the settings in MLflow differ from config.json"
    yield from different_artifacts(client, run, wanted.files)


def different_artifacts(client: MlflowClient, run: Run, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the files that MLflow lacks, or that differ from the folder's."""
    artifacts = Artifacts(client)
    for name, path in files.items():
        held = artifacts.path(run.info.run_id, run.info.artifact_uri or "", name)
        if held is None:
            yield f"MLflow lacks {name}"
        elif not held.is_file() or store.digest_file(held) != store.digest_file(path):
            yield f"{name} in MLflow differs from the file in the folder"


def reset_damaged(plan: Plan) -> Iterator[str]:
    """Remove the markers of damaged stages and cache folders, which are then computed again; yield the damage."""
    for marker, why in damaged_cache():
        store.remove(marker)
        yield why
    for cell, status in plan.statuses.items():
        if why := claim.invalidate_damaged(store.run_folder(status.id)):
            yield f"{status.id} {plan.name(cell)}: {why}"


def damaged_cache() -> Iterator[tuple[Path, str]]:
    """Yield the marker of each damaged cache folder, and what is damaged."""
    for marker in sorted((store.home() / "cache").rglob("DONE")):
        if why := store.damage(marker.parent, "DONE", thorough=True):
            yield marker, f"{marker.parent.relative_to(store.home())}: {why}"


def prepare_tracking(experiment: str) -> None:
    """Create MLflow's database and experiment if they are new, and close abandoned runs.

    Called while workers import, so that no cell waits for it.
    """
    with or_warning("MLflow is not ready; `ablate sync` will record the cells"):
        client = open_tracker(store.home())
        with writing():
            experiment_id(client, experiment)
        close_abandoned_runs()


def end_run_of(cell_id: str, experiment: str) -> None:
    """End the MLflow run of a cell that was stopped."""
    with or_warning(f"the MLflow run of {cell_id} stays open until the next run"):
        client = open_tracker(store.home())
        with writing():  # finding a run creates its experiment
            end_runs(client, find_runs(client, experiment, "ablate.cell", cell_id))


def close_abandoned_runs() -> None:
    """End the abandoned runs of this home's cells."""
    home, database = store.home(), file_of(store.home())
    if database is not None and not database.exists():
        return
    client = open_tracker(home)
    with writing():
        experiments = [experiment.experiment_id for experiment in client.search_experiments(max_results=MOST)]
        running = client.search_runs(experiments, CELLS, max_results=MOST)
        is_shared = database is None
        end_runs(client, [run for run in running if is_abandoned(run.data.tags["ablate.cell"], is_shared)])


def is_abandoned(cell_id: str, is_shared: bool) -> bool:
    """Return whether nobody works on a cell. On a shared server, a cell without a folder here may belong to others."""
    folder = store.run_folder(cell_id)
    return (folder.exists() or not is_shared) and not claim.is_held(folder)
