"""Keep MLflow and reports equal to the run folders, without a flow: `ablate sync`, `ablate audit`, finished grids."""

from pathlib import Path

from contrastive.evaluation.reference import known_references
from contrastive.grid.choose import choosing, require_settled
from contrastive.grid.identity import evaluation_key
from contrastive.grid.load import load_experiment
from contrastive.grid.plan import Plan, declare_plan, recorded_grid
from contrastive.grid.status import result_mark
from contrastive.runs.recorded import Stopping
from contrastive.runs.store import home, report_folder, run_folder
from flows.terminal import ExitWith, say, tell
from tasks.address import file_of


def report_experiment(file: Path, paper: bool) -> None:
    tell(f"reading the results of {file}")
    from tasks.report import build_report, paper_folder  # which imports Prefect

    name = apply_file(file)
    built = build_report(name, paper)
    tell(built.finding)
    say(f"report: {built.path}")
    if paper:
        say(f"LaTeX and PDF: {paper_folder(name)}")


def sync_experiment(file: Path) -> None:
    tell(f"reading the run folders of {file}")
    from flows.until_decided import plan_so_far

    say(update_mlflow(*plan_so_far(require_settled(load_experiment(file)), records=True)))


def update_mlflow(planned: Plan, stopping: Stopping | None = None) -> str:
    """Declare an experiment, close abandoned MLflow runs, and bring MLflow up to date with the run folders.

    `stopping`: the record of a study that adds seeds. Returns a line that says how many cells are in MLflow.
    """
    from tasks.sync import close_abandoned_runs  # MLflow takes a second to import
    from tasks.sync import sync as record_all

    declare_plan(planned, stopping)
    close_abandoned_runs()
    return record_all(planned, stopping).message


def current_report(plan: Plan) -> Path | None:
    """Return the report's path if every cell is finished and it was built from these results, else None."""
    report, database = report_folder(plan.experiment.name) / "README.md", file_of(home())
    if plan.to_do or not report.exists() or database is None or not database.exists():
        return None
    key, ids = evaluation_key(plan.experiment.evaluation), [status.id for status in plan.statuses.values()]
    digest = recorded_grid(plan, known_references(plan)).digest({id_: result_mark(run_folder(id_), key) for id_ in ids})
    return report if digest in report.read_text(encoding="utf-8") else None


def apply_file(file: Path) -> str:
    """Bring MLflow to the labels, notes and shown scores of a file whose cells have all run; return its experiment.

    Elsewhere, for example on a machine without the run folders, the report shows what MLflow has recorded.
    """
    from flows.until_decided import plan_so_far

    planned, stopping = plan_so_far(require_settled(load_experiment(file)), records=False)
    if planned.to_do:
        tell(f"{len(planned.to_do)} cells of {file} are not finished here: the report shows what MLflow has recorded")
    else:
        tell(update_mlflow(planned, stopping))
    return planned.experiment.name


def check_results(experiment: Path, mend: bool) -> None:
    """Print how run folders, MLflow and report differ; raise ExitWith with advice if they do."""
    tell(f"checking the results of {experiment}")
    from flows.until_decided import plan_so_far
    from tasks.report import audit_report
    from tasks.sync import audit, close_abandoned_runs, damaged_cache, mend_tracking, reset_damaged

    planned, stopping = plan_so_far(require_settled(load_experiment(experiment)), records=mend)
    if mend:
        declare_plan(planned, stopping)
        for line in reset_damaged(planned):
            say(f"reset: {line}")
        say(mend_tracking(planned, stopping))
    close_abandoned_runs()
    stored = [*(why for _, why in damaged_cache()), *audit(planned)]
    has_report = report_folder(planned.experiment.name).exists()
    names = [planned.experiment.name, *([choosing(planned.experiment).name] if planned.experiment.choose else [])]
    edited = [] if stored else [line for name in names for line in audit_report(name)]  # a report follows from MLflow
    for line in (*stored, *edited):
        say(line)
    if stored:
        mends = "to repair, run `ablate audit EXPERIMENT --mend`, then `ablate run EXPERIMENT`"
        only_runs = mend or all("not run yet" in line for line in stored)
        advice = "`ablate run EXPERIMENT` does the rest" if only_runs else mends
    else:
        advice = "`ablate report EXPERIMENT` rewrites the report"
    if count := len(stored) + len(edited):
        raise ExitWith(f"{count} difference{'s' if count > 1 else ''}; {advice}")
    report_state = "the report is up to date" if has_report else "no report yet: run `ablate report EXPERIMENT`"
    say(f"run folders are complete, MLflow agrees with them, {report_state}")
