"""Contrastive Tension: the expectation over the draws of seven, and where its value is known."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from contrastive.losses.bert_ct import RANDOM, bert_ct


def pair(x: torch.Tensor, y: torch.Tensor, same: float) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(x @ y, torch.tensor(same, dtype=x.dtype))


def test_with_more_it_is_the_mean_over_every_draw_of_seven(drawn):
    tensor = drawn(RANDOM + 2, 2).detach()
    value = 0.0
    for i, anchor in enumerate(tensor):
        others = [j for j in range(len(tensor)) if j != i]
        draws = [
            sum(pair(anchor[0], tensor[j, 1], 0.0) for j in draw) for draw in itertools.combinations(others, RANDOM)
        ]
        value += float(pair(anchor[0], anchor[1], 1.0) + sum(draws) / len(draws)) / len(tensor)
    assert float(bert_ct(tensor)) == pytest.approx(value)


def test_vectors_of_zero_are_a_coin_each():
    assert float(bert_ct(torch.zeros(4, 2, 3))) == pytest.approx(8 * math.log(2))
