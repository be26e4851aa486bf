"""NT-Xent on the classifier's logits of two dropout passes, as tried in one of the source documents.

It contrasts the logits, not their softmax: NT-Xent applies a softmax of its own.
"""

from jaxtyping import Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.ntxent import ntxent

DROPOUT_NTXENT_FACTS = LossFacts(vectors=2)


def dropout_ntxent(logits: Float[Tensor, "n 2 c"], *, temperature: float = 0.05) -> Float[Tensor, ""]:
    """`ntxent` on the logits: the two predictions of a text should agree more than those of two texts; 1/τ = 20."""
    return ntxent(logits, temperature=temperature)
