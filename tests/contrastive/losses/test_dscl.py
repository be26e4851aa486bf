"""DSCL: SupCon and NT-Xent as its special cases."""

import pytest
import torch

from contrastive.losses.dscl import dscl
from contrastive.losses.supcon import supcon


@pytest.mark.parametrize("mates", [1, 2, 4])
def test_with_the_weight_of_an_equal_share_it_is_supcon(mates, drawn, agree):
    """α = 1/(|P| + 1), that is β = |P|, with |P| class mates in two views each."""
    tensor, labels = drawn(2 * (mates + 1), 2), torch.arange(2 * (mates + 1)) % 2
    value = dscl(tensor, labels=labels, temperature=0.1, beta=2.0 * mates)
    agree(value, supcon(tensor, labels=labels, temperature=0.1), tensor)


def test_a_large_weight_on_the_own_view_is_ntxent(drawn):
    from contrastive.losses.ntxent import ntxent

    tensor, labels = drawn(4, 2).detach(), torch.tensor([0, 0, 1, 1])
    assert float(dscl(tensor, labels=labels, temperature=0.1, beta=0.0)) == pytest.approx(
        float(ntxent(tensor, temperature=0.1))
    )
