"""CLEAR loss: Wu et al., "CLEAR: Contrastive Learning for Sentence Representation", 2020."""

from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.ntxent import ntxent

CLEAR_FACTS = LossFacts(vectors=2, usual_view="word_delete")


def clear(
    views: Float[Tensor, "n 2 d"],
    *,
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """NT-Xent on two augmented sentences: words or spans deleted, spans reordered, or words replaced by synonyms.

    The full objective of the paper is `clear+mlm` with mlm_weight 1.
    """
    return ntxent(views, mask=mask, temperature=temperature, chunk=chunk)
