"""Cross-entropy where its value or gradient is known."""

import math

import pytest
import torch

from contrastive.losses.ce import ce


@pytest.mark.parametrize("classes", [2, 7])
def test_no_opinion_costs_the_logarithm_of_the_number_of_classes(classes):
    value = ce(torch.zeros(3, 1, classes), labels=torch.tensor([0, 1, 1]))
    assert float(value) == pytest.approx(math.log(classes))


def test_two_predictions_count_half_each():
    logits, labels = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0])
    first, second = (ce(logits[:, i : i + 1], labels=labels) for i in (0, 1))
    torch.testing.assert_close(ce(logits, labels=labels), (first + second) / 2)


def test_the_gradient_is_probability_minus_truth():
    logits, labels = torch.randn(4, 1, 3, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 2, 0])
    (slope,) = torch.autograd.grad(ce(logits, labels=labels), logits)
    truth = torch.eye(3, dtype=torch.float64)[labels]
    torch.testing.assert_close(slope[:, 0], (logits[:, 0].softmax(-1) - truth) / 4)


def test_logits_without_their_passes_axis_are_refused():
    with pytest.raises(Exception, match="logits"):
        ce(torch.randn(4, 3), labels=torch.tensor([0, 1, 2, 0]))
