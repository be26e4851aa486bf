"""Evaluation reads arrays and leaves scores and coordinates: whole, the same each time, or a clear error."""

import json
from pathlib import Path

import numpy as np
import pytest

from contrastive.config.evaluation import Evaluation
from contrastive.errors import UserError
from contrastive.evaluation.evaluate import evaluate_folder
from contrastive.evaluation.metrics import METRICS
from contrastive.grid.identity import EVALUATION_VERSION, evaluation_key

TEXTS = 60


@pytest.fixture
def folder(tmp_path):
    return filled(tmp_path)


def in_place(folder: Path, evaluation: Evaluation) -> None:
    evaluate_folder(folder, evaluation, into=folder)


def filled(folder, texts: int = TEXTS, size: int = 5, splits=("validation", "test")):
    """A run folder as training leaves it: three clouds; the head is wrong about the first five texts."""
    generator = np.random.default_rng(0)
    embeddings, predictions = {}, {}
    for split in splits:
        labels = np.arange(texts) % 3
        own = {f"{split}.labels": labels, f"{split}.ids": generator.permutation(10 * texts)[:texts].astype(np.uint64)}
        vectors = 9 * np.eye(3, size)[labels] + generator.normal(size=(texts, size))
        logits = np.eye(3)[np.where(np.arange(texts) < 5, (labels + 1) % 3, labels)]
        embeddings |= {split: vectors.astype(np.float32)} | own
        predictions |= {f"{split}.logits": logits.astype(np.float32)} | own
    folder.mkdir(exist_ok=True)
    np.savez(folder / "embeddings.npz", **embeddings)
    np.savez(folder / "predictions.npz", **predictions)
    return folder


def change(path, **arrays):
    np.savez(path, **(dict(np.load(path)) | arrays))


def scores(folder) -> dict[str, float]:
    return {score["name"]: score["value"] for score in json.loads((folder / "scores.json").read_text())["scores"]}


def test_every_score_of_every_split_is_kept_with_the_key(folder):
    measures = ("accuracy", "macro_f1", "svm", "knn", "kmeans")
    evaluation = Evaluation(splits=("validation", "test"), metrics=measures)
    in_place(folder, evaluation)
    document = json.loads((folder / "scores.json").read_text())
    assert (document["version"], document["key"]) == (
        EVALUATION_VERSION,
        evaluation_key(evaluation),
    ) and "notes" not in document
    knn = ("knn_accuracy", "knn_cosine_accuracy")
    metrics = ("accuracy", "macro_f1", "svm_accuracy", *knn, "ari", "nmi", "kmeans_accuracy")
    assert list(scores(folder)) == [f"{split}.{metric}" for split in evaluation.splits for metric in metrics]
    assert scores(folder)["test.accuracy"] == 55 / 60
    assert scores(folder)["test.knn_accuracy"] == scores(folder)["test.ari"] == 1.0
    first = document["scores"][0]
    assert set(first) == {"name", "value", "higher_is_better", "count", "unit", "standard_error"}
    assert (first["count"], first["higher_is_better"]) == (60, True)
    assert first["standard_error"] == pytest.approx((55 / 60 * 5 / 60 / 60) ** 0.5)


def test_vectors_that_are_all_the_same_are_an_alarm_whatever_is_measured(folder):
    """Logistic regression standardises dimensions, and would read classes out of differences of a millionth."""
    apart = np.load(folder / "embeddings.npz")["test"]
    for spread, alarms in ((1.0, []), (1e-1, []), (1e-6, ["test.collapsed"])):
        change(folder / "embeddings.npz", test=(np.ones(5) + spread * apart / 9).astype(np.float32))
        in_place(folder, Evaluation(metrics=("accuracy", "logistic")))
        assert scores(folder)["test.logistic_accuracy"] > 0.9
        assert [name for name in scores(folder) if name.endswith("collapsed")] == alarms
    in_place(folder, Evaluation(metrics=("anisotropy",)))
    assert scores(folder)["test.collapsed"] == 1.0


def test_a_split_without_texts(tmp_path):
    with pytest.raises(UserError, match="no validation texts to evaluate on: set data.validation"):
        in_place(filled(tmp_path, splits=("test",)), Evaluation(splits=("validation",)))


@pytest.mark.parametrize(("file", "array"), [("embeddings", "test"), ("predictions", "test.logits")])
def test_numbers_that_are_none_leave_no_scores(folder, file, array):
    spoiled = np.load(folder / f"{file}.npz")[array]
    spoiled[7, 1] = np.nan
    change(folder / f"{file}.npz", **{array: spoiled})
    with pytest.raises(UserError, match=f"{file} contain NaN or infinity: the training diverged"):
        in_place(folder, Evaluation())
    assert not (folder / "scores.json").exists() and not (folder / "picture.npz").exists()


def test_what_too_few_texts_a_class_cannot_have_is_left_out(folder):
    in_place(folder, Evaluation(metrics=("accuracy", "svm", "knn", "kmeans"), folds=100))
    assert list(scores(folder)) == ["test.accuracy", "test.ari", "test.nmi", "test.kmeans_accuracy"]
    notes = json.loads((folder / "scores.json").read_text())["notes"]
    assert list(notes) == ["test.svm", "test.knn"]
    assert notes["test.svm"].startswith("100 folds need 100 texts per class; the smallest class has 20")


def with_training(folder: Path, **others: np.ndarray) -> Path:
    """Training texts: those of test, twice as far apart; and other vectors."""
    stored = dict(np.load(folder / "embeddings.npz"))
    train = {"train": 2 * stored["test"], "train.labels": stored["test.labels"], "train.ids": stored["test.ids"]}
    change(folder / "embeddings.npz", **train, **others)
    return folder


def test_each_further_vector_and_post_processing_is_a_row_of_its_own(folder):
    mixed = np.random.default_rng(5).normal(size=(TEXTS, 5)).astype(np.float32)
    with_training(folder, **{"test/mean": mixed, "train/mean": mixed})
    evaluation = Evaluation(metrics=("accuracy", "kmeans"), vectors=("mean",), post=("standardise", "whiten:2"))
    in_place(folder, evaluation)
    rows = ("", "standardise/", "whiten:2/", "mean/", "mean/standardise/", "mean/whiten:2/")
    assert [name for name in scores(folder) if name.endswith(".ari")] == [f"{row}test.ari" for row in rows]
    assert [name for name in scores(folder) if name.endswith("test.accuracy")] == ["test.accuracy"]  # only what trained
    assert scores(folder)["test.ari"] == 1.0 and scores(folder)["mean/test.ari"] < 0.5


def test_post_processing_learns_from_training_texts_alone(folder):
    """Standardised by the training texts, whose deviation is twice that of the test texts."""
    with_training(folder)
    vectors = np.load(folder / "embeddings.npz")["test"].astype(np.float64)
    in_place(folder, Evaluation(metrics=("alignment",), post=("standardise",)))
    expected = (vectors - 2 * vectors.mean(0)) / (2 * vectors.std(0))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    labels = np.arange(TEXTS) % 3
    pairs = [(i, j) for i in range(TEXTS) for j in range(i) if labels[i] == labels[j]]
    by_hand = np.mean([((expected[i] - expected[j]) ** 2).sum() for i, j in pairs])
    assert scores(folder)["standardise/test.alignment_class"] == pytest.approx(by_hand, rel=1e-4)


def test_what_each_text_adds_is_kept(folder):
    in_place(folder, Evaluation(metrics=("accuracy", "svm", "kmeans")))
    with np.load(folder / "examples.npz") as each, np.load(folder / "embeddings.npz") as given:
        assert (each["test.ids"] == given["test.ids"]).all()
        assert (each["test.accuracy"] == (np.arange(TEXTS) >= 5)).all()
        for name in ("test.svm_accuracy", "test.kmeans_accuracy"):
            assert each[name].dtype == bool and each[name].mean() == scores(folder)[name]


@pytest.mark.full
def test_one_thread_and_two_give_the_same_bytes(tmp_path):
    evaluation = Evaluation(metrics=tuple(METRICS), post=("whiten", "standardise", "flow"))
    for count in (1, 2):
        folder = with_training(filled(tmp_path / str(count), 200, 16))
        evaluate_folder(folder, evaluation, into=folder, threads=count)
    for file in ("scores.json", "picture.npz", "examples.npz"):
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / "2" / file).read_bytes()


def test_an_error_names_the_cell_the_row_and_the_split(tmp_path):
    folder = with_training(filled(tmp_path / "0123abcd"))
    spoiled = np.full((TEXTS, 5), np.nan, np.float32)
    change(folder / "embeddings.npz", **{"test/cls": spoiled, "train/cls": spoiled})
    with pytest.raises(UserError, match=r"^0123abcd: cls: test: 60 of 60 embeddings contain NaN or infinity"):
        in_place(folder, Evaluation(vectors=("cls",)))
