"""SupCon where its value is known, and its floor."""

import math

import pytest
import torch

from contrastive.losses.similarity import least
from contrastive.losses.supcon import supcon


@pytest.mark.parametrize(("samples", "views"), [(3, 1), (4, 2), (2, 5)])
def test_equal_vectors_give_the_logarithm_of_the_number_of_others(samples, views):
    tensor = torch.ones(samples, views, 3, dtype=torch.float64)
    labels = torch.arange(samples) % 2
    assert float(supcon(tensor, labels=labels, temperature=0.1)) == pytest.approx(math.log(samples * views - 1))


def test_two_opposite_classes_in_closed_form():
    """Two vectors each of ±e: every anchor has one positive at cosine 1 and two negatives at cosine −1."""
    tensor = torch.tensor([[[2.0, 0.0]], [[3.0, 0.0]], [[-1.0, 0.0]], [[-5.0, 0.0]]], dtype=torch.float64)
    value = supcon(tensor, labels=torch.tensor([0, 0, 1, 1]), temperature=0.5)
    assert float(value) == pytest.approx(math.log(1 + 2 * math.exp(-4)))


@pytest.mark.parametrize("views", [1, 2, 5])
def test_collapsed_and_separated_classes_reach_the_floor(views):
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    centres = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    tensor = centres[labels][:, None].expand(6, views, 2)
    floor = least("class", labels, torch.ones(6, views, dtype=torch.bool))
    assert float(floor) == pytest.approx(math.log(3 * views - 1))
    assert float(supcon(tensor, labels=labels, temperature=0.01)) == pytest.approx(float(floor), abs=1e-6)


def test_the_floor_counts_only_kept_vectors_and_anchors_with_positives():
    labels = torch.tensor([0, 0, 1])
    mask = torch.tensor([[True, True], [True, False], [True, False]])  # three of class 0, a lonely one of class 1
    assert float(least("class", labels, mask)) == pytest.approx(math.log(2))
    assert float(least("class", labels, torch.zeros(3, 2, dtype=torch.bool))) == 0.0


def test_a_tensor_without_its_views_axis_is_refused():
    with pytest.raises(Exception, match="views"):
        supcon(torch.randn(4, 3), labels=torch.tensor([0, 0, 1, 1]), temperature=0.1)
