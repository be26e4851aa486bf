"""CLEAR's word deletion: two versions of a text, each without some of its tokens."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.tokens import Words, share_of, two_versions
from contrastive.views.types import Encode, View

WORD_DELETE_FACTS = ViewFacts(vectors=2, changed_passes=2)


def word_delete(encode: Encode, batch: Batch, *, rate: float = 0.2) -> View:
    """Delete random tokens, a share `rate` of the text, never all. The rest stays in order."""

    def change(row: Words) -> Words:
        order = torch.randperm(len(row))[share_of(len(row), rate) :]
        return row[order.sort().values.to(row.device)]

    return two_versions(encode, batch, change)
