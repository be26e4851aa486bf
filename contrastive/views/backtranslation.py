"""Back-translation: the vectors of a text and of its translation into another language and back."""

from collections.abc import Callable

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, unmasked

BACKTRANSLATION_FACTS = ViewFacts(vectors=2, changed_passes=1)


def backtranslation(
    encode: Encode, batch: Batch, rephrase: Callable[..., Batch], *, translators: tuple[str, str]
) -> View:
    """Return the vectors of a text and of its back-translation by the models `translators` (there, back).

    The head and the evaluation read the text itself.
    """
    encoded = encode(batch)
    sentence = encoded.pooled()
    vectors = torch.stack([sentence, encode(rephrase(batch, translators)).pooled()], dim=1)
    return View([unmasked(vectors)], torch.stack([encoded.dropout(sentence)], dim=1))
