"""Batches: every text once, padded right, and an order that depends on seed and epoch only."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contrastive import batches
from contrastive.data.tokens import TokenSplit

LENGTHS = np.random.default_rng(0).integers(2, 60, 203)


def split_of(rows: list[list[int]]) -> TokenSplit:
    offsets = np.cumsum([0, *(len(row) for row in rows)])
    labels = np.arange(len(rows)) % 3
    return TokenSplit(np.concatenate(rows).astype(np.int32), offsets, labels, labels.astype(np.uint64))


@given(st.integers(1, 80), st.integers(1, 20), st.integers(1, 12), st.integers(0, 5), st.integers(0, 3))
def test_every_index_exactly_once(count, size, bucket, seed, epoch):
    found = batches.order(LENGTHS[:count], size, bucket, seed, epoch)
    assert sorted(np.concatenate(found).tolist()) == list(range(count))
    assert sorted(len(batch) for batch in found)[1:] == [size] * (len(found) - 1)


def test_the_order_is_decided_by_seed_and_epoch():
    def flat(seed, epoch):
        return np.concatenate(batches.order(LENGTHS, 8, 4, seed, epoch)).tolist()

    assert flat(1, 0) == flat(1, 0)
    orders = [flat(seed, epoch) for seed in range(3) for epoch in range(3)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_buckets_save_padding_and_one_bucket_is_random():
    def padded(bucket):
        return sum(len(batch) * LENGTHS[batch].max() for batch in batches.order(LENGTHS, 8, bucket, 0, 0))

    assert padded(100) < 1.1 * LENGTHS.sum() < padded(1)
    firsts = [LENGTHS[batches.order(LENGTHS, 8, 100, seed, 0)[0]].mean() for seed in range(20)]
    assert max(firsts) - min(firsts) > 20  # the batches themselves come in random order


def test_collate_pads_to_the_longest_and_marks_what_is_no_word():
    split = split_of([[101, 7, 8, 9, 102], [101, 5, 102], [101, 102]])
    batch = batches.collate(split, np.array([1, 0]), pad_id=0, special_ids=(0, 101, 102))
    assert batch.input_ids.tolist() == [[101, 5, 102, 0, 0], [101, 7, 8, 9, 102]]
    assert batch.attention_mask.tolist() == [[True, True, True, False, False], [True] * 5]
    assert batch.special.tolist() == [[True, False, True, True, True], [True, False, False, False, True]]
    assert batch.labels.tolist() == [1, 0]
    assert len(batch) == 2
    assert (batch.input_ids.dtype, batch.labels.dtype, batch.special.dtype) == (torch.int64, torch.int64, torch.bool)


def test_padding_is_no_word_even_where_it_is_no_special_token():
    batch = batches.collate(split_of([[1, 5, 5, 2], [1, 2]]), np.array([0, 1]), pad_id=5, special_ids=(1, 2))
    assert batch.special.tolist() == [[True, False, False, True], [True] * 4]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_to_moves_every_tensor(device):
    batch = batches.collate(with_positives([[1, 5, 2]], [[1, 6, 2]]), np.array([0]), 0, (1, 2)).to(device)
    assert {tensor.device.type for part in (batch, *batch.partners) for tensor in tensors(part)} == {device}


def tensors(batch: batches.Batch) -> list[torch.Tensor]:
    found = [getattr(batch, name) for name in batch.__dataclass_fields__]
    return [value for value in found if isinstance(value, torch.Tensor)]


def test_partners_follow_their_texts():
    split = with_positives([[1, 5, 2], [1, 6, 6, 2], [1, 2]], [[1, 7, 7, 7, 2], [1, 8, 2], [1, 9, 2]])
    batch = batches.collate(split, np.array([2, 0]), 0, (1, 2))
    assert batch.partners[0].input_ids.tolist() == [[1, 9, 2, 0, 0], [1, 7, 7, 7, 2]]
    assert batch[1:].partners[0].input_ids.tolist() == [[1, 7, 7, 7, 2]] and len(batch[1:]) == 1


def with_positives(texts: list[list[int]], positives: list[list[int]]) -> TokenSplit:
    return replace(split_of(texts), partners=(split_of(positives),))
