"""Cut and rearrange texts as token ids: shared by the views that change a text.

All random numbers come from torch's generator, which the cell's seed has set.
"""

from collections.abc import Callable

import torch
from jaxtyping import Int64
from torch import Tensor

from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, as_pairs, unmasked

Words = Int64[Tensor, " _"]  # any number of token ids


def words_of(batch: Batch) -> list[Words]:
    """Return the tokens of each text, without padding and the tokens that the tokenizer adds."""
    return [ids[~special] for ids, special in zip(batch.input_ids, batch.special, strict=True)]


def rebuilt(batch: Batch, rows: list[Words]) -> Batch:
    """Return a batch of these rows, each between the first and the last token of its text.

    There may be several rows per text: row i belongs to text i modulo the batch size.
    """
    last = batch.attention_mask.sum(1) - 1
    width = max(len(row) for row in rows) + 2
    ids = batch.input_ids.new_zeros(len(rows), width)
    lengths = torch.tensor([len(row) + 2 for row in rows], device=ids.device)
    for i, row in enumerate(rows):
        text = i % len(batch)
        ids[i, 0], ids[i, len(row) + 1] = batch.input_ids[text, 0], batch.input_ids[text, last[text]]
        ids[i, 1 : len(row) + 1] = row
    places = torch.arange(width, device=ids.device)
    mask = places < lengths[:, None]
    special = ~mask | (places == 0) | (places == lengths[:, None] - 1)
    return Batch(ids, mask, special, batch.labels.repeat(len(rows) // len(batch)))


def two_versions(encode: Encode, batch: Batch, change: Callable[[Words], Words]) -> View:
    """Return two versions of each text, changed independently. The head and the evaluation read the text itself."""
    rows = words_of(batch)
    changed = [change(row) if len(row) else row for row in rows + rows]
    versions = as_pairs(encode(rebuilt(batch, changed)).pooled())
    encoded = encode(batch)
    return View([unmasked(versions)], torch.stack([encoded.dropout(encoded.pooled())], dim=1))


def share_of(count: int, rate: float) -> int:
    """Return a share `rate` of `count`, at least 1 and never all."""
    return min(count - 1, max(1, round(rate * count))) if count > 1 else 0
