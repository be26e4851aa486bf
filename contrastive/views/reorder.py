"""CLEAR's reordering: two versions of a text, each with two runs of tokens swapped."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.tokens import Words, share_of, two_versions
from contrastive.views.types import Encode, View

REORDER_FACTS = ViewFacts(vectors=2, changed_passes=2)


def reorder(encode: Encode, batch: Batch, *, rate: float = 0.2) -> View:
    """Swap two runs that do not overlap, each half a share `rate` of the text. A single token stays."""

    def change(row: Words) -> Words:
        size = max(1, share_of(len(row), rate) // 2)
        if len(row) < 2 * size:
            return row
        first, second = sorted(torch.randint(len(row) - 2 * size + 1, (2,)).tolist())
        second += size  # starts are drawn as if runs had no length, so that they never overlap
        between = row[first + size : second]
        runs = [row[:first], row[second : second + size], between, row[first : first + size], row[second + size :]]
        return torch.cat(runs)

    return two_versions(encode, batch, change)
