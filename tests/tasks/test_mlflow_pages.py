"""MLflow's own pages: a run for each recipe above its cells, with means and verdict, and the finding as a note."""

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from contrastive.runs import store
from tasks import record, tracking
from tasks.report import BuiltReport, build_report
from tests.recorded import cell_folder, grid


def shown(
    home: Path, accuracies: dict[str, tuple[float, float]], titles: tuple[str, ...] = ("Recipes",)
) -> BuiltReport:
    """A grid recorded, and its report."""
    client = tracking.open_tracker(home)
    for place, (label, values) in enumerate(accuracies.items()):
        for seed, value in enumerate(values):
            record.record_cell(client, "small", cell_folder(f"c{place}s{seed}", label, seed, value), list(titles))
    record.record_grid(client, "small", grid(titles, tuple(accuracies)))
    return build_report("small")


def of_kind(client: MlflowClient, kind: str) -> dict[str, Run]:
    runs = client.search_runs([tracking.experiment_id(client, "small")], f"tags.`ablate.kind` = '{kind}'")
    return {run.info.run_name: run for run in runs}


def test_recipes_stand_above_their_cells_with_mean_and_verdict(home: Path):
    two = {"ce": (0.70, 0.71), "ce+supcon": (0.80, 0.80)}
    shown(home, two, ("Recipes", "Again"))
    client = tracking.open_tracker(home)
    rows, cells = of_kind(client, "row"), of_kind(client, "cell")
    assert set(rows) == set(two)
    for label, row in rows.items():
        children = {name for name, run in cells.items() if run.data.tags["mlflow.parentRunId"] == row.info.run_id}
        assert children == {f"{label} · seed 0", f"{label} · seed 1"} and row.data.tags["section"] == "Recipes | Again"
    assert rows["ce"].data.tags["verdict"] == "baseline" and rows["ce"].data.metrics["test.accuracy"] == 0.705
    assert rows["ce"].data.metrics["test.accuracy.deviation"] == pytest.approx(0.01 / 2**0.5)
    assert "undecided +10" in rows["ce+supcon"].data.tags["verdict"]
    assert not any(value == "" for run in (*rows.values(), *cells.values()) for value in run.data.tags.values())

    # the same again writes nothing; of a recipe that is no more the run goes
    build_report("small")
    again = of_kind(client, "row")["ce"]
    assert again.info.run_id == rows["ce"].info.run_id
    assert len(client.get_metric_history(again.info.run_id, "test.accuracy")) == 1
    record.record_grid(client, "small", grid(labels=("ce",)))
    build_report("small")
    assert set(of_kind(client, "row")) == {"ce"}


def test_the_experiment_says_what_was_found_and_leads_to_the_report(home: Path):
    report = shown(home, {"ce": (0.70, 0.71), "ce+supcon": (0.80, 0.80)})
    client = tracking.open_tracker(home)
    experiment, (grid_run,) = client.get_experiment_by_name("small"), of_kind(client, "grid").values()
    note = experiment.tags["mlflow.note.content"]
    assert note.startswith("small\n\n") and "Next, " in note
    assert report.finding in note and f"/runs/{grid_run.info.run_id}/artifacts/report/index.html" in note
    assert {item.path for item in client.list_artifacts(grid_run.info.run_id, "report")} >= {"report/index.html"}
    columns = json.loads(experiment.tags["mlflow.sharedViewState.ablate"])["selectedColumns"]
    assert {"tags.`section`", "params.`seed`", "tags.`verdict`", "metrics.`test.accuracy`"} <= set(columns)


def test_a_run_takes_as_long_as_its_cell_and_names_its_data(home: Path):
    shown(home, {"ce": (0.70, 0.71)})
    run = of_kind(tracking.open_tracker(home), "cell")["ce · seed 0"]
    assert run.info.end_time - run.info.start_time == 6000
    assert abs(run.info.end_time / 1000 - (store.run_folder("c0s0") / "DONE").stat().st_mtime) < 1
    (data,) = run.inputs.dataset_inputs
    assert data.dataset.name == "texts.csv"


def test_a_report_stands_where_mlflows_pages_cannot_be_written(home: Path, monkeypatch: pytest.MonkeyPatch, caplog):
    def fails(*_arguments: object, **_values: object) -> None:
        raise ConnectionError("the network is gone")

    monkeypatch.setattr(MlflowClient, "set_experiment_tag", fails)
    assert shown(home, {"ce": (0.70, 0.71)}).path.exists() and "the network is gone" in caplog.text


def test_where_only_its_text_is_shown_a_report_has_its_figures_and_no_dead_link(home: Path):
    report = shown(home, {"ce": (0.70, 0.71), "ce+supcon": (0.80, 0.80)})
    text = report.markdown()
    assert "](data:image/svg+xml;base64," in text and "](figures/" not in text and "](index.html)" not in text
    assert "index.html" in text and "](index.html)" in report.path.read_text()
