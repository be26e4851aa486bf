"""Prefect task: the report of an experiment, built from MLflow alone."""

import re
from dataclasses import dataclass
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run
from prefect import task

from contrastive.runs import store
from reports.build import Report, build, differences
from reports.load import NotFetched, load
from reports.looks import check_looks
from reports.paper import build_paper
from reports.study import Results
from tasks.address import TRAINING, refuse_damaged, tracking_uri
from tasks.record import grid_runs
from tasks.tracking import as_tracking_error, open_tracker, or_warning

LOCAL_LINK = re.compile(r"!?\[((?:\\.|[^\]\\])*)\]\((?!https?:)[^)]+\)")  # of figures too


@dataclass(frozen=True)
class BuiltReport:
    """A written report: the path of README.md, and its finding in one line."""

    path: Path
    finding: str

    def markdown(self) -> str:
        """Return README.md for the Prefect UI, which shows no other files: figures and links become their texts."""
        return LOCAL_LINK.sub(r"\1", self.path.read_text(encoding="utf-8"))


@task(name="report", task_run_name="report · {experiment}", persist_result=False)
def report_task(experiment: str, runs: list[Run] | None = None) -> BuiltReport:
    return build_report(experiment, runs=runs)


def build_report(experiment: str, paper: bool = False, runs: list[Run] | None = None) -> BuiltReport:
    """Write the report of an experiment into the home; with `paper`, also LaTeX tables and PDF figures. `runs`: those
    of the experiment, if they have been read already."""
    refuse_damaged(store.home())
    with as_tracking_error():
        results = load(experiment, tracking_uri(store.home()), runs=runs)
    with as_tracking_error(NotFetched):
        if paper:
            build_paper(results, paper_folder(experiment))
        report = build(results, store.report_folder(experiment))
    with or_warning("the report could not be shown in MLflow"):
        note_finding(open_tracker(store.home()), report, results)
    return BuiltReport(store.report_folder(experiment) / "README.md", report.summary.headline)


def note_finding(client: MlflowClient, report: Report, results: Results) -> None:
    """Show the finding in MLflow: the experiment's note, and verdict and report at the run of the grid."""
    grid, first, number = grid_runs(client, results.study.name)[0].info.run_id, report.summary, results.experiment_id
    client.log_artifact(grid, str(store.report_folder(results.study.name) / "index.html"), "report")
    client.set_tag(grid, "verdict", first.headline)
    address = f"#/experiments/{number}/runs/{grid}/artifacts/report/index.html?{TRAINING}"
    step = " ".join([first.next.words, *([f"`{first.next.command}`"] if first.next.command else [])])
    link = f"[The report]({address})"
    lines = [first.task, first.headline, first.setting, step, first.next.also_open, *first.legend, *first.caveats, link]
    client.set_experiment_tag(number, "mlflow.note.content", "\n\n".join(filter(None, lines)))


def paper_folder(experiment: str) -> Path:
    return store.home() / "reports" / "paper" / experiment


def audit_report(experiment: str) -> list[str]:
    """Return the differences between a report and one built from its results now; an empty list if there is no
    report."""
    folder = store.report_folder(experiment)
    if not folder.exists():
        return []
    with as_tracking_error():
        results = load(experiment, tracking_uri(store.home()))
    with as_tracking_error(NotFetched):
        return [*check_looks(results), *(f"{folder}/{line}" for line in differences(folder, results))]
