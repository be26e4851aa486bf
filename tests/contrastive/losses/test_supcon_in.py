"""L_in against equation 3 of the paper as a double loop, and against L_out."""

import math

import pytest
import torch

from contrastive.losses.supcon import supcon
from contrastive.losses.supcon_in import supcon_in


def loop(rows: list[torch.Tensor], classes: list[int], temperature: float) -> torch.Tensor:
    rows = [row / (row @ row).sqrt() for row in rows]
    anchors = []
    for i, anchor in enumerate(rows):
        others = [j for j in range(len(rows)) if j != i]
        positives = [j for j in others if classes[j] == classes[i]]
        if positives:
            inside = sum(torch.exp(anchor @ rows[p] / temperature) for p in positives) / len(positives)
            anchors.append(-torch.log(inside / sum(torch.exp(anchor @ rows[j] / temperature) for j in others)))
    return sum(anchors) / len(anchors)


@pytest.mark.parametrize(("views", "classes"), [(1, [0, 1, 0, 1, 1]), (2, [0, 1, 2, 0]), (3, [0, 0, 1]), (2, [3, 3])])
@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_it_is_the_double_loop(views, classes, temperature, drawn, agree):
    tensor = drawn(len(classes), views)
    value = supcon_in(tensor, labels=torch.tensor(classes), temperature=temperature)
    rows = [row for sample in tensor for row in sample]
    agree(value, loop(rows, [c for c in classes for _ in range(views)], temperature), tensor)


@pytest.mark.parametrize("seed", range(10))
def test_it_is_never_more_than_the_form_with_the_mean_outside(seed, drawn):
    tensor, labels = drawn(8, 2, seed=seed), torch.tensor([0, 1, 2, 0, 1, 2, 0, 0])
    for temperature in (0.05, 0.5):
        assert supcon_in(tensor, labels=labels, temperature=temperature) < supcon(
            tensor, labels=labels, temperature=temperature
        )


def test_with_one_positive_each_the_two_forms_are_one(drawn, agree):
    tensor, labels = drawn(4, 1), torch.tensor([0, 1, 0, 1])
    agree(supcon_in(tensor, labels=labels), supcon(tensor, labels=labels), tensor)


def test_equal_vectors_give_the_logarithm_of_the_number_of_others():
    tensor = torch.ones(4, 2, 3, dtype=torch.float64)
    assert float(supcon_in(tensor, labels=torch.tensor([0, 0, 1, 1]))) == pytest.approx(math.log(7))
