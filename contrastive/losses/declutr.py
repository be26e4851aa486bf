"""DeCLUTR loss: Giorgi et al., "DeCLUTR: Deep Contrastive Learning for Unsupervised Textual Representations", 2021."""

from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.ntxent import ntxent

DECLUTR_FACTS = LossFacts(vectors=4, usual_view="span")


def declutr(
    views: Float[Tensor, "n 4 d"],
    *,
    mask: Bool[Tensor, "n 4"] | None = None,
    temperature: float = 0.05,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """NT-Xent between two anchor spans and the mean of their positive spans; views: anchor, mean, anchor, mean.

    The other anchor of the same document counts as a negative, as other documents do. The full objective of the paper
    is `declutr+mlm` with mlm_weight 1.
    """
    spans = views.unflatten(1, (-1, 2)).flatten(0, 1)
    kept = None if mask is None else mask.unflatten(1, (-1, 2)).flatten(0, 1)
    return ntxent(spans, mask=kept, temperature=temperature, chunk=chunk)
