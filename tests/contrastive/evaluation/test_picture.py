"""Pictures show the same texts of every cell, keep what is apart apart, and are the same with any number of threads."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE, trustworthiness

from contrastive.config.evaluation import Evaluation
from contrastive.evaluation.picture import make_picture, scaled, tsne


def clouds(texts: int = 90, size: int = 5, apart: float = 9.0):
    labels = np.arange(texts) % 3
    vectors = apart * np.eye(3, size)[labels] + np.random.default_rng(0).normal(size=(texts, size))
    return vectors.astype(np.float32), labels


def stored(texts: int = 60, size: int = 5):
    vectors, labels = clouds(texts, size)
    ids = np.random.default_rng(1).permutation(10 * texts)[:texts].astype(np.uint64)
    return {"test": vectors, "test.labels": labels, "test.ids": ids}


def test_it_shows_the_texts_with_the_smallest_ids():
    given = stored()
    found = make_picture(given, Evaluation(picture_points=20))
    assert found["x"].shape == (20, 2) and found["x"].dtype == np.float32 and np.isfinite(found["x"]).all()
    assert sorted(found["ids"]) == sorted(given["test.ids"])[:20]
    label_of = dict(zip(given["test.ids"].tolist(), given["test.labels"].tolist(), strict=True))
    assert [label_of[number] for number in found["ids"].tolist()] == found["labels"].tolist()
    assert (str(found["reason"]), str(found["method"])) == ("", "t-SNE")


def test_it_begins_from_the_principal_components():
    """Three clouds in a row stay in their order, which a start at random would not keep."""
    labels = np.repeat(np.arange(3), 60)
    vectors = np.random.default_rng(0).normal(size=(180, 6))
    vectors[:, 0] += 30 * labels
    points = tsne(scaled(vectors.astype(np.float32)))
    first = PCA(1).fit_transform(vectors)[:, 0]
    assert abs(np.corrcoef(points[:, 0], first)[0, 1]) > 0.9


@pytest.mark.full
def test_it_is_as_faithful_as_that_of_scikit_learn():
    vectors, _ = clouds(400, 20, apart=3)
    theirs = TSNE(init="pca", random_state=0, n_jobs=1).fit_transform(vectors)
    assert (
        trustworthiness(vectors, tsne(scaled(vectors)), n_neighbors=10)
        >= trustworthiness(vectors, theirs, n_neighbors=10) - 0.005
    )


NOISE = np.random.default_rng(0).normal(size=(60, 5))


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        (np.eye(40), "put all 40 texts onto one point"),  # equally far apart
        (NOISE[:1], "there are 1 texts of 5"),
        (NOISE[:3], "there are 3 texts of 5"),
        (NOISE[:9, :1], "there are 9 texts of 1"),
        (3 + 0 * NOISE, "all 60 texts are the same: they have collapsed"),
        (3 + 1e-7 * NOISE, "all 60 texts are the same: they have collapsed"),
    ],
)
def test_embeddings_without_a_picture_say_why(vectors, reason):
    found = make_picture(stored(len(vectors)) | {"test": vectors.astype(np.float32)}, Evaluation())
    assert found["x"].shape == (0, 2) and len(found["labels"]) == len(found["ids"]) == 0
    assert reason in str(found["reason"])


def test_the_size_of_embeddings_does_not_change_it():
    vectors = scaled(clouds()[0])
    for size in (2.0**-100, 2.0**-30, 2.0**50, 2.0**120):
        assert (scaled(clouds()[0] * np.float32(size)) == vectors).all(), size
