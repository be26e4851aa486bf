"""Batches: every text once, padded right, and an order that depends on seed and epoch only."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.objective import Objective
from contrastive.data.tokens import Tokens, TokenSplit
from contrastive.views import batches

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


def cell_of(seed: int = 0, objective: dict | None = None, encoder: dict | None = None, **training) -> Cell:
    return Cell(
        data=Data(source="package:any", test=1, max_length=64),
        encoder=Encoder(**{"model": "scratch:bert"} | (encoder or {})),
        objective=Objective(**objective or {}),
        training=Training(**training),
        seed=seed,
    )


def tokens_with(split: TokenSplit) -> Tokens:
    return Tokens(("a", "b", "c"), 0, None, (101, 102), 64, {"train": split}, Path())


def of_lengths(lengths) -> TokenSplit:
    return split_of([list(range(3, length + 3)) for length in lengths])


MIXED = tokens_with(of_lengths(LENGTHS))


def flat(cell: Cell, tokens: Tokens = MIXED) -> list:
    return [(epoch, [batch.tolist() for batch in of_step]) for epoch, of_step in batches.optimizer_steps(cell, tokens)]


@pytest.mark.parametrize("training", [{}, {"accumulate": 3}])
def test_all_cells_of_a_section_have_one_order_and_steps_are_counted_as_they_are(training):
    mine = flat(cell_of(**training))
    assert len(mine) == batches.count_steps(cell_of(**training), MIXED)
    for other in (
        {"objective": {"loss": "rdrop", "view": "one_stage"}},
        {"objective": {"loss": "ce+supcon", "view": "topk_tokens", "k": 3}, "head_lr": 0.1},
        {"encoder": {"tune": {"last_blocks": 1}, "pooling": "mean"}, "micro_batch": 2, "threads": 2},
    ):
        assert flat(cell_of(**training | other)) == mine
    assert flat(cell_of(seed=1, **training)) != mine
    epochs = [sorted(i for e, of_step in mine for batch in of_step for i in batch if e == epoch) for epoch in range(3)]
    assert epochs == [list(range(len(LENGTHS)))] * 3 and mine[0][1] != mine[len(mine) // 3][1]


def test_a_seed_of_the_order_is_that_of_all_cells():
    shared = [flat(cell_of(seed=seed, order_seed=5)) for seed in (0, 1)]
    assert shared[0] == shared[1] == flat(cell_of(seed=5))
    assert flat(cell_of(seed=3, order_seed=0)) == flat(cell_of(seed=0))


def test_what_is_loaded_is_what_the_steps_say_from_any_step_on():
    cell = cell_of(processes=2, accumulate=2)
    whole = [batch for _, of_step in batches.optimizer_steps(cell, MIXED) for batch in of_step]
    cpu = torch.device("cpu")
    coming = batches.training_batches(cell, MIXED, 3, 0, cpu)
    next(coming)
    assert not ours()  # on a CPU
    halves = [list(batches.training_batches(cell, MIXED, 3, process, cpu)) for process in (0, 1)]
    assert len(halves[0]) == len(halves[1]) == len(whole) - 6
    for indices, *parts in zip(whole[6:], *halves, strict=True):
        rows = [row.tolist() for part in parts for row in part.input_ids]
        texts = [list(range(3, LENGTHS[i] + 3)) for i in indices]
        assert [[token for token in row if token] for row in rows] == texts
        assert all(part.attention_mask[:, -1].any() for part in parts)  # padded to the longest, no further


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_a_thread_makes_the_next_ones_in_their_order_and_draws_nothing():
    makers, random = set(), torch.get_rng_state()

    def make(item: int) -> int:
        makers.add(threading.current_thread())
        return item * item

    assert list(batches.prefetch(make, range(20))) == [item * item for item in range(20)]
    assert len(makers) == 1 and threading.main_thread() not in makers and not ours()
    assert torch.equal(torch.get_rng_state(), random)
    assert list(batches.prefetch(make, [])) == [] and list(batches.prefetch(make, [3])) == [9]


def test_what_goes_wrong_ahead_is_raised_where_it_would_be_used():
    def make(item: int) -> int:
        if item == 3:
            raise MemoryError("of the third")
        return item

    seen = []
    with pytest.raises(MemoryError, match="of the third"):
        for made in batches.prefetch(make, range(9)):
            seen.append(made)  # noqa: PERF402
    assert seen == [0, 1, 2] and not ours()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_given_pinned_batches_of_the_same_texts():
    cell, gpu = cell_of(), torch.device("cuda", 0)
    for one, other in zip(
        batches.training_batches(cell, MIXED, 0, 0, gpu),
        batches.training_batches(cell, MIXED, 0, 0, torch.device("cpu")),
        strict=True,
    ):
        assert all(tensor.is_pinned() for tensor in tensors(one))
        assert all(torch.equal(a.cpu(), b) for a, b in zip(tensors(one.to(gpu)), tensors(other), strict=True))
    assert not ours()


def test_collate_pads_to_the_longest_and_marks_what_is_no_word():
    split = split_of([[101, 7, 8, 9, 102], [101, 5, 102], [101, 102]])
    batch = batches.collate(split, np.array([1, 0]), pad_id=0, special_ids=(0, 101, 102))
    assert batch.input_ids.tolist() == [[101, 5, 102, 0, 0], [101, 7, 8, 9, 102]]
    assert batch.attention_mask.tolist() == [[True, True, True, False, False], [True] * 5]
    assert batch.special.tolist() == [[True, False, True, True, True], [True, False, False, False, True]]
    assert batch.labels.tolist() == [1, 0]
    assert len(batch) == 2
    assert (batch.input_ids.dtype, batch.labels.dtype, batch.special.dtype) == (torch.int64, torch.int64, torch.bool)
    # padding is no word even where it is no special token
    other = batches.collate(split_of([[1, 5, 5, 2], [1, 2]]), np.array([0, 1]), pad_id=5, special_ids=(1, 2))
    assert other.special.tolist() == [[True, False, False, True], [True] * 4]


def tensors(batch: batches.Batch) -> list[torch.Tensor]:
    found = [getattr(batch, name) for name in batch.__dataclass_fields__]
    return [value for value in found if isinstance(value, torch.Tensor)]


def test_partners_follow_their_texts_to_a_device_and_into_a_doubled_batch():
    positives = split_of([[1, 7, 7, 7, 2], [1, 8, 2], [1, 9, 2]])
    split = replace(split_of([[1, 5, 2], [1, 6, 6, 2], [1, 2]]), partners=(positives,))
    batch = batches.collate(split, np.array([2, 0]), 0, (1, 2))
    assert batch.partners[0].input_ids.tolist() == [[1, 9, 2, 0, 0], [1, 7, 7, 7, 2]]
    assert batch[1:].partners[0].input_ids.tolist() == [[1, 7, 7, 7, 2]] and len(batch[1:]) == 1
    for device in ("cpu", "meta"):
        moved = batch.to(device)
        assert {tensor.device.type for part in (moved, *moved.partners) for tensor in tensors(part)} == {device}
    twice = batch.times(2)
    for part, doubled in ((batch, twice), (batch.partners[0], twice.partners[0])):
        for one, two in zip(tensors(part), tensors(doubled), strict=True):
            assert torch.equal(two[:2], one) and torch.equal(two[2:], one) and len(two) == 4
