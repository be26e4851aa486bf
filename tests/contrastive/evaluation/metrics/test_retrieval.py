"""Retrieval is that of pytorch-metric-learning, and with ties that of a loop that ranks other classes first."""

import numpy as np
import pytest
import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.types import Inputs
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, LABELS, directions, inputs


def values(given: Inputs) -> dict[str, float]:
    return {score.name: score.value for score in measure(["retrieval"], given)}


@pytest.mark.parametrize(
    ("sizes", "noise"), [((700, 300), 0.3), ((100, 80, 60, 20), 1.0), ((2,) * 40, 0.3), ((150, 3, 1, 1), 1.0)]
)
def test_it_is_that_of_pytorch_metric_learning(sizes, noise):
    generator = np.random.default_rng(0)
    labels = generator.permutation(np.repeat(np.arange(len(sizes)), sizes))
    vectors = (np.eye(40, 40)[labels] + noise * generator.normal(size=(len(labels), 40))).astype(np.float32)
    calculator = AccuracyCalculator(
        include=("precision_at_1", "mean_average_precision_at_r"),
        k="max_bin_count",
        device=torch.device("cpu"),
        knn_func=CustomKNN(CosineSimilarity()),
    )
    expected = calculator.get_accuracy(torch.tensor(vectors).double(), torch.tensor(labels))
    found = {score.name: score for score in measure(["retrieval"], Inputs(vectors, labels, None, 5))}
    for name, theirs in (("precision_at_1", "precision_at_1"), ("map_at_r", "mean_average_precision_at_r")):
        score = found[name]
        assert score.value == pytest.approx(expected[theirs], abs=1e-5) and score.higher_is_better
        assert np.isnan(score.per_example).sum() == sizes.count(1) and score.count == len(labels) - sizes.count(1)
        assert np.nanmean(score.per_example) == pytest.approx(score.value, rel=1e-5)
    first = found["precision_at_1"]
    assert first.standard_error == pytest.approx((first.value * (1 - first.value) / first.count) ** 0.5)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_it_is_the_loop_that_ranks_other_classes_first(name):
    first, precision = [], []
    for text, vector in enumerate(directions(name)):
        apart = np.round(np.square(directions(name) - vector).sum(1), 12)  # equally near beyond
        others = np.delete(np.arange(len(LABELS)), text)
        same = LABELS[others] == LABELS[text]
        ranked = same[np.lexsort((same, apart[others]))]
        wanted = same.sum()
        first.append(ranked[0])
        precision.append(sum(ranked[: k + 1].mean() for k in range(wanted) if ranked[k]) / wanted)
    found = values(inputs(name))
    close = 1e-9 if name in ("clouds", "duplicates", "huge", "tiny", "one point", "zeros", "a point a class") else 0.02
    assert found == pytest.approx({"precision_at_1": np.mean(first), "map_at_r": np.mean(precision)}, abs=close)
