"""DeCLUTR: NT-Xent over the anchors of all documents, each with the mean of its positives."""

import torch

from contrastive.losses.clear import clear
from contrastive.losses.declutr import declutr
from contrastive.losses.ntxent import ntxent


def test_each_anchor_is_a_sample_of_its_own(drawn, agree):
    tensor = drawn(3, 4)
    pairs = torch.stack([tensor[i, [2 * a, 2 * a + 1]] for i in range(3) for a in range(2)])
    agree(declutr(tensor), ntxent(pairs, temperature=0.05), tensor)


def test_masked_anchors_take_no_part(drawn, agree):
    tensor = drawn(3, 4)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.bool)
    kept = torch.stack([tensor[0, :2], tensor[0, 2:], tensor[1, :2], tensor[2, 2:]])
    agree(declutr(tensor, mask=mask), ntxent(kept, temperature=0.05), tensor)


def test_clear_is_ntxent_of_two_versions(drawn, agree):
    tensor = drawn(5, 2)
    agree(clear(tensor), ntxent(tensor, temperature=0.1), tensor)
