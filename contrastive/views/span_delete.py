"""CLEAR's span deletion: two versions of a text, each without one run of its tokens."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.tokens import Words, share_of, two_versions
from contrastive.views.types import Encode, View

SPAN_DELETE_FACTS = ViewFacts(vectors=2, changed_passes=2)


def span_delete(encode: Encode, batch: Batch, *, rate: float = 0.2) -> View:
    """Delete one run of tokens, a share `rate` of the text, at a random place."""

    def change(row: Words) -> Words:
        gone = share_of(len(row), rate)
        begin = int(torch.randint(len(row) - gone + 1, ()))
        return torch.cat([row[:begin], row[begin + gone :]])

    return two_versions(encode, batch, change)
