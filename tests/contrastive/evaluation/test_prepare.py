"""What an evaluation reads is embedded when a cell has trained, or later from its weights: the same, to the bit.

So are more test texts for finished cells, and never does a cell train again.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.data import tokens as token_store
from contrastive.errors import UserError
from contrastive.evaluation import embed
from contrastive.evaluation.evaluate_cell import evaluate_cell
from contrastive.evaluation.prepare import lacks_embeddings, prepare_cell_tokens
from contrastive.grid.status import statuses
from contrastive.runs import store
from contrastive.views import batches
from tasks import worker_calls
from tests.contrastive.training.trained import make, run

MORE = Evaluation(
    splits=("test", "train"),
    metrics=("knn", "alignment"),
    vectors=("cls", "mean", "first_last", "layer:0:cls"),
    post=("standardise",),
)


METRICS = ("accuracy", "knn", "alignment")
OWN, LARGER = Evaluation(metrics=METRICS), Evaluation(metrics=METRICS, test=60)
LARGER_AND_MORE = LARGER.model_copy(update={"vectors": ("mean",), "post": ("standardise",)})


def measured(cell: Cell, evaluation: Evaluation) -> Path:
    folder = run(cell, evaluation=evaluation)
    evaluate_cell(folder, evaluation)
    return folder


def arrays(folder: Path, name: str = "embeddings") -> dict[str, np.ndarray]:
    with np.load(folder / f"{name}.npz") as stored:
        return dict(stored)


def test_a_worker_makes_the_texts_of_a_larger_test_ahead(source: str, home: Path):
    for texts, folders in ((None, 1), (60, 2), (60, 2)):
        worker_calls.prepare(make(source), texts)
        assert len(list((home / "cache" / "tokens").glob("*/DONE"))) == folders


def examples(folder: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays(folder, "examples").items()}


def scores(folder: Path) -> list[dict[str, Any]]:
    return store.read_json(folder / "scores.json")["scores"]


def of_training(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = ("metrics.jsonl", "checkpoint/weights.safetensors", "provenance.json", "config.json")
    return {name: ((folder / name).stat().st_ino, (folder / name).read_bytes()) for name in files}


def test_what_an_evaluation_reads_is_there(source, home):
    cell = make(source, encoder={"pooling": "mean"})
    folder = run(cell, evaluation=MORE)
    found = arrays(folder)
    assert found["train"].shape == (64, 32) and found["test/first_last"].shape == (32, 32)
    assert (found["test/mean"] == found["test"]).all() and (found["test/cls"] != found["test"]).any()
    pairs = found["test.twice"]
    assert pairs.shape == (32, 2, 32) and (pairs[:, 0] != pairs[:, 1]).any(1).all()
    assert arrays(folder, "predictions")["train.logits"].shape == (64, 2)
    tokens = token_store.open_tokens(prepare_cell_tokens(cell))
    texts = tokens.splits["test"]
    batch = batches.collate(texts, np.arange(len(texts)), tokens.pad_id, tokens.special_ids)
    model = embed.load_trained_model(cell, folder, tokens)
    states = model.eval().encode(batch)
    np.testing.assert_allclose(found["test/layer:0:cls"], states.hidden[0][:, 0].detach(), atol=1e-5)
    words = batch.attention_mask[..., None] / batch.attention_mask.sum(1)[:, None, None]
    means = [(states.hidden[block] * words).sum(1).detach() for block in (0, -1)]
    np.testing.assert_allclose(found["test/first_last"], (means[0] + means[1]) / 2, atol=1e-5)
    np.testing.assert_allclose(found["test/mean"], means[1], atol=1e-5)


def test_made_later_from_the_weights_it_is_the_same(source, home, tmp_path, monkeypatch):
    cell = make(source)
    early = arrays(run(cell, evaluation=MORE))
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "other"))
    folder = run(cell)
    weights = (folder / "checkpoint" / "weights.safetensors").stat().st_ino
    evaluate_cell(folder, Evaluation())
    assert not lacks_embeddings(folder, Evaluation()) and lacks_embeddings(folder, MORE)
    evaluate_cell(folder, MORE)
    late = arrays(folder)
    assert early.keys() == late.keys() and all((early[name] == late[name]).all() for name in early)
    assert (folder / "checkpoint" / "weights.safetensors").stat().st_ino == weights, "it has been trained again"
    assert store.finished(folder) and store.damage(folder, "TRAINED", thorough=True) is None
    names = {score["name"] for score in scores(folder)}
    assert {"test.knn_accuracy", "train.knn_accuracy", "first_last/standardise/train.knn_accuracy"} <= names
    assert "test.alignment_dropout" in names and "cls/test.alignment_dropout" not in names


def test_a_block_that_there_is_not_stops_the_cell_before_it_trains(source, home):
    cell = make(source)
    with pytest.raises(UserError, match="layer:2:cls does not exist: the blocks of scratch:bert are 0 to 1"):
        run(cell, evaluation=Evaluation(vectors=("layer:2:cls",)))
    assert not list(home.rglob("weights.safetensors"))


@pytest.mark.parametrize("tune", [{}, {"last_blocks": 1, "frozen_dropout": False}])
def test_a_finished_cell_is_measured_on_more_as_if_it_had_had_them_from_the_start(source, home, tune):
    sizes = ({"test": test, "validation": 0} for test in (32, 60))
    cell, whole = (make(source, encoder={"tune": tune}, data=each) for each in sizes)
    folder = measured(cell, OWN)
    before = of_training(folder)
    assert [status.action for status in statuses([cell], LARGER_AND_MORE)] == ["evaluate"]
    evaluate_cell(folder, LARGER_AND_MORE)
    assert of_training(folder) == before and store.damage(folder, "TRAINED", thorough=True) is None
    assert [status.action for status in statuses([cell], LARGER_AND_MORE)] == ["reuse"]
    fresh = measured(whole, LARGER_AND_MORE.model_copy(update={"test": None}))
    assert scores(folder) == scores(fresh) and examples(folder) == examples(fresh)
    assert {score["count"] for score in scores(folder) if score["name"] == "test.accuracy"} == {60}
    own = store.read_json(fresh / "provenance.json")["class_counts"]["test"]
    assert store.read_json(folder / "scores.json")["class_counts"] == {"test": own}
    stores = list(home.glob("cache/prefix/*/larger.60@*.test"))
    assert len(stores) == (1 if tune else 0), "frozen blocks are read from a store"


def test_fewer_texts_again_are_measured_as_they_were(source, home):
    folder = measured(make(source), OWN)
    first = (folder / "scores.json").read_bytes(), examples(folder)
    for more in (50, 60, 50):
        evaluate_cell(folder, OWN.model_copy(update={"test": more}))
        ids = np.frombuffer(examples(folder)["test.ids"], np.uint64)
        assert len(ids) == more
        assert ids[:32].tobytes() == first[1]["test.ids"]
    evaluate_cell(folder, OWN)
    assert ((folder / "scores.json").read_bytes(), examples(folder)) == first
