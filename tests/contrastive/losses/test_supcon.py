"""SupCon against the formula as a double loop, against pytorch-metric-learning, and where its value is known."""

import math

import pytest
import torch
from pytorch_metric_learning.losses import SupConLoss
from pytorch_metric_learning.reducers import MeanReducer

from contrastive.losses.supcon import supcon, supcon_floor


def drawn(samples: int, views: int, size: int = 5, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples, views, size, generator=generator, dtype=torch.float64).requires_grad_()


def loop(rows: list[torch.Tensor], classes: list[int], temperature: float) -> torch.Tensor:
    """Equation 2 of the paper, term by term; anchors without a positive leave the mean."""
    rows = [row / (row @ row).sqrt() for row in rows]
    anchors = []
    for i, anchor in enumerate(rows):
        others = [j for j in range(len(rows)) if j != i]
        positives = [j for j in others if classes[j] == classes[i]]
        if positives:
            partition = sum(torch.exp(anchor @ rows[j] / temperature) for j in others)
            logs = [torch.log(torch.exp(anchor @ rows[j] / temperature) / partition) for j in positives]
            anchors.append(-sum(logs) / len(positives))
    return sum(anchors) / len(anchors)


SEVERAL_CLASSES = [
    (1, [0, 1, 0, 1, 1]),
    (2, [0, 1, 2, 0]),  # classes 1 and 2 have only their own other view
    (3, [0, 0, 1]),
    (1, [0, 0, 1, 2]),  # classes 1 and 2 are lonely
]
CASES = pytest.mark.parametrize(("views", "classes"), [*SEVERAL_CLASSES, (2, [3, 3, 3])])


@CASES
@pytest.mark.parametrize("temperature", [0.07, 0.5, 1.0])
def test_it_is_the_double_loop(views, classes, temperature):
    tensor = drawn(len(classes), views)
    value = supcon(tensor, labels=torch.tensor(classes), temperature=temperature)
    expected = loop(
        [row for sample in tensor for row in sample], [c for c in classes for _ in range(views)], temperature
    )
    agree(value, expected, tensor)


def test_it_is_the_double_loop_over_what_the_mask_keeps():
    tensor, classes = drawn(4, 3), [0, 1, 0, 1]
    mask = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=torch.bool)
    value = supcon(tensor, labels=torch.tensor(classes), mask=mask, temperature=0.2)
    kept = [(i, j) for i in range(4) for j in range(3) if mask[i, j]]
    agree(value, loop([tensor[i, j] for i, j in kept], [classes[i] for i, _ in kept], 0.2), tensor)


@pytest.mark.parametrize(("views", "classes"), SEVERAL_CLASSES)
@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_it_is_that_of_pytorch_metric_learning(views, classes, temperature):
    """Theirs is 0 for a batch of one class, where the paper's formula is not: the double loop has that case."""
    tensor, labels = drawn(len(classes), views, seed=1), torch.tensor(classes)
    theirs = SupConLoss(temperature=temperature)(tensor.flatten(0, 1), labels.repeat_interleave(views))
    agree(supcon(tensor, labels=labels, temperature=temperature), theirs, tensor)


def test_lonely_anchors_leave_the_mean():
    tensor, labels = drawn(4, 1), torch.tensor([0, 0, 1, 2])
    value = supcon(tensor, labels=labels, temperature=0.1)
    kept_in_mean = SupConLoss(temperature=0.1, reducer=MeanReducer())(tensor.flatten(0, 1), labels)
    assert float(value.detach()) == pytest.approx(float(kept_in_mean.detach()) * 4 / 2)


def agree(value: torch.Tensor, expected: torch.Tensor, tensor: torch.Tensor) -> None:
    torch.testing.assert_close(value, expected, atol=1e-10, rtol=1e-10)
    ours, theirs = (torch.autograd.grad(it, tensor)[0] for it in (value, expected))
    torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


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
    floor = supcon_floor(labels, torch.ones(6, views, dtype=torch.bool))
    assert float(floor) == pytest.approx(math.log(3 * views - 1))
    assert float(supcon(tensor, labels=labels, temperature=0.01)) == pytest.approx(float(floor), abs=1e-6)


def test_the_floor_counts_only_kept_vectors_and_anchors_with_positives():
    labels = torch.tensor([0, 0, 1])
    mask = torch.tensor([[True, True], [True, False], [True, False]])  # three of class 0, a lonely one of class 1
    assert float(supcon_floor(labels, mask)) == pytest.approx(math.log(2))
    assert float(supcon_floor(labels, torch.zeros(3, 2, dtype=torch.bool))) == 0.0


def test_a_tensor_without_its_views_axis_is_refused():
    with pytest.raises(Exception, match="views"):
        supcon(torch.randn(4, 3), labels=torch.tensor([0, 0, 1, 1]), temperature=0.1)
