"""More test texts for finished cells: embedded from the kept weights and measured, and never a training."""

from pathlib import Path

import numpy as np
import pytest

from contrastive.cells.identity import cell_id, evaluation_key, identity
from contrastive.cells.status import statuses
from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.evaluation import embed
from contrastive.evaluation.needs import lacking
from contrastive.runs import store
from contrastive.stages.evaluate_cell import evaluate_cell
from contrastive.stages.request import Asked
from contrastive.stages.train_cell import train_cell
from tests.contrastive.training.trained import make

METRICS = ("accuracy", "knn", "alignment")
OWN, MORE = Evaluation(metrics=METRICS), Evaluation(metrics=METRICS, vectors=("mean",), post=("standardise",), test=60)
PLAIN = Evaluation(metrics=METRICS, test=60)


def measured(cell: Cell, evaluation: Evaluation) -> Path:
    folder = store.run_folder(cell_id(identity(cell)))
    train_cell(folder, Asked(cell, "a cell", 1000, evaluation))
    evaluate_cell(folder, evaluation)
    return folder


def scores(folder: Path) -> list[dict[str, object]]:
    return store.read_json(folder / "scores.json")["scores"]


def examples(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "examples.npz") as stored:
        return {name: stored[name].tobytes() for name in stored}


def of_training(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = ("metrics.jsonl", "checkpoint/weights.safetensors", "provenance.json", "config.json")
    return {name: ((folder / name).stat().st_ino, (folder / name).read_bytes()) for name in files}


@pytest.mark.parametrize("tune", [{}, {"last_blocks": 1, "frozen_dropout": False}])
def test_a_finished_cell_is_measured_on_more_as_if_it_had_had_them_from_the_start(source, home, tune):
    sizes = ({"test": test, "validation": 0} for test in (32, 60))
    cell, whole = (make(source, encoder={"tune": tune}, data=each) for each in sizes)
    folder = measured(cell, OWN)
    before = of_training(folder)
    assert [status.action for status in statuses([cell], MORE)] == ["evaluate"]
    evaluate_cell(folder, MORE)
    assert of_training(folder) == before and store.damage(folder, "TRAINED", thorough=True) is None
    assert [status.action for status in statuses([cell], MORE)] == ["reuse"]
    fresh = measured(whole, MORE.model_copy(update={"test": None}))
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


def test_a_fresh_cell_embeds_them_at_once_and_its_own_not_at_all(source, home, monkeypatch):
    late = measured(make(source), OWN)
    evaluate_cell(late, PLAIN)
    expected = scores(late), examples(late)
    monkeypatch.setenv("ABLATE_HOME", str(home / "other"))
    cell, sizes = make(source), []
    vectors = embed.Embedder.vectors
    monkeypatch.setattr(
        embed.Embedder,
        "vectors",
        lambda self, texts, others: (sizes.append(len(texts)), vectors(self, texts, others))[1],
    )
    folder = measured(cell, PLAIN)
    assert sizes == [16, 60] and (scores(folder), examples(folder)) == expected
    assert lacking(folder, OWN) and not lacking(folder, PLAIN)
    evaluate_cell(folder, OWN)
    assert sizes == [16, 60, 32] and {score["count"] for score in scores(folder)} >= {32}


def test_the_number_of_texts_is_part_of_how_a_cell_is_measured_only_where_it_is_given():
    assert evaluation_key(OWN) == evaluation_key(OWN.model_copy()) != evaluation_key(PLAIN)
    assert evaluation_key(PLAIN) != evaluation_key(PLAIN.model_copy(update={"test": 61}))
