"""What every entry of METRICS keeps, whatever it measures."""

import math
import tracemalloc

import numpy as np
import pytest

from contrastive.config import registry
from contrastive.contract import vectors
from contrastive.contract.vectors import clouds
from contrastive.errors import UserError
from contrastive.evaluation.metrics import METRICS, measure
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

every_metric = pytest.mark.parametrize("name", METRICS)
knows_classes = pytest.mark.parametrize("name", sorted({*METRICS} - {"uniformity", "anisotropy"}))


@pytest.mark.parametrize(
    ("name", "holds"), [(name, holds) for name in METRICS for holds in vectors.metric_checks(name, "")]
)
def test_every_metric_keeps_the_contract(name, holds):
    vectors.metric_checks(name, "")[holds]()


@every_metric
def test_contributions_of_examples_have_the_score_as_their_mean(name):
    for score in measure([name], clouds()):
        if score.per_example is not None and score.name != "top_singular_share":  # which has its spectrum there
            assert score.per_example.shape == (90,) and score.per_example.dtype in (bool, np.float32)
            assert score.per_example.mean() == pytest.approx(score.value, rel=1e-5)


@knows_classes
def test_separated_classes_are_worth_more_than_mixed_ones(name):
    clear, mixed = clouds(noise=0.05), clouds(noise=50.0)
    certain = np.eye(3, dtype=np.float32)[clear.labels] * 5
    clear = Inputs(clear.embeddings, clear.labels, certain, 5, clear.twice)
    for good, bad in zip(measure([name], clear), measure([name], mixed), strict=True):
        assert good.value > bad.value if good.higher_is_better else good.value < bad.value


@every_metric
def test_labels_need_not_start_at_zero_nor_be_dense(name):
    inputs = clouds()
    names = np.array([3, 10, 7])
    logits = np.full((90, 11), -1e3, np.float32)  # of classes that there are not
    logits[:, names] = inputs.logits
    renamed = Inputs(inputs.embeddings, names[inputs.labels], logits, 5, inputs.twice)
    plain, other = measure([name], inputs), measure([name], renamed)
    assert [score.value for score in plain] == pytest.approx([score.value for score in other])


@pytest.mark.full
@every_metric
def test_memory_stays_far_below_a_square_of_the_texts(name):
    inputs = clouds(texts=8000, size=4)
    tracemalloc.start()
    measure([name], inputs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 8000**2 / 4


@pytest.mark.parametrize("name", [name for name, line in registry.metrics().items() if line.facts.folded])
def test_too_few_texts_a_class_for_the_folds(name):
    inputs = Inputs(np.random.rand(9, 3).astype(np.float32), np.array([0] * 6 + [1] * 3), None, folds=5)
    with pytest.raises(
        UserError, match=r"5 folds need 5 texts per class; the smallest class has 3: set evaluation.folds"
    ):
        measure([name], inputs)


@every_metric
def test_one_class_can_be_told_from_no_other(name):
    inputs, left_out = Inputs(np.random.rand(9, 3).astype(np.float32), np.zeros(9, np.int64), None, folds=5), {}
    measure([name], inputs, left_out)
    assert list(left_out) == ([name] if registry.metrics()[name].facts.of_classes else [])
    assert all("all 9 texts are of one class" in why for why in left_out.values())


@every_metric
def test_what_one_text_cannot_have_is_left_out(name):
    logits, left_out = np.zeros((1, 2), np.float32), {}
    found = measure([name], Inputs(np.ones((1, 3), np.float32), np.zeros(1, np.int64), logits, folds=5), left_out)
    assert bool(left_out) != bool(found)


def test_all_at_once_in_the_order_of_names_are_what_each_gives_alone():
    inputs, names = clouds(), list(reversed(METRICS))
    assert measure(names, inputs) == [score for name in names for score in measure([name], inputs)]


def test_embeddings_that_are_no_numbers_are_named():
    for bad in (np.nan, np.inf, -np.inf):
        vectors = np.zeros((4, 3), np.float32)
        vectors[1, 2] = vectors[3, 0] = bad
        with pytest.raises(UserError, match="2 of 4 embeddings contain NaN or infinity"):
            Inputs(vectors, np.arange(4), None, 5).check()
    with pytest.raises(UserError, match="no embeddings to measure"):
        Inputs(np.zeros((0, 3), np.float32), np.zeros(0, np.int64), None, 5).check()


def test_the_standard_error_of_a_proportion():
    right = np.array([True] * 95 + [False] * 5)
    assert proportion("x", right) == Score("x", 0.95, True, 100, standard_error=math.sqrt(0.95 * (1 - 0.95) / 100))
    assert proportion("x", np.repeat(right, 250)).standard_error == pytest.approx(0.0014, abs=5e-5)
