"""Masked language modelling (MLM), an auxiliary term that preserves word knowledge: Gao et al., "SimCSE", 2021."""

from jaxtyping import Float, Int
from torch import Tensor

from contrastive.config.facts import LossFacts

MLM_FACTS = LossFacts(compares=False, weight="mlm_weight")


def mlm(surprise: Float[Tensor, " n"], *, hidden: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """Mean of −log p over the masked tokens of all texts. Per text: `surprise` sums its tokens, `hidden` counts them.

    A batch without masked tokens gives 0. The term's weight is `mlm_weight`: 0.1 in SimCSE, 1 in DeCLUTR and CLEAR.
    """
    return surprise.sum() / hidden.sum().clamp(min=1)
