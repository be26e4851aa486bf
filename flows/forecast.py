"""`ablate plan`: what a run would do, how long it takes and how much memory it needs. Imports no torch."""

import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from contrastive.config.cell import Cell
from contrastive.config.experiment import Experiment, Resources, Speed
from contrastive.data import tokens
from contrastive.evaluation.grid_references import known_references
from contrastive.grid import estimate, frozen_readers
from contrastive.grid import plan as plans
from contrastive.grid.estimate import CostEstimator
from contrastive.grid.identity import evaluation_key
from contrastive.grid.load import load_experiment
from contrastive.grid.plan import Plan
from contrastive.grid.preflight import PreflightReport, preflight
from contrastive.grid.schedule import CellTime, in_order, makespan
from contrastive.grid.status import result_mark
from contrastive.runs import store
from contrastive.runs.store import home, report_folder, run_folder
from contrastive.training import probe
from flows.terminal import say
from tasks.address import file_of
from tasks.engines import Engine, EngineName
from tasks.engines.local import SlotEnvironments, devices_and_cores


def preflight_report(plan: Plan, gpus_per_cell: float | None = None, engine: EngineName = "local") -> PreflightReport:
    """Return errors and warnings known before a run. `gpus_per_cell` is the command's option. On Ray the devices are
    unknown at this point, so a GPU is assumed."""
    resources = plan.experiment.resources
    overridden = resources if gpus_per_cell is None else resources.model_copy(update={"gpus_per_cell": gpus_per_cell})
    on_gpu = engine == "ray" or devices_and_cores(overridden, most_threads(plan)).on_gpu
    found = preflight(plan, on_gpu=on_gpu)
    if engine == "inline" and gpus_per_cell is not None:
        why = "--gpus-per-cell has no effect with --engine inline: leave it out, or take another engine"
        return found + PreflightReport((why,), ())
    return found + _missing_gpu(resources, gpus_per_cell, on_gpu)


def _missing_gpu(resources: Resources, gpus_per_cell: float | None, on_gpu: bool) -> PreflightReport:
    """Report a GPU share without a GPU: an error for the command's option, a warning for the file's setting."""
    share = gpus_per_cell if gpus_per_cell is not None else resources.gpus_per_cell
    if on_gpu or not share:
        return PreflightReport((), ())
    if gpus_per_cell is not None:
        return PreflightReport(
            (f"--gpus-per-cell is {share:g}, but this machine has no GPU: leave it out or set it to 0",), ()
        )
    if "gpus_per_cell" not in resources.model_fields_set:
        return PreflightReport((), ())
    return PreflightReport(
        (), (f"resources.gpus_per_cell is {share:g}, but this machine has no GPU: cells train on the CPU",)
    )


def load_plan(path: Path) -> Plan:
    return plans.make_plan(load_experiment(path))


def current_report(plan: Plan) -> Path | None:
    """Return the report's path if every cell is finished and it was built from these results, else None."""
    report, database = report_folder(plan.experiment.name) / "README.md", file_of(home())
    if plan.to_do or not report.exists() or database is None or not database.exists():
        return None
    key, ids = evaluation_key(plan.experiment.evaluation), [status.id for status in plan.statuses.values()]
    digest = plans.recorded_grid(plan, known_references(plan)).digest(
        {id_: result_mark(run_folder(id_), key) for id_ in ids}
    )
    return report if digest in report.read_text(encoding="utf-8") else None


def cost_estimator(experiment: Experiment, where: SlotEnvironments | Engine) -> CostEstimator:
    """Return the estimator of time and memory for an experiment on these devices."""
    return CostEstimator(evaluation=experiment.evaluation, speed=experiment.speed, device=device(where))


def device(where: SlotEnvironments | Engine) -> str:
    return "gpu" if where.on_gpu else "cpu"


def slots_for(plan: Plan) -> SlotEnvironments:
    return devices_and_cores(plan.experiment.resources, most_threads(plan))


def most_threads(plan: Plan) -> int:
    """Return the largest `training.threads` of the cells to do: sections may differ."""
    return max((status.cell.training.threads for status in plan.to_do), default=1)


def cells_to_train(plan: Plan) -> list[Cell]:
    return [status.cell for status in plan.to_do if status.action != "evaluate"]


def time_encoders(plan: Plan) -> None:
    """Prepare the tokens, as a run does, and time a few steps of each encoder on this machine."""
    cells, where = [status.cell for status in plan.to_do], slots_for(plan)
    for cell in {plan.token_key(cell): cell for cell in cells}.values():
        tokens.prepare_tokens(cell.data, cell.encoder, home(), cell.train_sample_seed())
    probe.calibrate(cells, where.train, plan.experiment.speed, device(where))


@dataclass(frozen=True)
class Prediction:
    """Predicted time and memory of the cells to do. `wall_seconds` is the local engine's time, `slots` cells at a time,
    longest first; `around_seconds` is the time of the last run outside its cells; `device_seconds` sums over all cores
    or all GPUs. Memory is that of the largest cells."""

    wall_seconds: float | None
    around_seconds: float | None
    slots: int
    device: str
    device_seconds: float | None
    memory_bytes: int
    memory_bytes_together: int
    finished: int  # cells predicted from finished cells
    calibrated: int  # cells predicted from timed steps alone
    evaluation_known: bool
    lengths_known: bool


def predict(plan: Plan) -> Prediction:
    where = slots_for(plan)
    fit, cells = cost_estimator(plan.experiment, where), cells_to_train(plan)
    bases = Counter(fit.basis(cell) for cell in cells)
    evaluation_known = all(fit.evaluation_seconds(status.cell) is not None for status in plan.to_do)
    time_known = not bases[""] if cells else evaluation_known
    slots, measuring = len(where.train), len(where.evaluate) if where.on_gpu else 0
    parts, stores = planned_times(plan, in_order(cells, fit), fit)
    sizes = sorted(map(fit.memory, cells))
    return Prediction(
        wall_seconds=makespan(stores, slots) + makespan(parts, slots, measuring) if time_known else None,
        around_seconds=last_overhead(),
        slots=slots,
        device=device(where),
        device_seconds=sum(busy_seconds(part, where.on_gpu) for part in (*stores, *parts)) if time_known else None,
        memory_bytes=max(sizes, default=0),
        memory_bytes_together=sum(sizes[-slots:]),
        finished=bases["finished"],
        calibrated=bases["calibration"],
        evaluation_known=evaluation_known,
        lengths_known=all(fit.texts(cell).counted for cell in cells),
    )


def planned_times(plan: Plan, cells: list[Cell], fit: CostEstimator) -> tuple[list[CellTime], list[CellTime]]:
    """Return times of cells in starting order, then of cells only evaluated; and times of the stores made first."""
    parts = [
        CellTime(
            fit.seconds(cell) or 0.0,
            fit.evaluation_seconds(cell) or 0.0,
            cell.training.processes,
            cell.training.threads,
        )
        for cell in cells
    ]
    measured = (status.cell for status in plan.to_do if status.action == "evaluate")
    only = [CellTime(0.0, fit.evaluation_seconds(cell) or 0.0, threads=cell.training.threads) for cell in measured]
    made = [
        CellTime(fit.prefix_seconds(cell, split), 0.0, threads=cell.training.threads)
        for cell, _, split in stores_to_make(plan)
    ]
    return parts + only, made


def stores_to_make(plan: Plan) -> list[tuple[Cell, Speed, str]]:
    """Return each store of frozen-block outputs that the cells to train will read, once. With `evaluation.test`, the
    first cell makes the store of the test split."""
    larger = plan.experiment.evaluation.test is not None
    splits = tuple(split for split in plan.experiment.evaluation.embedded() if not (larger and split == "test"))
    read = (
        store
        for cell in cells_to_train(plan)
        for store in frozen_readers.stores_read(cell, plan.experiment.speed, splits)
    )
    return list({frozen_readers.store_identity(*store, plan.token_key(store[0])): store for store in read}.values())


def busy_seconds(part: CellTime, on_gpu: bool) -> float:
    """Return GPU seconds (evaluation uses no GPU), or core seconds without a GPU."""
    return part.train * part.devices if on_gpu else (part.train * part.devices + part.evaluate) * part.threads


def forecast_dict(plan: Plan, outlook: PreflightReport) -> dict[str, Any]:
    fit = cost_estimator(plan.experiment, slots_for(plan))
    todo = {status.id for status in plan.to_do if status.action != "evaluate"}
    return {
        "experiment": plan.experiment.name,
        "counts": dict(Counter(status.action for status in plan.statuses.values())),
        "estimated_seconds": estimate.total_seconds(cells_to_train(plan), fit),
        "predicted": asdict(predict(plan)),
        "warnings": [*outlook.warnings],
        "errors": [*outlook.errors],
        "cells": [
            {"id": status.id, "name": plan.name(status.cell), "action": status.action, "why": status.why}
            | (
                {"predicted": fit.predicted(status.cell), "rests_on": fit.basis(status.cell)}
                if status.id in todo
                else {}
            )
            for status in plan.statuses.values()
        ],
    }


def print_forecast(plan: Plan, outlook: PreflightReport) -> None:
    cell_lines = [
        f"{s.action:8} {s.id}  {plan.name(s.cell)}{f' ({s.why})' if s.why else ''}" for s in plan.statuses.values()
    ]
    say("\n".join(cell_lines))
    counts = Counter(status.action for status in plan.statuses.values())
    listed = ", ".join(
        f"{count} to {action}" if action != "stale" else f"{count} stale" for action, count in counts.items()
    )
    say(f"{len(plan.statuses)} cells: {listed}")
    if plan.to_do:
        for line in (*prediction_lines(predict(plan)), *(f"warning: {warning}" for warning in outlook.warnings)):
            say(line)


def prediction_lines(prediction: Prediction) -> list[str]:
    """Describe the prediction and its evidence."""
    unit = "GPU" if prediction.device == "gpu" else "core"
    together = f"{prediction.slots} at a time" if prediction.slots > 1 else "one after another"
    largest, all_together = human_bytes(prediction.memory_bytes), human_bytes(prediction.memory_bytes_together)
    memory = f"memory: {largest} for the largest cell, {all_together} in total"
    if prediction.wall_seconds is None or prediction.device_seconds is None:
        return [
            "time: unknown until a cell with this encoder has finished; `ablate plan FILE --calibrate` measures it now",
            memory,
        ]
    more = prediction.around_seconds
    beside = "without startup and report" if more is None else f"including {human_span(more)} for startup and report"
    wall = human_span(prediction.wall_seconds + (more or 0.0))
    time = f"time: {wall}, {together}, {beside}; {human_span(prediction.device_seconds)} of {unit} time"
    return [time, memory, f"estimated from {', '.join(evidence(prediction))}"]


def evidence(prediction: Prediction) -> list[str]:
    bases = [f"finished cells (for {prediction.finished} cells)"] if prediction.finished else []
    bases += [f"timed steps (for {prediction.calibrated} cells)"] if prediction.calibrated else []
    bases += [] if prediction.evaluation_known else ["zero time for evaluation, which is unknown"]
    return bases + (
        [] if prediction.lengths_known else ["texts of data.max_length tokens, since the data is not prepared yet"]
    )


def human_span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def human_bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


AROUND = Path("cache") / "around.json"


def note_overhead(cells: float) -> None:
    """Store the seconds that this run spent outside its cells, to predict the next run of this home."""
    age = time.time() - psutil.Process().create_time()
    with suppress(OSError):  # a full disk is reported elsewhere
        store.write_json(home() / AROUND, {"seconds": round(max(0.0, age - cells), 1)})


def last_overhead() -> float | None:
    try:
        return float(store.read_json(home() / AROUND)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
