"""`ablate plan`: what a run would do, its problems, its time and its memory. Imports no torch."""

import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from contrastive.config.cell import Cell
from contrastive.config.experiment import Resources
from contrastive.data import tokens
from contrastive.grid.estimate import CellTime, CostEstimator, in_order, makespan
from contrastive.grid.plan import Plan
from contrastive.grid.preflight import PreflightReport, preflight
from contrastive.runs import store
from contrastive.training import probe
from flows.terminal import human_span, say
from tasks.engines import EngineName
from tasks.engines.local import SlotEnvironments, devices_and_cores

OVERHEAD = Path("cache") / "around.json"


def resources_of(plan: Plan, gpus_per_cell: float | None) -> Resources:
    """Return the resources of the file, with the command's share of a GPU if there is one."""
    resources = plan.experiment.resources
    return resources if gpus_per_cell is None else resources.model_copy(update={"gpus_per_cell": gpus_per_cell})


def preflight_report(plan: Plan, gpus_per_cell: float | None = None, engine: EngineName = "local") -> PreflightReport:
    """Return errors and warnings known before a run. `gpus_per_cell` is the command's option: without a GPU it is an
    error, and the file's setting a warning. On Ray the devices are unknown at this point, so a GPU is assumed."""
    resources = resources_of(plan, gpus_per_cell)
    share, set_in_file = resources.gpus_per_cell, "gpus_per_cell" in plan.experiment.resources.model_fields_set
    on_gpu = engine == "ray" or devices_and_cores(resources, plan.most_threads).on_gpu
    found = preflight(plan, on_gpu=on_gpu)
    if engine == "inline" and gpus_per_cell is not None:
        found.errors.append("--gpus-per-cell has no effect with --engine inline: leave it out, or take another engine")
    elif share and not on_gpu and gpus_per_cell is not None:
        found.errors.append(f"--gpus-per-cell is {share:g}, but this machine has no GPU: leave it out or set it to 0")
    elif share and not on_gpu and set_in_file:
        found.warnings.append(
            f"resources.gpus_per_cell is {share:g}, but this machine has no GPU: cells train on the CPU"
        )
    return found


def note_overhead(cells: float) -> None:
    """Store the seconds that this run spent outside its cells, to predict the next run of this home."""
    age = time.time() - psutil.Process().create_time()
    with suppress(OSError):  # a full disk is reported elsewhere
        store.write_json(store.home() / OVERHEAD, {"seconds": round(max(0.0, age - cells), 1)})


def last_overhead() -> float | None:
    try:
        return float(store.read_json(store.home() / OVERHEAD)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def slots_for(plan: Plan) -> SlotEnvironments:
    return devices_and_cores(plan.experiment.resources, plan.most_threads)


def cost_estimator(plan: Plan) -> CostEstimator:
    """Return the estimator of time and memory on this machine."""
    return CostEstimator(plan.experiment.evaluation, plan.experiment.speed, on_gpu=slots_for(plan).on_gpu)


def time_encoders(plan: Plan) -> None:
    """Prepare the tokens, as a run does, and time a few steps of each encoder on this machine."""
    cells, where = [status.cell for status in plan.to_do], slots_for(plan)
    for cell in {plan.token_key(cell): cell for cell in cells}.values():
        tokens.prepare_tokens(cell.data, cell.encoder, store.home(), cell.train_sample_seed())
    probe.calibrate(cells, where.train, plan.experiment.speed, on_gpu=where.on_gpu)


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
    fit, where, cells = cost_estimator(plan), slots_for(plan), plan.to_train
    bases = Counter(fit.basis(cell) for cell in cells)
    evaluation_known = all(fit.evaluation_seconds(status.cell) is not None for status in plan.to_do)
    time_known = not bases[""] if cells else evaluation_known
    slots, evaluators = len(where.train), len(where.evaluate) if where.on_gpu else 0
    times = planned_times(plan, fit)
    sizes = sorted(map(fit.memory, cells))
    return Prediction(
        wall_seconds=makespan(times, slots, evaluators) if time_known else None,
        around_seconds=last_overhead(),
        slots=slots,
        device="gpu" if where.on_gpu else "cpu",
        device_seconds=sum(busy_seconds(each, where.on_gpu) for each in times) if time_known else None,
        memory_bytes=max(sizes, default=0),
        memory_bytes_together=sum(sizes[-slots:]),
        finished=bases["finished"],
        calibrated=bases["calibration"],
        evaluation_known=evaluation_known,
        lengths_known=all(fit.texts(cell).counted for cell in cells),
    )


def planned_times(plan: Plan, fit: CostEstimator) -> list[CellTime]:
    """Return the times of the cells to train in starting order, then of the cells that are only evaluated."""

    def time_of(cell: Cell, train: float) -> CellTime:
        return CellTime(train, fit.evaluation_seconds(cell) or 0.0, cell.training.processes, cell.training.threads)

    evaluated = [status.cell for status in plan.to_do if status.action == "evaluate"]
    trained = [time_of(cell, fit.seconds(cell) or 0.0) for cell in in_order(plan.to_train, fit)]
    return trained + [time_of(cell, 0.0)._replace(devices=1) for cell in evaluated]


def busy_seconds(cell: CellTime, on_gpu: bool) -> float:
    """Return GPU seconds (evaluation uses no GPU), or core seconds without a GPU."""
    return cell.train * cell.devices if on_gpu else (cell.train * cell.devices + cell.evaluate) * cell.threads


def forecast_dict(plan: Plan, outlook: PreflightReport) -> dict[str, Any]:
    fit = cost_estimator(plan)
    return {
        "experiment": plan.experiment.name,
        "counts": dict(Counter(status.action for status in plan.statuses.values())),
        "estimated_seconds": fit.total_seconds(plan.to_train),
        "predicted": asdict(predict(plan)),
        "warnings": [*outlook.warnings],
        "errors": [*outlook.errors],
        "cells": [
            {"id": status.id, "name": plan.name(status.cell), "action": status.action, "why": status.why}
            | ({"predicted": fit.predicted(status.cell), "rests_on": fit.basis(status.cell)} if status.trains else {})
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
    largest, total = prediction.memory_bytes / 2**30, prediction.memory_bytes_together / 2**30
    memory = f"memory: {largest:.1f} GiB for the largest cell, {total:.1f} GiB in total"
    if prediction.wall_seconds is None or prediction.device_seconds is None:
        return [
            "time: unknown until a cell with this encoder has finished; `ablate plan FILE --calibrate` measures it now",
            memory,
        ]
    more = prediction.around_seconds
    beside = "without startup and report" if more is None else f"including {human_span(more)} for startup and report"
    wall = human_span(prediction.wall_seconds + (more or 0.0))
    took = f"time: {wall}, {together}, {beside}; {human_span(prediction.device_seconds)} of {unit} time"
    return [took, memory, f"estimated from {', '.join(evidence(prediction))}"]


def evidence(prediction: Prediction) -> list[str]:
    bases = [f"finished cells (for {prediction.finished} cells)"] if prediction.finished else []
    bases += [f"timed steps (for {prediction.calibrated} cells)"] if prediction.calibrated else []
    bases += [] if prediction.evaluation_known else ["zero time for evaluation, which is unknown"]
    return bases + (
        [] if prediction.lengths_known else ["texts of data.max_length tokens, since the data is not prepared yet"]
    )
