"""What hard negatives do to SimCSE; that it is the formula, tests/contrastive/losses/oracles.py says."""

import math

import pytest
import torch

from contrastive.losses.simcse import simcse
from contrastive.losses.simcse_sup import simcse_sup


def test_of_a_masked_sample_neither_pair_nor_hard_negative_counts(drawn, agree):
    views, negatives = drawn(5, 2), drawn(5, 1, seed=1)[:, 0]
    mask = torch.tensor([[1, 1], [1, 0], [1, 1], [0, 1], [1, 1]], dtype=torch.bool)
    kept = mask.all(1)
    ours = simcse_sup(views, negatives=negatives.where(kept[:, None], math.nan), mask=mask)
    agree(ours, simcse_sup(views[kept], negatives=negatives[kept]), views)


def test_hard_negatives_only_raise_it_and_near_ones_most(drawn):
    views = drawn(6, 2).detach()
    plain = float(simcse(views, temperature=0.1))
    assert float(simcse_sup(views, negatives=views[:, 0], temperature=0.1)) > plain + 1
    away = -views[:, 0].mean(0, keepdim=True).expand(6, -1)
    assert plain < float(simcse_sup(views, negatives=away, temperature=0.1)) < plain + 1


def test_equal_vectors_give_the_logarithm_of_all_candidates():
    value = simcse_sup(torch.ones(4, 2, 3, dtype=torch.float64), negatives=torch.ones(4, 3, dtype=torch.float64))
    assert float(value) == pytest.approx(math.log(8))


def test_a_hard_negative_for_each_text(drawn):
    with pytest.raises(Exception, match=r"(?s)negatives"):
        simcse_sup(drawn(4, 2), negatives=torch.ones(3, 5, dtype=torch.float64))
