"""Cross-entropy on the head's logits."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def ce(logits: Float[Tensor, "n p c"], *, labels: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """Mean over samples and over the p predictions of each; with two predictions this is R-Drop's ½(CE₁ + CE₂)."""
    passes = logits.shape[1]
    return F.cross_entropy(logits.float().flatten(0, 1), labels.repeat_interleave(passes))
