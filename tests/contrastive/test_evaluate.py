"""Evaluation reads arrays and leaves scores and coordinates: whole, the same each time, or a clear error."""

import json
from pathlib import Path

import numpy as np
import pytest

from contrastive.errors import UserError
from contrastive.evaluate import evaluate, tsne
from contrastive.evaluation import Evaluation
from contrastive.identity import evaluation_key

TEXTS = 60


@pytest.fixture
def folder(tmp_path):
    return filled(tmp_path)


def in_place(folder: Path, evaluation: Evaluation) -> None:
    evaluate(folder, evaluation, into=folder)


def filled(folder, texts: int = TEXTS, size: int = 5, *, head: bool = True, splits=("validation", "test")):
    """A run folder as training leaves it: three clouds; the head is wrong about the first five texts."""
    generator = np.random.default_rng(0)
    embeddings, predictions = {}, {}
    for split in splits:
        labels = np.arange(texts) % 3
        own = {f"{split}.labels": labels, f"{split}.ids": generator.permutation(10 * texts)[:texts].astype(np.uint64)}
        vectors = 9 * np.eye(3, size)[labels] + generator.normal(size=(texts, size))
        logits = np.eye(3)[np.where(np.arange(texts) < 5, (labels + 1) % 3, labels)]
        embeddings |= {split: vectors.astype(np.float32)} | own
        predictions |= {f"{split}.logits": logits.astype(np.float32)} | own if head else {}
    folder.mkdir(exist_ok=True)
    np.savez(folder / "embeddings.npz", **embeddings)
    np.savez(folder / "predictions.npz", **predictions)
    return folder


def change(path, **arrays):
    np.savez(path, **(dict(np.load(path)) | arrays))


def scores(folder) -> dict[str, float]:
    return {score["name"]: score["value"] for score in json.loads((folder / "scores.json").read_text())["scores"]}


def test_every_score_of_every_split_is_kept_with_the_key(folder):
    evaluation = Evaluation(splits=("validation", "test"))
    in_place(folder, evaluation)
    document = json.loads((folder / "scores.json").read_text())
    assert (document["version"], document["key"]) == (1, evaluation_key(evaluation))
    knn = ("knn_accuracy", "knn_cosine_accuracy")
    metrics = ("accuracy", "macro_f1", "svm_accuracy", *knn, "ari", "nmi", "kmeans_accuracy")
    assert list(scores(folder)) == [f"{split}.{metric}" for split in evaluation.splits for metric in metrics]
    assert scores(folder)["test.accuracy"] == 55 / 60
    assert scores(folder)["test.knn_accuracy"] == scores(folder)["test.ari"] == 1.0
    first = document["scores"][0]
    assert set(first) == {"name", "value", "higher_is_better", "count", "unit", "standard_error"}
    assert (first["count"], first["higher_is_better"]) == (60, True)
    assert first["standard_error"] == pytest.approx((55 / 60 * 5 / 60 / 60) ** 0.5)


def test_only_what_is_asked_for(folder):
    in_place(folder, Evaluation(metrics=("knn",)))
    assert list(scores(folder)) == ["test.knn_accuracy", "test.knn_cosine_accuracy"]


def test_a_cell_without_a_head_has_no_accuracy(tmp_path):
    in_place(filled(tmp_path, head=False), Evaluation(metrics=("accuracy", "knn")))
    assert list(scores(tmp_path)) == ["test.knn_accuracy", "test.knn_cosine_accuracy"]


def test_two_evaluations_are_equal_to_the_byte(tmp_path):
    for name in ("one", "other"):
        in_place(filled(tmp_path / name), Evaluation())
    for file in ("scores.json", "tsne.npz"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_the_picture_shows_the_texts_with_the_smallest_ids(folder):
    in_place(folder, Evaluation(picture_points=20))
    picture, given = np.load(folder / "tsne.npz"), np.load(folder / "embeddings.npz")
    assert picture["x"].shape == (20, 2) and picture["x"].dtype == np.float32 and np.isfinite(picture["x"]).all()
    assert sorted(picture["ids"]) == sorted(given["test.ids"])[:20]
    label_of = dict(zip(given["test.ids"].tolist(), given["test.labels"].tolist(), strict=True))
    assert [label_of[number] for number in picture["ids"].tolist()] == picture["labels"].tolist()
    assert str(picture["reason"]) == ""


def test_the_picture_keeps_clouds_apart():
    labels = np.arange(90) % 3
    vectors = 20 * np.eye(3)[labels] + np.random.default_rng(0).normal(size=(90, 3))
    points = tsne(vectors.astype(np.float32))
    distances = np.linalg.norm(points[:, None] - points, axis=-1) + np.where(np.eye(90), np.inf, 0)
    assert (labels[distances.argmin(1)] == labels).all()


@pytest.mark.parametrize("texts", [4, 7, 31])
def test_few_texts_have_a_picture(tmp_path, texts):
    in_place(filled(tmp_path, texts), Evaluation(metrics=("accuracy",)))
    assert np.load(tmp_path / "tsne.npz")["x"].shape == (texts, 2)


@pytest.mark.parametrize(("texts", "size"), [(1, 5), (3, 5)])
def test_too_few_texts_have_none_and_the_reason_is_kept(tmp_path, texts, size):
    in_place(filled(tmp_path, texts, size), Evaluation(metrics=("accuracy",)))
    picture = np.load(tmp_path / "tsne.npz")
    assert picture["x"].shape == (0, 2) and len(picture["labels"]) == len(picture["ids"]) == 0
    assert f"there are {texts} texts of {size}" in str(picture["reason"])
    assert "test.accuracy" in scores(tmp_path)


@pytest.mark.parametrize("rounding", [0.0, 1e-7])
def test_collapsed_embeddings_are_said_to_be_so(folder, rounding):
    noise = rounding * np.random.default_rng(0).normal(size=(TEXTS, 5))
    change(folder / "embeddings.npz", test=(3 + noise).astype(np.float32))
    in_place(folder, Evaluation())
    picture = np.load(folder / "tsne.npz")
    assert picture["x"].shape == (0, 2) and "all 60 texts are the same: they have collapsed" in str(picture["reason"])
    assert scores(folder)["test.ari"] == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("size", [2.0**-100, 2.0**-30, 2.0**50, 2.0**120])
def test_the_size_of_embeddings_does_not_change_the_picture(folder, size):
    vectors = np.load(folder / "embeddings.npz")["test"]
    assert (tsne(vectors * np.float32(size)) == tsne(vectors)).all()


def test_a_split_without_texts(tmp_path):
    with pytest.raises(UserError, match="no validation texts to evaluate on: set data.validation"):
        in_place(filled(tmp_path, splits=("test",)), Evaluation(splits=("validation",)))


@pytest.mark.parametrize(("file", "array"), [("embeddings", "test"), ("predictions", "test.logits")])
def test_numbers_that_are_none_leave_no_scores(folder, file, array):
    spoiled = np.load(folder / f"{file}.npz")[array]
    spoiled[7, 1] = np.nan
    change(folder / f"{file}.npz", **{array: spoiled})
    with pytest.raises(UserError, match=f"{file} hold NaN or infinity: the training diverged"):
        in_place(folder, Evaluation())
    assert not (folder / "scores.json").exists() and not (folder / "tsne.npz").exists()


def test_the_text_order_of_the_arrays_is_free(folder, tmp_path):
    other = filled(tmp_path / "other")
    order = np.random.default_rng(1).permutation(TEXTS)
    for file in ("embeddings.npz", "predictions.npz"):
        change(other / file, **{k: v[order] for k, v in np.load(other / file).items() if k.startswith("test")})
    for it in (folder, other):
        in_place(it, Evaluation(metrics=("accuracy", "macro_f1", "kmeans")))
    assert scores(folder) == pytest.approx(scores(other))
    assert set(np.load(folder / "tsne.npz")["ids"]) == set(np.load(other / "tsne.npz")["ids"])


def test_a_split_with_too_few_texts_a_class_is_named(folder):
    with pytest.raises(UserError, match=r"^validation: 100 folds need 100 texts a class"):
        in_place(folder, Evaluation(splits=("validation", "test"), folds=100))
