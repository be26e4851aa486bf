"""L_in against L_out, and where its value is known."""

import math

import pytest
import torch

from contrastive.losses.supcon import supcon
from contrastive.losses.supcon_in import supcon_in


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
