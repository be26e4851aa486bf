"""Cross-entropy on the logits of the classification head."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from contrastive.config.facts import LossFacts

CE_FACTS = LossFacts(supervised=True, compares=False)


def ce(logits: Float[Tensor, "n p c"], *, labels: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """−log softmax(logits)[label], averaged over n samples with p predictions each; at least fp32.

    With two predictions this is R-Drop's ½(CE₁ + CE₂).
    """
    exact = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(exact.flatten(0, 1), labels.repeat_interleave(logits.shape[1]))
