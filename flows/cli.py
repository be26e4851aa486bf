"""The command line `ablate`: the options of each command, and one call. Heavy imports are inside the commands, so that
--help answers at once."""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from contrastive.errors import UserError
from flows.terminal import LARGEST_MAX_SEEDS, complain, errors_exit_with, escape_logs, exit_code, require_training, say

app = typer.Typer(
    help="Benchmark contrastive learning on text: from an experiment file to a report.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

MORE = "More commands"
SHIPPED = Path(__file__).parent.parent / "configs"
EngineOption = Literal["local", "ray", "slurm", "inline"]


def argument(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, help=text)


def option(metavar: str, text: str, **limits: Any) -> Any:
    return typer.Option(metavar=metavar, help=text, **limits)


def flag(name: str, text: str) -> Any:
    return typer.Option(name, help=text)


def table_option(metavar: str | None, text: str) -> Any:
    """Return an option that only a table (--from) takes."""
    return typer.Option(metavar=metavar, help=text, rich_help_panel="With --from")


ExperimentFile = Annotated[Path, argument("EXPERIMENT", "Experiment file, e.g. configs/quickstart.yaml.")]
CellId = Annotated[str, argument("CELL", "Cell id or its first characters.")]
AsJson = Annotated[bool, flag("--json", "Print JSON.")]


@app.command()
def init(
    table: Annotated[Path, argument("TABLE", "CSV, TSV, JSON lines or Parquet file of texts.")],
    file: Annotated[Path | None, argument("[FILE]", "New experiment file (default: NAME.yaml).")] = None,
) -> None:
    """Write a commented experiment file for a table of texts; its columns are guessed, and said."""
    from flows.begin import write_experiment

    write_experiment(table, file)


@app.command()
def plan(experiment: ExperimentFile, as_json: AsJson = False) -> None:
    """Show what a run would do and how long it takes.

    Each cell is reused, evaluated again, run, or stale: then it runs again, and the line says what has changed.
    """
    require_training()
    from flows.forecast import show_plan

    show_plan(experiment, as_json)


@app.command()
def run(
    experiment: ExperimentFile,
    engine: Annotated[
        EngineOption,
        option("ENGINE", "local; ray: the cluster at RAY_ADDRESS; slurm: jobs; inline: one by one, to debug."),
    ] = "local",
    gpus_per_cell: Annotated[
        float | None, option("SHARE", "Share of a GPU per cell: 0.5 packs two; 0 trains on the CPU.", min=0, max=1)
    ] = None,
    until_decided: Annotated[bool, flag("--until-decided", "Start with two seeds; add more where undecided.")] = False,
    max_seeds: Annotated[
        int | None, option("N", "Most seeds for --until-decided (default 20).", min=2, max=LARGEST_MAX_SEEDS)
    ] = None,
    budget: Annotated[str, option("TIME", "Add no more seeds after this time, e.g. 45s, 90m, 2h.")] = "",
    regardless: Annotated[bool, flag("--regardless", "Add seeds also where they will hardly decide.")] = False,
    trust: Annotated[list[str] | None, option("DIGEST", "Allow a file of `plugins` to run, by its digest.")] = None,
    detach: Annotated[bool, flag("--detach", "With --engine slurm: submit, and return at once.")] = False,
    print_script: Annotated[bool, flag("--print", "With --engine slurm: only print the script.")] = False,
) -> None:
    """Train and evaluate what is missing, then write the report."""
    require_training()
    from flows.start import print_or_submit, run_experiment

    if print_script or detach:
        if engine != "slurm" or until_decided:
            raise UserError("--print and --detach need --engine slurm, without --until-decided")
        return print_or_submit(experiment, trust or (), submit=not print_script)
    run_experiment(experiment, engine, gpus_per_cell, (until_decided, max_seeds, budget, regardless), trust or ())


@app.command()
def report(
    experiment: Annotated[
        Path | None, argument("[EXPERIMENT]", "Experiment file, e.g. configs/quickstart.yaml.")
    ] = None,
    paper: Annotated[bool, flag("--paper", "Also write LaTeX tables and PDF figures.")] = False,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="TABLE",
            help="Report another program's results, one line a run: a CSV, TSV, Parquet or JSON lines file, or "
            "mlflow:EXPERIMENT.",
        ),
    ] = "",
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
        bool, typer.Option("--paired", help="Pair equal numbers of runs, as seeds.", rich_help_panel="With --from")
    ] = False,
) -> None:
    """Rebuild a report from MLflow, or report another program's table.

    If all cells of the file have run, its edited titles, notes, rows and shown scores are applied.

    Give an experiment file, or a table with --from.
    """
    columns = {"row": row, "seed": seed, "scores": score, "data": data, "metric": metric, "value": value}
    question = {"baseline": baseline, "margin": margin, "lower": lower, "higher": higher}
    if source and not experiment and not paper:
        from flows.tables import report_table

        report_table(source, columns | {"paired": paired}, question)
    elif experiment and not source and not any((*columns.values(), *question.values(), paired)):
        from flows.upkeep import report_experiment

        report_experiment(experiment, paper)
    else:
        raise UserError("give an experiment file, perhaps with --paper, or --from TABLE with its options")


class ErrorCode:
    """A command that exits with 5 after any error, since 0 to 4 are verdicts."""

    error_code = 5

    def make_context(self, *words: Any, **more: Any) -> Any:
        with errors_exit_with(self.error_code):
            return super().make_context(*words, **more)  # type: ignore[misc]

    def invoke(self, context: Any) -> Any:
        with errors_exit_with(self.error_code):
            return super().invoke(context)  # type: ignore[misc]


class LedgerCommand(ErrorCode, TyperCommand):
    pass


class JudgeGroup(ErrorCode, TyperGroup):
    error_code = 3


judging = typer.Typer(cls=JudgeGroup, subcommand_metavar="[ledger FOLDER]")
app.add_typer(judging, name="judge", rich_help_panel=MORE)
Command = option("COMMAND", "Shell command with {seed} in it.")
Metric = Annotated[str, option("REGEX", "Finds the number: 'loss: ([-+0-9.e]+)'.")]
Lower = Annotated[bool | None, flag("--lower/--higher", "Whether lower or higher is better.")]
RunTimeout = Annotated[str, option("TIME", "End a run that takes longer, e.g. 90s, 5m.")]
JudgeEngine = Annotated[Literal["local", "ray"], option("ENGINE", "local, or ray.")]


@judging.callback(invoke_without_command=True)
def judge(
    context: typer.Context,
    baseline: Annotated[str, Command] = "",
    candidate: Annotated[str, Command] = "",
    metric: Metric = "",
    lower: Lower = None,
    margin: Annotated[float | None, option("SIZE", "Difference too small to matter: decides `equivalent`.")] = None,
    max_runs: Annotated[int, option("N", "Most runs of both commands.")] = 16,
    budget: Annotated[str, option("TIME", "Begin no run after this time, e.g. 90m, 2h.")] = "",
    timeout: RunTimeout = "",
    jobs: Annotated[int, option("N", "Runs at a time.", min=1)] = 1,
    engine: JudgeEngine = "local",
    folder: Annotated[Path | None, typer.Option(help="Keep results here, not below the home.")] = None,
    fresh: Annotated[bool, flag("--fresh", "Remove the runs that are kept, and begin anew.")] = False,
    gate: Annotated[Path | None, option("FILE", "Write the verdict as Markdown; exit with 1 only if worse.")] = None,
    as_json: AsJson = False,
) -> None:
    """Decide which of two training commands is better.

    Both run at several seeds until it is decided. Exit code 0: the candidate is better; 1: worse or equivalent;
    2: undecided; 3: not judged, such as a run that failed twice. `ablate judge ledger` judges many candidates.
    """
    if context.invoked_subcommand:
        if baseline or candidate or metric:
            raise UserError("the options of `ablate judge ledger` stand after it: ablate judge ledger FOLDER …")
        return
    from ablate.duel import Duel
    from ablate.metric import lower_is_better
    from flows.judging import RunOptions, judge_pair

    duel = Duel(baseline, candidate, metric, lower_is_better(metric, lower), margin, max_runs)
    options = RunOptions(engine, timeout, budget, jobs)
    raise typer.Exit(judge_pair(duel, options, folder, fresh, gate, as_json))


@judging.command("ledger", cls=LedgerCommand)
def judge_ledger(
    folder: Annotated[Path, argument("FOLDER", "Folder of the ledger.")],
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

    if not candidate:
        return show_ledger(folder, as_json)
    options = RunOptions(engine, timeout)
    raise typer.Exit(judge_proposal(folder, (candidate, baseline), metric, lower, options, as_json))


@app.command()
def show(cell: CellId) -> None:
    """Show the settings, state, scores and provenance of a cell."""
    from flows.show import show as show_cell

    show_cell(cell)


@app.command(rich_help_panel=MORE)
def diff(first: CellId, second: Annotated[str, argument("CELL", "Another one.")]) -> None:
    """Show what differs between two cells: settings, code, data, versions and scores."""
    from flows.show import show_difference

    show_difference(first, second)


@app.command(rich_help_panel=MORE)
def clean(
    dry_run: Annotated[bool, flag("--dry-run", "Only list what would go, with sizes.")] = False,
    gone: Annotated[str, option("HOST", "Only remove the lock files of this lost machine.")] = "",
) -> None:
    """Remove cells that no experiment of this home names, and files that attempts left in finished cells."""
    from flows.clean import clean as remove_superfluous
    from flows.clean import give_back

    give_back(gone) if gone else remove_superfluous(dry_run)


@app.command(rich_help_panel=MORE)
def cell(
    cell: Annotated[str, argument("CELL", "Id of a started cell, or its first characters.")],
    folder: Annotated[Path, typer.Option(help="Output folder.")] = Path("by-hand"),
) -> None:
    """Print the plain command that trains one cell by hand."""
    from flows.show import by_hand

    say(by_hand(cell, folder))


@app.command(rich_help_panel=MORE)
def export(
    what: Annotated[str, argument("CELL|EXPERIMENT", "Id of a trained cell, or experiment file.")],
    folder: Annotated[Path, argument("FOLDER", "New folder for the model.")],
    row: Annotated[str, option("NAME", "Row of the file, at its first seed.")] = "",
    best: Annotated[str, option("SECTION", "The best row of a section of the file.")] = "",
    post: Annotated[str, option("NAME", "Add whiten, whiten:256 or standardise.")] = "",
    register: Annotated[str, option("NAME", "Also register the model in MLflow.")] = "",
) -> None:
    """Write a trained encoder as a folder that sentence-transformers and transformers load."""
    require_training()
    from flows.exports import export as write_export

    write_export(what, folder, row, best, post, register)


Applied = Annotated[str, argument("FOLDER|CELL", "Folder of `ablate export`, or id of a trained cell.")]
Texts = Annotated[Path, argument("TABLE", "CSV, TSV, JSON lines or Parquet file of texts.")]
TextColumn = Annotated[str, option("COLUMN", "Column of texts (default: that of the longest values).")]


@app.command(rich_help_panel=MORE)
def embed(
    what: Applied,
    table: Texts,
    out: Annotated[Path, argument("OUT", "New file .npy or .parquet.")],
    text: TextColumn = "",
) -> None:
    """Write the vectors of the texts of a table. Stopped, the same command goes on."""
    require_training()
    from flows.applied import embed as write_vectors

    write_vectors(what, table, out, text)


@app.command(rich_help_panel=MORE)
def predict(
    what: Applied,
    table: Texts,
    out: Annotated[Path, argument("OUT", "New file .csv or .parquet.")],
    text: TextColumn = "",
) -> None:
    """Write the table with the class of each text and its probability. Stopped, the same command goes on."""
    require_training()
    from flows.applied import predict as write_classes

    write_classes(what, table, out, text)


@app.command(rich_help_panel=MORE)
def sync(experiment: ExperimentFile) -> None:
    """Bring MLflow up to date with the run folders.

    Needed after a tracking failure, and on a new tracking server.
    """
    from flows.upkeep import sync_experiment

    sync_experiment(experiment)


@app.command(rich_help_panel=MORE)
def audit(
    experiment: ExperimentFile,
    mend: Annotated[bool, flag("--mend", "Reset damaged cells and correct MLflow.")] = False,
) -> None:
    """Check run folders, MLflow and the report for damage or drift."""
    from flows.upkeep import check_results

    check_results(experiment, mend)


@app.command(rich_help_panel=MORE)
def worker(
    experiment: ExperimentFile,
    until: Annotated[str, option("TIME", "End after this time, e.g. 45m, 2h; under Slurm, with the job.")] = "",
    listed: Annotated[bool, flag("--listed", "Only cells that `ablate run --engine slurm` lists.")] = False,
    print_job: Annotated[
        Literal["k8s"] | None, flag("--print", "Only print a Job of Kubernetes that runs workers.")
    ] = None,
) -> None:
    """Train and evaluate cells beside other workers of this home, without Prefect and MLflow.

    Exit code 0: no cell is left; 1: some failed; 75: stopped or out of time, and cells are left.
    """
    if print_job:
        if until or listed:
            raise UserError("--print k8s takes no --until and no --listed")
        from flows.on_kubernetes import print_job as print_kubernetes

        return print_kubernetes(experiment)
    require_training()
    from flows.worker import run_worker

    run_worker(experiment, until, listed)


@app.command(rich_help_panel=MORE)
def nightly(
    panel: Annotated[Path, argument("PANEL", "Experiment file.")] = SHIPPED / "nightly.yaml",
    settings: Annotated[Path, typer.Option(help="Settings of the verdict.")] = SHIPPED / "nightly" / "verdict.yaml",
    engine: Annotated[EngineOption, typer.Option(help="Where cells run, as for `ablate run`.")] = "local",
    against: Annotated[str, option("COMMIT", "Compare with this commit instead (for `git bisect run`).")] = "",
    acknowledge: Annotated[str, option("REASON", "Only accept the last night: later ones are compared with it.")] = "",
) -> None:
    """Measure a fixed panel again and compare it with earlier nights."""
    from flows.start import acknowledge_night, measure_night

    if acknowledge:
        return acknowledge_night(acknowledge)
    measure_night(panel, settings, engine, against)


@app.command(rich_help_panel=MORE)
def check(file: Annotated[Path, argument("FILE", "Python file that registers it, e.g. my_loss.py.")]) -> None:
    """Check code of your own, such as a loss; this runs the file, but does not allow it for `ablate run`.

    Exit code 0: all checks hold; 1: a check fails; 2: the file cannot be read.
    """
    require_training()
    from flows.check_file import check_file

    raise typer.Exit(check_file(file))


@app.command(rich_help_panel=MORE)
def doctor(
    gpu: Annotated[bool, flag("--gpu", "Also train small cells on the GPU, for about a minute.")] = False,
    shared: Annotated[bool, flag("--shared", "On two machines at once: do they see each other's locks?")] = False,
) -> None:
    """Check that this machine has what a run needs."""
    if shared:
        from flows.shared_home import compare_locks

        raise typer.Exit(compare_locks())
    from flows.doctor import show_checks

    raise typer.Exit(show_checks(gpu))


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


def main() -> None:
    """Run a command. Expected errors are one message without a traceback, and bring their exit code."""
    escape_logs()
    os.environ["PYTHONSAFEPATH"] = "1"  # our processes must not import a `tasks/` of the working directory
    try:
        app()
    except SystemExit as end:
        gc.freeze()  # otherwise Python takes a second more to end
        if end.code == 130:  # the command line library's code for Ctrl-C
            complain("stopped; run the same command again to continue")
        raise
    except Exception as error:
        sys.exit(exit_code(error))
