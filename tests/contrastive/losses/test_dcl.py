"""DCL and DCLW against equation 6 of the paper as a loop."""

import math

import pytest
import torch

from contrastive.losses.dcl import dcl
from contrastive.losses.dclw import dclw


def loop(tensor: torch.Tensor, temperature: float, sigma: float | None) -> torch.Tensor:
    """The sum over images i and views k; the weight is a constant."""
    z = [[row / (row @ row).sqrt() for row in sample] for sample in tensor]
    agreement = [math.exp(float((first @ second).detach()) / sigma) for first, second in z] if sigma else []
    values = []
    for i, sample in enumerate(z):
        weight = 2 - agreement[i] / (sum(agreement) / len(agreement)) if sigma else 1.0
        for k in (0, 1):
            negatives = [row for j, other in enumerate(z) if j != i for row in other]
            partition = torch.log(sum(torch.exp(sample[k] @ row / temperature) for row in negatives))
            values.append(partition - weight * (sample[0] @ sample[1]) / temperature)
    return sum(values) / len(values)


@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_dcl_is_the_loop(temperature, drawn, agree):
    tensor = drawn(5, 2)
    agree(dcl(tensor, temperature=temperature), loop(tensor, temperature, None), tensor)


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_dclw_is_the_loop_with_a_constant_weight(sigma, drawn, agree):
    tensor = drawn(5, 2)
    agree(dclw(tensor, temperature=0.1, sigma=sigma), loop(tensor, 0.1, sigma), tensor)


@pytest.mark.parametrize("loss", [dcl, dclw])
def test_what_is_masked_takes_no_part(loss, drawn, agree):
    tensor = drawn(5, 2)
    mask = torch.tensor([[1, 1], [0, 0], [1, 1], [1, 1], [0, 0]], dtype=torch.bool)
    agree(loss(tensor, mask=mask), loss(tensor[mask.all(1)]), tensor)


def test_pairs_that_agree_alike_weigh_alike(drawn, agree):
    tensor = drawn(5, 1).expand(5, 2, 5)
    torch.testing.assert_close(dclw(tensor), dcl(tensor), atol=1e-12, rtol=0)


def test_equal_vectors_give_the_logarithm_of_the_negatives_less_the_similarity():
    assert float(dcl(torch.ones(4, 2, 3, dtype=torch.float64))) == pytest.approx(math.log(6), abs=1e-9)
