"""R-Drop consistency loss: Liang et al., "R-Drop: Regularized Dropout for Neural Networks", 2021."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from contrastive.config.facts import LossFacts

RDROP_FACTS = LossFacts(vectors=2, contains=("ce",))


def rdrop(logits: Float[Tensor, "n 2 c"]) -> Float[Tensor, ""]:
    """½[KL(p‖q) + KL(q‖p)] of the two predictions of a sample, summed over classes, averaged over the batch.

    The objective `rdrop` is ½(CE₁ + CE₂) + α · this term. Computed in at least fp32, even under autocast.
    """
    exact = logits if logits.dtype == torch.float64 else logits.float()
    first, second = F.log_softmax(exact, dim=-1).unbind(1)
    forward = F.kl_div(second, first, reduction="batchmean", log_target=True)
    backward = F.kl_div(first, second, reduction="batchmean", log_target=True)
    return (forward + backward) / 2
