"""NT-Xent on the classifier's outputs of two dropout passes, the trial of one of the source documents.

The logits themselves are contrasted: a softmax before the contrast and another inside of it would be one too many.
"""

from jaxtyping import Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.ntxent import ntxent

FACTS = LossFacts(vectors=2)


def dropout_ntxent(logits: Float[Tensor, "n 2 c"], *, temperature: float = 0.05) -> Float[Tensor, ""]:
    """`ntxent` of the logits, so that a text's two predictions agree more than those of other texts; scale 1/τ = 20."""
    return ntxent(logits, temperature=temperature)
