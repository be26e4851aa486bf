"""Masked language modelling, the term that keeps an encoder's knowledge of words: Gao et al., "SimCSE", 2021."""

from jaxtyping import Float, Int
from torch import Tensor

from contrastive.config.facts import LossFacts

FACTS = LossFacts(compares=False, weight="mlm_weight")


def mlm(surprise: Float[Tensor, " n"], *, hidden: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """Mean over the hidden tokens of all texts of −log p; a text gives the sum of its own, and how many they are.

    A batch in which no token is hidden gives 0. It has weight `mlm_weight`, .1 in SimCSE and 1 in DeCLUTR and CLEAR.
    """
    return surprise.sum() / hidden.sum().clamp(min=1)
