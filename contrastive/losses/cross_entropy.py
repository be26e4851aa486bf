"""Losses of predictions: of classes, by the head, and of hidden words."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from contrastive.config.facts import LossFacts

CE_FACTS = LossFacts(supervised=True, compares=False)


def ce(logits: Float[Tensor, "n p c"], *, labels: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """Cross-entropy on the logits of the classification head. −log softmax(logits)[label], averaged over n samples with
    p predictions each; at least fp32. With two predictions this is R-Drop's ½(CE₁ + CE₂)."""
    exact = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(exact.flatten(0, 1), labels.repeat_interleave(logits.shape[1]))


RDROP_FACTS = LossFacts(vectors=2, contains=("ce",))


def rdrop(logits: Float[Tensor, "n 2 c"]) -> Float[Tensor, ""]:
    """R-Drop consistency loss: Liang et al., "R-Drop: Regularized Dropout for Neural Networks", 2021.

    ½[KL(p‖q) + KL(q‖p)] of the two predictions of a sample, summed over classes, averaged over the batch. The objective
    `rdrop` is ½(CE₁ + CE₂) + α · this term. Computed in at least fp32, even under autocast.
    """
    exact = logits if logits.dtype == torch.float64 else logits.float()
    first, second = F.log_softmax(exact, dim=-1).unbind(1)
    forward = F.kl_div(second, first, reduction="batchmean", log_target=True)
    backward = F.kl_div(first, second, reduction="batchmean", log_target=True)
    return (forward + backward) / 2


MLM_FACTS = LossFacts(compares=False, weight="mlm_weight")


def mlm(surprise: Float[Tensor, " n"], *, hidden: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """Masked language modelling (MLM), an auxiliary term that preserves word knowledge: Gao et al., "SimCSE", 2021.

    Mean of −log p over the masked tokens of all texts. Per text: `surprise` sums its tokens, `hidden` counts them. A
    batch without masked tokens gives 0. The term's weight is `mlm_weight`: 0.1 in SimCSE, 1 in DeCLUTR and CLEAR.
    """
    return surprise.sum() / hidden.sum().clamp(min=1)
