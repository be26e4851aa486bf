"""Fill MLflow's own pages of an experiment: its finding, the report, and a parent run for the cells of each row.

Only for people who browse MLflow; nothing reads this back.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, RunTag

from reports.build import Report
from reports.compare import Section
from reports.messages import using
from reports.rows import Row
from reports.study import Results
from reports.tables import verdict_entry
from tasks.address import TRAINING
from tasks.record import SECTION, SOURCE, grid_runs, set_tags
from tasks.tracking import as_tracking_error, remove_runs

MOST_ROWS = 500  # with more, only cells are shown: writing a run takes about 20 ms
PARENT, SHOWN, VERDICT = "mlflow.parentRunId", "ablate.shown", "verdict"
VIEW = "ablate"  # name of the shared view that the link opens


@as_tracking_error()
def fill_pages(client: MlflowClient, report: Report, results: Results, folder: Path) -> None:
    """Update MLflow's pages to a report whose files are in `folder`."""
    name = results.study.name
    (grid, *_) = grid_runs(client, name)
    client.log_artifact(grid.info.run_id, str(folder / "index.html"), "report")
    set_tags(client, grid, {VERDICT: report.summary.headline})
    describe_experiment(client, report, results, grid.info.run_id)
    with using(results.study.language):
        show_rows(client, [part.section for part in report.sections], results)


def describe_experiment(client: MlflowClient, report: Report, results: Results, grid: str) -> None:
    """Set the experiment's note, with the finding and two links, and the view that the second link opens."""
    number, first = results.experiment_id, report.summary
    runs = f"#/experiments/{number}/runs"
    there = f"[The report]({runs}/{grid}/artifacts/report/index.html?{TRAINING})"
    listed = f"[runs by section, seed, score, verdict]({runs}?{TRAINING}&viewStateShareKey={VIEW})"
    step = f"{first.next} `{first.command}`" if first.command else ""
    lines = [first.task, f"{first.headline}.", first.setting, step, *first.notes, f"{there} · {listed}"]
    tags = {
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.note.content": "\n\n".join(filter(None, lines)),
        f"mlflow.sharedViewState.{VIEW}": json.dumps(view(first.score)),
    }
    held = client.get_experiment(number).tags
    for key, value in tags.items():
        if held.get(key) != value:
            client.set_experiment_tag(number, key, value)


def view(score: str) -> dict[str, Any]:
    """Return the shared view of the run list as MLflow stores it."""
    columns = ["attributes.`Source`", "attributes.`Dataset`", f"tags.`{SECTION}`", "params.`seed`", f"tags.`{VERDICT}`"]
    columns += [f"metrics.`{score}`"] if score else []
    return {
        "searchFilter": "", "orderByKey": "attributes.start_time", "orderByAsc": False, "startTime": "ALL",
        "lifecycleFilter": "Active", "datasetsFilter": [], "modelVersionFilter": "All Runs", "selectedColumns": columns,
        "runsExpanded": {}, "columnOrder": [], "columnWidths": {}, "runsPinned": [], "runsHidden": [],
        "runsVisibilityMap": {}, "runsHiddenMode": "FIRST_10_RUNS", "viewMaximized": False, "runListHidden": False,
        "isAccordionReordered": False, "useGroupedValuesInCharts": True, "hideEmptyCharts": True, "groupBy": None,
    }  # fmt: skip


def show_rows(client: MlflowClient, sections: list[Section], results: Results) -> None:
    """Make a parent run for each distinct row; a row that several sections show has one run with all its labels."""
    held = client.search_runs([results.experiment_id], "tags.`ablate.kind` = 'row'", max_results=2 * MOST_ROWS)
    by_content = {run.data.tags.get(SHOWN, ""): run.info.run_id for run in held}
    recipes: dict[tuple[str, ...], list[tuple[Section, Row]]] = {}
    for section in sections:
        for row in section.rows:
            if row.cells and not row.variant:
                recipes.setdefault(tuple(row.cells), []).append((section, row))
    there = set[str]()
    for cells, shown in recipes.items() if len(recipes) <= MOST_ROWS else []:
        children = [results.cells[cell].run_id for cell in cells if cell in results.cells]
        there.add(show_recipe(client, shown, children, results, by_content))
    remove_runs(client, [run for run in held if run.info.run_id not in there])  # outdated rows


def show_recipe(
    client: MlflowClient,
    shown: list[tuple[Section, Row]],
    children: list[str],
    results: Results,
    by_content: dict[str, str],
) -> str:
    """Return the run of a row: an existing one with the same content, or a new one."""
    label = " = ".join(dict.fromkeys(row.label for _, row in shown))[:250]
    first, tags, values = shown[0][1].cells[0], verdicts(shown), means(*shown[0])
    content = hashlib.sha256(json.dumps([label, first, tags, values, children], sort_keys=True).encode()).hexdigest()
    if content in by_content:
        return by_content[content]
    runs = [client.get_run(child) for child in children]
    began = min((run.info.start_time for run in runs), default=None)
    ends = max((run.info.end_time for run in runs if run.info.end_time), default=None)
    about = SOURCE | {"ablate.kind": "row", "ablate.row": first}
    made = str(client.create_run(results.experiment_id, began, about, label).info.run_id)
    if runs and runs[0].inputs:
        client.log_inputs(made, runs[0].inputs.dataset_inputs)
    for run in runs:
        client.set_tag(run.info.run_id, PARENT, made)
    client.set_terminated(made, "FINISHED", ends)
    metrics = [Metric(key, value, ends or 0, 0) for key, value in values.items()]
    last = tags | {SHOWN: content}  # marks the run as complete, so it is written last
    client.log_batch(made, metrics, tags=[RunTag(key, value) for key, value in last.items()])
    return made


def verdicts(shown: list[tuple[Section, Row]]) -> dict[str, str]:
    """Return tags: sections, the verdict on the first compared score, and those on other scores under their names."""
    scores = [score for section, row in shown for score in section.scores if score.row == row and score.comparison]
    said = {score.value: verdict_entry(score).text for score in reversed(scores)}
    tags = {SECTION: " | ".join(dict.fromkeys(section.recorded.title for section, _row in shown))}
    tags |= {f"{VERDICT}.{value}": text for value, text in said.items() if value != scores[0].value}
    own = said[scores[0].value] if scores else "baseline" if shown[0][1].baseline else ""
    return tags | ({VERDICT: own} if own else {})


def means(section: Section, row: Row) -> dict[str, float]:
    """Return the mean of each score and its standard deviation over seeds."""
    scores = [score for score in section.scores if score.row == row and math.isfinite(score.mean)]
    deviations = {f"{score.value}.deviation": score.deviation for score in scores if math.isfinite(score.deviation)}
    return {score.value: score.mean for score in scores} | deviations
