"""R-Drop's consistency term: Liang et al., "R-Drop: Regularized Dropout for Neural Networks", 2021."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def rdrop(logits: Float[Tensor, "n 2 c"]) -> Float[Tensor, ""]:
    """½[KL(p‖q) + KL(q‖p)] of the two predictions of a sample, summed over classes, averaged over the batch.

    The objective `rdrop` is ½(CE₁ + CE₂) + α · this term.
    """
    first, second = F.log_softmax(logits.float(), dim=-1).unbind(1)
    forward = F.kl_div(second, first, reduction="batchmean", log_target=True)
    backward = F.kl_div(first, second, reduction="batchmean", log_target=True)
    return (forward + backward) / 2
