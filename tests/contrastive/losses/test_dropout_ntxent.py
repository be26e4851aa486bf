"""NT-Xent of logits: what it draws together."""

import torch

from contrastive.losses.dropout_ntxent import dropout_ntxent


def test_it_falls_when_two_predictions_of_a_text_agree(drawn):
    tensor = drawn(6, 2, size=3).detach()
    same = torch.stack([tensor[:, 0], tensor[:, 0]], dim=1)
    assert dropout_ntxent(same) < dropout_ntxent(tensor)
