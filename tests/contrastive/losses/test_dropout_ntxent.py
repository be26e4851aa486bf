"""NT-Xent of logits: the logits themselves, one softmax only."""

import pytest
import torch

from contrastive.losses.dropout_ntxent import dropout_ntxent
from contrastive.losses.ntxent import ntxent


def test_it_contrasts_the_logits_and_not_their_probabilities(drawn, agree):
    tensor = drawn(6, 2, size=3)
    value = dropout_ntxent(tensor)
    agree(value, ntxent(tensor, temperature=1 / 20), tensor)
    twice = ntxent(tensor.detach().softmax(-1), temperature=1 / 20)
    assert float(value.detach()) != pytest.approx(float(twice), rel=0.01)


def test_it_falls_when_two_predictions_of_a_text_agree(drawn):
    tensor = drawn(6, 2, size=3).detach()
    same = torch.stack([tensor[:, 0], tensor[:, 0]], dim=1)
    assert dropout_ntxent(same) < dropout_ntxent(tensor)
