"""Build batches of texts of similar length, in an order that seed and epoch decide."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from contrastive.config.cell import Cell
from contrastive.data.tokens import Tokens, TokenSplit

Indices: TypeAlias = npt.NDArray[np.int64]
Item = TypeVar("Item")
Result = TypeVar("Result")

EVAL_BATCH = 64  # texts at a time
WEYL = -7046029254386353131  # the step of splitmix64
WAITING = 2  # batches prepared ahead of the one in use


@dataclass(frozen=True)
class Batch:
    """n texts of s tokens. `special` marks padding and the tokens that the tokenizer adds.

    `frozen_outputs`: the output of the frozen blocks for these tokens, if precomputed. `draws`: a number for each image
    that decides how training changes it. `guide`: the vectors of the texts by the objective's guide.
    """

    input_ids: Int64[Tensor, "n s"]
    attention_mask: Bool[Tensor, "n s"]
    special: Bool[Tensor, "n s"]
    labels: Int64[Tensor, " n"]
    partners: tuple["Batch", ...] = ()  # the positives of these texts, and their negatives, where the data has pairs
    frozen_outputs: Float[Tensor, "n s d"] | None = None
    draws: Int64[Tensor, " n"] | None = None
    guide: Float[Tensor, "n g"] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> "Batch":
        return self._each(lambda tensor: tensor[rows])

    def times(self, count: int) -> "Batch":
        """Return the batch `count` times in a row. Dropout draws other masks for each, and images change otherwise."""
        repeated = self._each(lambda tensor: torch.cat([tensor] * count))
        if self.draws is None:
            return repeated
        return replace(repeated, draws=torch.cat([self.draws + number for number in range(count)]))

    def pinned(self) -> "Batch":
        """Return the batch in pinned memory, from which a GPU copies while the program goes on."""
        return self._each(Tensor.pin_memory)

    def to(self, device: torch.device | str) -> "Batch":
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def reworded(self, input_ids: Int64[Tensor, "n s"]) -> "Batch":
        """Return the batch with other tokens in the same places."""
        return replace(self, input_ids=input_ids, frozen_outputs=None)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        tensors = (self.input_ids, self.attention_mask, self.special, self.labels)
        ids, mask, special, labels = map(change, tensors)
        partners = tuple(partner._each(change) for partner in self.partners)
        optional = (self.frozen_outputs, self.draws, self.guide)
        return Batch(ids, mask, special, labels, partners, *(None if it is None else change(it) for it in optional))


def collate(split: TokenSplit, indices: npt.NDArray[np.integer], pad_id: int, special_ids: Sequence[int]) -> Batch:
    """Return the texts at `indices` as a batch, padded to the longest."""
    starts, ends = split.offsets[indices], split.offsets[np.asarray(indices) + 1]
    lengths = ends - starts
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, pad_id, np.int64)
    ids[mask] = np.concatenate([split.ids[start:end] for start, end in zip(starts, ends, strict=True)])
    special = ~mask | np.isin(ids, special_ids)
    labels = np.array(split.labels[indices])
    partners = [collate(partner, indices, pad_id, special_ids) for partner in split.partners]
    if split.mined is not None:
        partners.append(collate(split.partners[0], split.mined[indices], pad_id, special_ids))
    frozen_outputs = None
    if split.frozen_outputs is not None:
        rows = np.zeros((*mask.shape, split.frozen_outputs.shape[1]), np.float32)
        rows[mask] = np.concatenate([split.frozen_outputs[start:end] for start, end in zip(starts, ends, strict=True)])
        frozen_outputs = torch.from_numpy(rows)
    guide = None if split.guide is None else torch.from_numpy(split.guide[indices])
    tensors = [torch.from_numpy(array) for array in (ids, mask, special, labels)]
    return Batch(tensors[0], tensors[1], tensors[2], tensors[3], tuple(partners), frozen_outputs, guide=guide)


def order(
    lengths: npt.NDArray[np.integer],
    batch_size: int,
    bucket: int,
    seed: int,
    epoch: int,
) -> list[Indices]:
    """Return the indices of each batch of an epoch; texts are sorted by length in each group of `bucket` batches."""
    random = np.random.default_rng([seed, epoch])
    drawn = random.permutation(len(lengths))
    batches: list[Indices] = []
    for start in range(0, len(drawn), batch_size * bucket):
        group = drawn[start : start + batch_size * bucket]
        group = group[np.argsort(lengths[group], kind="stable")]
        batches += [group[first : first + batch_size] for first in range(0, len(group), batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]


def by_length(lengths: npt.NDArray[np.integer]) -> list[Indices]:
    """Return batches of texts of similar length, for evaluation."""
    order = np.argsort(lengths, kind="stable")
    return [order[begin : begin + EVAL_BATCH] for begin in range(0, len(order), EVAL_BATCH)]


def optimizer_steps(cell: Cell, tokens: Tokens) -> Iterator[tuple[int, list[Indices]]]:
    """Yield (epoch, batches) of each optimizer step: the same for all cells of the same data, training and order seed.

    A last batch with fewer texts than processes is left out.
    """
    training, lengths = cell.training, tokens.splits["train"].lengths
    seed = cell.seed if training.order_seed is None else training.order_seed
    for epoch in range(training.epochs):
        batches = order(lengths, training.batch_size, training.bucket, seed, epoch)
        batches = [batch for batch in batches if len(batch) >= training.processes]
        for begin in range(0, len(batches), training.accumulate):
            yield epoch, batches[begin : begin + training.accumulate]


def count_steps(cell: Cell, tokens: Tokens) -> int:
    return sum(1 for _ in optimizer_steps(cell, tokens))


def training_batches(
    cell: Cell, tokens: Tokens, first: int, process: int, device: torch.device
) -> Generator[Batch, None, None]:
    """Yield this process's share of each batch, from step `first` on.

    For a GPU a thread prepares and pins the next ones. On a CPU such a thread would take a core from the training.
    """
    split = tokens.splits["train"]
    done = sum(len(batches) for _, batches in islice(optimizer_steps(cell, tokens), first))
    gpu = torch.cuda.current_device() if device.type == "cuda" else None

    def load(numbered: tuple[int, Indices]) -> Batch:
        number, indices = numbered
        share = np.array_split(indices, cell.training.processes)[process]
        batch = collate(split, share, tokens.pad_id, tokens.special_ids)
        if cell.training.augment is not None:
            places = np.array_split(np.arange(len(indices)), cell.training.processes)[process]
            batch = replace(batch, draws=draws_of(cell.seed, number, places))
        if gpu is None:
            return batch
        torch.cuda.set_device(gpu)  # for this thread, which would open the first GPU too
        return batch.pinned()

    wanted = (indices for _, batches in islice(optimizer_steps(cell, tokens), first, None) for indices in batches)
    numbered = enumerate(wanted, done)
    yield from map(load, numbered) if gpu is None else prefetch(load, numbered)


def draws_of(seed: int, batch: int, places: npt.NDArray[np.integer]) -> Int64[Tensor, " n"]:
    """Return a number for each image at these places of a batch: the same in any process and after a resume."""
    return mixed(mixed(torch.tensor([seed * 2**32 + batch])) + torch.from_numpy(places) * 2**20)


def mixed(numbers: Int64[Tensor, "*n"]) -> Int64[Tensor, "*n"]:
    """Return numbers with unrelated bits (splitmix64; Steele et al., "Fast splittable pseudorandom number generators",
    2014). Additions and products wrap."""
    numbers = numbers + WEYL
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        numbers = (numbers ^ ((numbers >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return numbers ^ ((numbers >> 31) & ((1 << 33) - 1))


def prefetch(make: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
    """Yield `make(item)` for each item, in order, while a thread prepares the next ones; it ends with the generator."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(1, "ahead") as thread:
        try:
            for item in items:
                waiting.append(thread.submit(make, item))
                if len(waiting) > WAITING:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            thread.shutdown(cancel_futures=True)
