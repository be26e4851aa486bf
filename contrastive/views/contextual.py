"""Contextual substitution: words replaced by the encoder's own guesses, as in Kobayashi, "Contextual Augmentation: Data
Augmentation by Words with Paradigmatic Relations", 2018."""

from collections.abc import Callable

import torch
from torch import Tensor

from contrastive.config.facts import Unsplittable, ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.tools.hidden_words import draw_tokens
from contrastive.views.types import Encode, View, as_pairs, unmasked

CONTEXTUAL_FACTS = ViewFacts(
    vectors=2,
    changed_passes=2,
    unsplittable=Unsplittable(("zero3", "fsdp"), "it encodes only where a word was drawn, each process on its own"),
)


def contextual(encode: Encode, batch: Batch, guess: Callable[[Batch, Tensor], Batch], *, rate: float = 0.15) -> View:
    """Return two versions of each text, in which tokens, each with probability `rate`, are hidden and guessed again.

    `guess` samples from the encoder's masked language model. The classifier's head reads the text itself.
    """
    twice = batch.times(2)
    changed = encode(guess(twice, draw_tokens(twice, rate))).pooled()
    encoded = encode(batch)
    return View([unmasked(as_pairs(changed))], torch.stack([encoded.dropout(encoded.pooled())], dim=1))
