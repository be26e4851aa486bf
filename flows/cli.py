"""The command line `ablate`. Heavy imports are inside the commands, so that --help answers at once."""

import gc
import json
import os
import sys
import traceback
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.exceptions import TyperException

from contrastive.errors import UserError
from flows.terminal import (
    MOST_SEEDS,
    check_study,
    complain,
    escape_logs,
    missing_extra,
    names_in_panel,
    quick_imports,
    refuse_without_effect,
    require_training,
    say,
    tell,
)

app = typer.Typer(
    help="Benchmark contrastive learning on text: from an experiment file to a report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ExperimentFile = Annotated[
    Path, typer.Argument(metavar="EXPERIMENT", help="Experiment file, e.g. configs/quickstart.yaml.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MaxSeeds = Annotated[
    int | None,
    typer.Option(metavar="N", min=2, max=MOST_SEEDS, help="Maximum number of seeds for --until-decided (default 20)."),
]
Budget = Annotated[
    str | None, typer.Option(metavar="TIME", help="Add no more seeds after this time, e.g. 45s, 90m, 2h.")
]
GpuShare = Annotated[
    float | None,
    typer.Option(metavar="SHARE", min=0, max=1, help="Share of a GPU per cell: 0.5 packs two; 0 trains on the CPU."),
]
SKIP = 125  # the exit code at which `git bisect run` skips a commit
MORE = "More commands"
SHIPPED = Path(__file__).parent.parent / "configs"
EngineOption = Literal["local", "ray", "inline"]


@app.command()
def plan(
    experiment: ExperimentFile,
    as_json: AsJson = False,
    to_decide: Annotated[
        bool, typer.Option("--to-decide", help="List what would decide each undecided comparison.")
    ] = False,
) -> None:
    """Show what a run would do and how long it takes.

    Each cell is reused, evaluated again, run, or stale: then it runs again, and the line says what has changed.
    """
    require_training()
    from contrastive.grid.load import load_experiment
    from contrastive.grid.plan import make_plan
    from flows.forecast import forecast_dict, preflight_report, print_forecast

    planned = make_plan(load_experiment(experiment))
    problems, wanted = preflight_report(planned), list[str]()
    if to_decide and not problems.errors:
        from flows.study import lines_to_decide

        wanted = [*lines_to_decide(planned)]
    if as_json:
        document = forecast_dict(planned, problems) | ({"to_decide": wanted} if to_decide else {})
        say(json.dumps(document, ensure_ascii=False, indent=1))
    problems.refuse()
    if not as_json:
        print_forecast(planned, problems)
        if to_decide:
            say("\n".join(wanted))


@app.command()
def run(
    experiment: ExperimentFile,
    engine: Annotated[
        EngineOption,
        typer.Option(metavar="ENGINE", help="local; ray: the cluster at RAY_ADDRESS; inline: one by one, to debug."),
    ] = "local",
    gpus_per_cell: GpuShare = None,
    keep_stale: Annotated[
        bool, typer.Option(help="Reuse results that are stale only because the code was edited.")
    ] = False,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="Start with two seeds and add more where undecided.")
    ] = False,
    max_seeds: MaxSeeds = None,
    budget: Budget = None,
    regardless: Annotated[
        bool, typer.Option("--regardless", help="With --until-decided: add seeds also where they will hardly decide.")
    ] = False,
) -> None:
    """Train and evaluate what is missing, then write the report."""
    require_training()
    tell(f"reading {experiment}")
    from contrastive.grid.load import load_experiment
    from contrastive.grid.plan import make_plan
    from flows.forecast import preflight_report
    from flows.upkeep import current_report, rewritten

    check_study(until_decided, max_seeds, budget, regardless)
    planned = make_plan(load_experiment(experiment))
    preflight_report(planned, gpus_per_cell, engine).refuse()
    if not until_decided and (shown := current_report(planned) or rewritten(planned)):
        return say(f"{len(planned.statuses)} cells, all finished before\nreport: {shown}")
    from contrastive.training.processes import start_fork_server
    from flows.serve import temporary_server

    temporary_server.before_import()
    if engine == "local":
        start_fork_server()
    with quick_imports():
        from flows.ablation_grid import GridFailed, ablation_grid
        from tasks.engines import Stopped

    try:
        with temporary_server.server():
            study = until_decided, max_seeds, budget or "", regardless
            say(f"report: {ablation_grid(str(experiment), engine, keep_stale, gpus_per_cell, *study)}")
    except GridFailed as failed:
        fail(str(failed), 1)
    except Stopped as stopped:
        raise KeyboardInterrupt from stopped


WITH_TABLE = "With --from"  # options that only a table takes
TableOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="TABLE",
        help="Report another program's results, one line a run: a CSV, TSV, Parquet or JSON lines file, or "
        "mlflow:EXPERIMENT.",
    ),
]


def table_option(metavar: str, text: str) -> typer.models.OptionInfo:
    """Return an option that only a table (--from) takes."""
    option: typer.models.OptionInfo = typer.Option(metavar=metavar, help=text, rich_help_panel=WITH_TABLE)
    return option


@app.command()
def report(
    context: typer.Context,
    experiment: Annotated[
        Path | None, typer.Argument(metavar="[EXPERIMENT]", help="Experiment file, e.g. configs/quickstart.yaml.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Also write LaTeX tables and PDF figures.")] = False,
    source: TableOption = "",
    row: Annotated[list[str] | None, table_option("COLUMN", "Column that names rows; may be repeated.")] = None,
    seed: Annotated[str | None, table_option("COLUMN", "Column of seeds.")] = None,
    score: Annotated[list[str] | None, table_option("COLUMN", "Column of a score; may be repeated.")] = None,
    data: Annotated[str | None, table_option("COLUMN", "Column of data sets.")] = None,
    metric: Annotated[str | None, table_option("COLUMN", "Column of names of scores, if each line has one.")] = None,
    value: Annotated[str | None, table_option("COLUMN", "Column of their values.")] = None,
    baseline: Annotated[str | None, table_option("ROW", "Row that the others are compared with.")] = None,
    margin: Annotated[list[str] | None, table_option("SCORE=SIZE", "Difference that is too small to matter.")] = None,
    lower: Annotated[list[str] | None, table_option("SCORE", "A score that is better if lower.")] = None,
    higher: Annotated[list[str] | None, table_option("SCORE", "A score that is better if higher.")] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Pair equal numbers of runs, as seeds.", rich_help_panel=WITH_TABLE)
    ] = False,
) -> None:
    """Rebuild a report from MLflow, or report another program's table.

    Labels, notes and shown scores of the file are applied; rows, seeds and margins must be those that ran.

    Give an experiment file, or a table with --from.
    """
    if (experiment is None) == (not source):
        return fail("give an experiment file, or --from TABLE")
    if experiment is None:
        with quick_imports():
            from flows.tables import report_table

        refuse_without_effect(context, ["paper"], "with --from", "give an experiment file")
        from ablate.columns import Columns

        given = Columns(tuple(row or ()), tuple(score or ()), seed, data, metric, value, paired)
        return report_table(source, given, baseline, margin or [], lower or [], higher or [])
    refuse_without_effect(context, names_in_panel(context, WITH_TABLE), "without --from", "name a table with --from")
    report_experiment(experiment, paper)


def report_experiment(experiment: Path, paper: bool) -> None:
    tell(f"reading the results of {experiment}")
    from flows.upkeep import apply_file
    from tasks.report import build_report, paper_folder

    name = apply_file(experiment)
    built = build_report(name, paper)
    tell(built.finding)
    say(f"report: {built.path}")
    if paper:
        say(f"LaTeX and PDF: {paper_folder(name)}")


judging = typer.Typer(subcommand_metavar="[ledger FOLDER]")
app.add_typer(judging, name="judge", rich_help_panel=MORE)
Command = typer.Option(metavar="COMMAND", help="Shell command with {seed} in it.")
Metric = Annotated[str, typer.Option(metavar="REGEX", help="Finds the number: 'loss: ([-+0-9.e]+)'.")]
Lower = Annotated[bool | None, typer.Option("--lower/--higher", help="Whether lower or higher is better.")]
RunTimeout = Annotated[str, typer.Option(metavar="TIME", help="End a run that takes longer, e.g. 90s, 5m.")]
JudgeEngine = Annotated[Literal["local", "ray"], typer.Option(metavar="ENGINE", help="local, or ray.")]


@judging.callback(invoke_without_command=True)
def judge(
    context: typer.Context,
    baseline: Annotated[str, Command] = "",
    candidate: Annotated[str, Command] = "",
    metric: Metric = "",
    lower: Lower = None,
    margin: Annotated[
        float | None, typer.Option(metavar="SIZE", help="Difference too small to matter: decides `equivalent`.")
    ] = None,
    max_runs: Annotated[int, typer.Option(metavar="N", help="Most runs of both commands.")] = 16,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Begin no run after this time, e.g. 90m, 2h.")] = "",
    timeout: RunTimeout = "",
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs at a time.")] = 1,
    engine: JudgeEngine = "local",
    folder: Annotated[Path | None, typer.Option(help="Keep results here, not below the home.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove the runs that are kept, and begin anew.")] = False,
    gate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the verdict as Markdown; exit with 1 only if worse.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Decide which of two training commands is better.

    Both run at several seeds until it is decided. Exit code 0: the candidate is better; 1: worse or equivalent;
    2: undecided; 3: not judged, such as a run that failed twice. `ablate judge ledger` judges many candidates.
    """
    if context.invoked_subcommand:
        return refuse_without_effect(context, context.params, "before `ledger`", "write options after it")
    if not (baseline and candidate and metric):
        raise UserError("--baseline, --candidate and --metric are needed, or `ablate judge ledger FOLDER`")
    from ablate.commands import RunFailed
    from ablate.duel import Duel
    from ablate.metric import lower_is_better
    from flows.judging import RunOptions, judge_pair, show_failure, show_verdict

    duel = Duel(baseline, candidate, metric, lower_is_better(metric, lower), margin, max_runs)
    if gate:
        gate.write_text("**Not judged**\n", encoding="utf-8")  # no verdict of an earlier call
    try:
        outcome = judge_pair(duel, RunOptions(engine, timeout, budget, jobs), folder, fresh)
    except RunFailed as failed:
        raise typer.Exit(show_failure(str(failed), as_json, gate)) from None
    raise typer.Exit(show_verdict(duel, outcome, as_json, gate))


@judging.command("ledger")
def judge_ledger(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the ledger.")],
    candidate: Annotated[str, Command] = "",
    baseline: Annotated[str, Command] = "",
    metric: Metric = "",
    lower: Lower = None,
    timeout: RunTimeout = "",
    engine: JudgeEngine = "local",
    as_json: AsJson = False,
) -> None:
    """Judge one proposal of many; without --candidate, show what was tried and kept.

    A candidate is kept only if it beats the baseline, at an error shared by all proposals. Exit code 0: kept;
    1: dropped; 3: it failed twice; 4: the baseline failed twice; 5: another error.
    """
    from flows.judging import RunOptions, judge_proposal, show_ledger

    if candidate:
        options = RunOptions(engine, timeout)
        raise typer.Exit(judge_proposal(folder, candidate, baseline, metric, lower, options, as_json))
    if baseline or metric or timeout or lower is not None or engine != "local":
        raise UserError("nothing is judged without --candidate: name one, or give the folder alone to show it")
    show_ledger(folder, as_json)


@app.command()
def show(cell: Annotated[str, typer.Argument(metavar="CELL", help="Cell id or its first characters.")]) -> None:
    """Show the settings, state, scores and provenance of a cell."""
    from flows.show import show as show_cell

    show_cell(cell)


@app.command(rich_help_panel=MORE)
def cell(
    cell: Annotated[str, typer.Argument(metavar="CELL", help="Id of a started cell, or its first characters.")],
    folder: Annotated[Path, typer.Option(help="Output folder.")] = Path("by-hand"),
) -> None:
    """Print the plain command that trains one cell by hand."""
    from flows.show import by_hand

    say(by_hand(cell, folder))


@app.command(rich_help_panel=MORE)
def sync(experiment: ExperimentFile) -> None:
    """Bring MLflow up to date with the run folders.

    Needed after a tracking failure, and on a new tracking server.
    """
    tell(f"reading the run folders of {experiment}")
    from contrastive.grid.load import load_experiment
    from flows.study import plan_so_far
    from flows.upkeep import update_mlflow

    say(update_mlflow(*plan_so_far(load_experiment(experiment), records=True)))


@app.command(rich_help_panel=MORE)
def audit(
    experiment: ExperimentFile,
    mend: Annotated[bool, typer.Option("--mend", help="Reset damaged cells and correct MLflow.")] = False,
) -> None:
    """Check run folders, MLflow and the report for damage or drift."""
    tell(f"checking the results of {experiment}")
    from flows.upkeep import check_results

    if problem := check_results(experiment, mend):
        fail(problem, 1)


@app.command(rich_help_panel=MORE)
def nightly(
    context: typer.Context,
    panel: Annotated[Path, typer.Argument(metavar="PANEL", help="Experiment file.")] = SHIPPED / "nightly.yaml",
    settings: Annotated[Path, typer.Option(help="Settings of the verdict.")] = SHIPPED / "nightly" / "verdict.yaml",
    engine: Annotated[EngineOption, typer.Option(help="Where cells run, as for `ablate run`.")] = "local",
    against: Annotated[
        str, typer.Option(metavar="COMMIT", help="Compare with this commit instead (for `git bisect run`).")
    ] = "",
    acknowledge: Annotated[
        str, typer.Option(metavar="REASON", help="Accept the last night: compare later ones with it.")
    ] = "",
) -> None:
    """Measure a fixed panel again and compare it with earlier nights."""
    if acknowledge:
        from tasks import nights

        measuring = ("panel", "settings", "engine", "against")
        refuse_without_effect(context, measuring, "with --acknowledge", "measure a night without --acknowledge")

        return say(f"acknowledged: {acknowledge}\nreport: {nights.acknowledge(acknowledge)}")
    try:
        measure_night(panel, settings, engine, against)
    except typer.Exit:
        raise
    except Exception as error:
        if not against:
            raise
        fail(f"{type(error).__name__}: {error}", SKIP)


def measure_night(panel: Path, settings: Path, engine: EngineOption, against: str) -> None:
    from flows.serve.servers import require_checkout

    require_checkout("nightly")
    tell(f"reading {panel}")
    from flows.panel import commit_of, read_settings

    read_settings(settings, panel)  # report mistakes in the files or the commit before anything starts
    if against:
        commit_of(against)
    from flows.serve import temporary_server

    temporary_server.before_import()
    from flows.nightly import NightFailed
    from flows.nightly import nightly as flow

    try:
        with temporary_server.server():
            say(flow(str(panel), str(settings), engine, against))
    except NightFailed as failed:
        fail(str(failed), 1)


@app.command(rich_help_panel=MORE)
def doctor(
    gpu: Annotated[bool, typer.Option("--gpu", help="Also train small cells on the GPU, for about a minute.")] = False,
) -> None:
    """Check that this machine has what a run needs."""
    from flows.doctor import checks, gpu_checks

    if gpu:
        require_training()
    marks, failed = {True: "ok  ", False: "FAIL", None: "note"}, False
    for check in chain(checks(), gpu_checks() if gpu else ()):
        say(f"{marks[check.ok]} {check.name}: {check.detail}")
        if check.ok is not True and check.advice:
            say(f"     → {check.advice}")
        failed |= check.ok is False
    if failed:
        raise typer.Exit(1)


@app.command()
def up() -> None:
    """Start Prefect with a worker, and the MLflow UI, until Ctrl-C."""
    require_training()
    from contrastive.runs.store import home
    from flows.serve.up import up as start

    start(home())


@app.command(rich_help_panel=MORE)
def down() -> None:
    """Stop `ablate up` for this home."""
    from contrastive.runs.store import home
    from flows.serve.servers import stop_up

    say("stopped" if stop_up(home()) else f"nothing runs for {home()}")


def fail(message: str, code: int = 2) -> None:
    complain(message)
    raise typer.Exit(code)


def main() -> None:
    """Run a command; print expected errors as one message without a traceback."""
    from contrastive.runs import store

    escape_logs()
    judging = sys.argv[1:2] == ["judge"]
    broken = 2
    if judging:  # whose lower codes are verdicts
        broken = 5 if sys.argv[2:3] == ["ledger"] else 3
    if not judging:  # whose commands import from their own folder
        os.environ["PYTHONSAFEPATH"] = "1"  # our processes must not import a `tasks/` of the working directory
    try:
        app()
    except UserError as error:
        complain(str(error))
        sys.exit(broken)
    except ModuleNotFoundError as error:
        if not (advice := missing_extra(error, sys.argv[1])):
            raise
        complain(advice)
        sys.exit(broken)
    except SystemExit as end:
        gc.freeze()  # otherwise Python takes a second more to end
        if end.code == 130:  # the command line library's code for Ctrl-C
            complain("stopped; run the same command again to continue")
            if judging:
                os._exit(130)  # ends the commands that run; else their threads would be waited for
        if isinstance(end.__context__, TyperException):
            sys.exit(broken)
        raise
    except OSError as error:
        complain(store.explain_os_error(error))
        sys.exit(broken)
    except Exception:
        if not judging:
            raise
        traceback.print_exc()
        sys.exit(broken)
