"""`ablate plan`: what a run would do, its problems and its time. Imports no torch."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contrastive.config.experiment import Resources
from contrastive.grid.choose import candidates, first_values, settled
from contrastive.grid.estimate import CostEstimator, in_order, makespan
from contrastive.grid.frozen_readers import guides_to_make
from contrastive.grid.load import load_experiment
from contrastive.grid.plan import Plan, make_plan
from contrastive.grid.preflight import PreflightReport, preflight
from contrastive.runs import plugins
from flows.terminal import say
from reports.markdown import duration
from tasks.engines import EngineName
from tasks.engines.local import devices_and_cores


def show_plan(experiment: Path, as_json: bool) -> None:
    """Print what a run would do; raise UserError that lists the errors of the plan."""
    resolved = load_experiment(experiment)
    found = settled(resolved)
    plan = make_plan(found or candidates(resolved.experiment))
    then = None if found else make_plan(first_values(resolved.experiment))
    problems = preflight_report(plan)
    if as_json:
        stages = forecast_dict(plan, problems) | ({"then": forecast_dict(then, problems)} if then else {})
        say(json.dumps(stages, ensure_ascii=False, indent=1))
    problems.refuse()
    if as_json:
        return
    for row in found.chosen if found else ():
        say(f"{'chosen' if row.tried else 'given':8} {row.chosen}  {row.row}, {row.section}")
    print_forecast(plan, problems)
    if then:
        say(f"then {len(then.statuses)} cells with the chosen values, trained ones reused")
    if then and then.to_train:
        say(time_line(then, CostEstimator(then.experiment.evaluation, then.experiment.speed)))


def resources_of(plan: Plan, gpus_per_cell: float | None) -> Resources:
    """Return the resources of the file, with the command's share of a GPU if there is one."""
    resources = plan.experiment.resources
    return resources if gpus_per_cell is None else resources.model_copy(update={"gpus_per_cell": gpus_per_cell})


def preflight_report(plan: Plan, gpus_per_cell: float | None = None, engine: EngineName = "local") -> PreflightReport:
    """Return errors and warnings known before a run. `gpus_per_cell` is the command's option: without a GPU it is an
    error, and the file's setting a warning. On Ray the devices are unknown at this point, so a GPU is assumed."""
    resources = resources_of(plan, gpus_per_cell)
    share, set_in_file = resources.gpus_per_cell, "gpus_per_cell" in plan.experiment.resources.model_fields_set
    on_gpu = engine in ("ray", "slurm") or devices_and_cores(resources, plan.most_threads).on_gpu
    problems = preflight(plan, on_gpu=on_gpu)
    if engine in ("inline", "slurm") and gpus_per_cell is not None:
        problems.errors.append(f"--gpus-per-cell has no effect with --engine {engine}: leave it out")
    elif share and not on_gpu:
        wrong = f"is {share:g}, but this machine has no GPU"
        if gpus_per_cell is not None:
            problems.errors.append(f"--gpus-per-cell {wrong}: leave it out or set it to 0")
        elif set_in_file:
            problems.warnings.append(f"resources.gpus_per_cell {wrong}: cells train on the CPU")
    return problems


def predicted_seconds(plan: Plan, fit: CostEstimator) -> float | None:
    """Return the local engine's time for the cells to train, without startup and report; None if it is unknown."""
    cells = in_order(plan.to_train, fit)
    times = [(seconds, cell.training.processes) for cell in cells if (seconds := fit.seconds(cell)) is not None]
    slots = len(devices_and_cores(plan.experiment.resources, plan.most_threads).train)
    if len(times) < len(cells):
        return None
    return makespan(times, slots) + fit.guide_seconds(guides_to_make(cells, plan.token_key))


def forecast_dict(plan: Plan, problems: PreflightReport) -> dict[str, Any]:
    fit = CostEstimator(plan.experiment.evaluation, plan.experiment.speed)
    return {
        "experiment": plan.experiment.name,
        "counts": Counter(status.action for status in plan.statuses.values()),
        "predicted_seconds": predicted_seconds(plan, fit),
        **asdict(problems),
        "cells": [
            {"id": status.id, "name": plan.name(status.cell), "action": status.action, "why": status.why}
            | ({"predicted_seconds": fit.seconds(status.cell)} if status.trains else {})
            for status in plan.statuses.values()
        ],
    }


def print_forecast(plan: Plan, problems: PreflightReport) -> None:
    for status in plan.statuses.values():
        say(f"{status.action:8} {status.id}  {plan.name(status.cell)}{f' ({status.why})' if status.why else ''}")
    counts = Counter(status.action for status in plan.statuses.values())
    listed = (f"{count} stale" if action == "stale" else f"{count} to {action}" for action, count in counts.items())
    say(f"{len(plan.statuses)} cells: {', '.join(listed)}")
    if plan.to_train:
        say(time_line(plan, CostEstimator(plan.experiment.evaluation, plan.experiment.speed)))
    if unknown := [copy for copy in plan.experiment.plugins if plugins.digest(copy) not in plugins.allowed()]:
        say(f"{', '.join(copy.partition('/')[2] for copy in unknown)}: not allowed to run yet; `ablate run` asks")
    if plan.to_do:
        for warning in problems.warnings:
            say(f"warning: {warning}")


def time_line(plan: Plan, fit: CostEstimator) -> str:
    """Describe the predicted time and its evidence."""
    seconds = predicted_seconds(plan, fit)
    if seconds is None:
        return "time: unknown until a cell with this encoder has finished"
    slots = len(devices_and_cores(plan.experiment.resources, plan.most_threads).train)
    together = f"{slots} at a time" if slots > 1 else "one after another"
    evidence = "finished cells"
    if not all(fit.texts(cell).counted for cell in plan.to_train):
        evidence += ", texts of data.max_length tokens, since the data is not prepared yet"
    spent = f"time: {duration(seconds)}, {together}, without startup and report"
    return f"{spent}; estimated from {evidence}"
