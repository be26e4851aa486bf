"""Start a flow for a command: check what can be checked before Prefect is imported, which takes a second, and begin a
Prefect server beside the import."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from contrastive.errors import UserError
from contrastive.grid.choose import candidates, settled
from contrastive.grid.load import load_experiment
from contrastive.grid.plan import declare_plan, make_plan
from contrastive.runs import plugins, store
from flows.serve import temporary_server
from flows.terminal import SeedOptions, check_seed_options, errors_exit_with, say, tell
from tasks.engines import EngineName

SKIP = 125  # the exit code at which `git bisect run` skips a commit


def run_experiment(
    experiment: Path, engine: EngineName, gpus_per_cell: float | None, seeds: SeedOptions, trust: Sequence[str] = ()
) -> None:
    """Run what is missing of an experiment. If nothing is, no flow starts. `trust`: digests of the user's own code."""
    tell(f"reading {experiment}")
    from flows.forecast import preflight_report
    from flows.upkeep import current_report

    check_seed_options(*seeds)
    resolved = load_experiment(experiment)
    ask_for_trust(resolved.experiment.plugins, trust)
    found, until_decided = settled(resolved), seeds[0]
    planned = make_plan(found or candidates(resolved.experiment))
    preflight_report(planned, gpus_per_cell, engine).refuse()
    if found and not until_decided and (shown := current_report(planned)):
        return say(f"{len(planned.statuses)} cells, all finished before\nreport: {shown}")
    from contrastive.training.processes import start_fork_server

    temporary_server.before_import()
    if engine == "local":
        start_fork_server()
    from flows.ablation_grid import ablation_grid
    from tasks.engines import Stopped

    try:
        with temporary_server.server():
            say(f"report: {ablation_grid(str(experiment), engine, gpus_per_cell, *seeds)}")
    except Stopped as stopped:
        raise KeyboardInterrupt from stopped


def print_or_submit(experiment: Path, trust: Sequence[str], submit: bool) -> None:
    """Submit the missing cells of an experiment to Slurm, or only print the script."""
    from flows.forecast import preflight_report
    from tasks.engines.on_slurm import Batch, failed_at

    resolved = load_experiment(experiment)
    ask_for_trust(resolved.experiment.plugins, trust)
    plan = make_plan(settled(resolved) or candidates(resolved.experiment))
    preflight_report(plan, engine="slurm").refuse()
    batch = Batch(experiment.absolute(), plan.experiment.name, plan.experiment.resources.slurm)
    if not submit:
        return say(batch.script(max(1, len(plan.to_do))))
    if not plan.to_do:
        return say("no cell is left; `ablate run` writes the report")
    declare_plan(plan)
    batch.list_cells({status.id: failed_at(store.run_folder(status.id)) for status in plan.to_do})
    jobs = batch.jobs()
    say(f"{sum(jobs.values())} jobs of it are there already" if jobs else batch.submit(len(plan.to_do)))
    say(f"`ablate run {experiment} --engine slurm` looks in, and writes the report")


def ask_for_trust(copies: Sequence[str], trust: Sequence[str]) -> None:
    """Allow the files of users that `trust` names; ask in a terminal for others."""
    for copy in copies:
        if plugins.digest(copy) in trust:
            plugins.allow([plugins.digest(copy)])
        elif plugins.digest(copy) not in plugins.allowed() and sys.stdin.isatty():
            say(f"{Path(copy).name} is code that runs here, with all that you may do: {plugins.path_of(copy)}")
            if input("Run it, now and later? [y/N] ").strip().lower() in ("y", "yes"):
                plugins.allow([plugins.digest(copy)])
    plugins.refuse_others(copies)


def measure_night(panel: Path, settings: Path, engine: EngineName, against: str) -> None:
    """Measure a night, or compare with a commit: then what cannot be measured is skipped by `git bisect run`."""
    with errors_exit_with(SKIP) if against else nullcontext():
        if missing := [path for path in (panel, settings) if not path.exists()]:
            raise UserError(f"there is no {missing[0]}; name both files: ablate nightly PANEL --settings FILE")
        tell(f"reading {panel}")
        from flows.panel import commit_of, read_settings

        read_settings(settings)  # report mistakes in the files or the commit before anything starts
        if against:
            commit_of(against)
        temporary_server.before_import()
        from flows.nightly import nightly

        with temporary_server.server():
            say(nightly(str(panel), str(settings), engine, against))


def acknowledge_night(reason: str) -> None:
    from tasks import nights

    say(f"acknowledged: {reason}\nreport: {nights.acknowledge(reason)}")
