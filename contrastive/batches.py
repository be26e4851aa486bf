"""Batches of texts of about the same length, in an order that the seed and the epoch decide."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from contrastive.data.tokens import TokenSplit


@dataclass(frozen=True)
class Batch:
    """n texts of s tokens. `special` marks padding and what the tokenizer adds: what is no token of the text."""

    input_ids: Int64[Tensor, "n s"]
    attention_mask: Bool[Tensor, "n s"]
    special: Bool[Tensor, "n s"]
    labels: Int64[Tensor, " n"]
    partners: tuple["Batch", ...] = ()  # the positives of these texts, and their negatives, where the data has pairs

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> "Batch":
        return self._each(lambda tensor: tensor[rows])

    def to(self, device: torch.device | str) -> "Batch":
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        tensors = (self.input_ids, self.attention_mask, self.special, self.labels)
        ids, mask, special, labels = map(change, tensors)
        return Batch(ids, mask, special, labels, tuple(partner._each(change) for partner in self.partners))


def collate(split: TokenSplit, indices: npt.NDArray[np.integer], pad_id: int, special_ids: Sequence[int]) -> Batch:
    """The texts at `indices`, padded to the longest of them."""
    starts, ends = split.offsets[indices], split.offsets[np.asarray(indices) + 1]
    lengths = ends - starts
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, pad_id, np.int64)
    ids[mask] = np.concatenate([split.ids[start:end] for start, end in zip(starts, ends, strict=True)])
    special = ~mask | np.isin(ids, special_ids)
    labels = np.array(split.labels[indices])
    partners = tuple(collate(partner, indices, pad_id, special_ids) for partner in split.partners)
    tensors = [torch.from_numpy(array) for array in (ids, mask, special, labels)]
    return Batch(tensors[0], tensors[1], tensors[2], tensors[3], partners)


def order(
    lengths: npt.NDArray[np.integer], batch_size: int, bucket: int, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """The indices of each batch of an epoch. `bucket` batches drawn together are sorted by length among themselves."""
    random = np.random.default_rng([seed, epoch])
    drawn = random.permutation(len(lengths))
    batches = []
    for start in range(0, len(drawn), batch_size * bucket):
        group = drawn[start : start + batch_size * bucket]
        group = group[np.argsort(lengths[group], kind="stable")]
        batches += [group[first : first + batch_size] for first in range(0, len(group), batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]
