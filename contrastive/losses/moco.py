"""MoCo loss: He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", 2020."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import exact

FACTS = LossFacts(vectors=2, usual_view="momentum", needs_batch=False)  # the queue holds the negatives


class Moco(nn.Module):
    """Contrast a query with its momentum key and a queue of keys from earlier batches.

    The queue is a ring buffer of the last `queue` keys, saved in checkpoints. It starts empty, and only computed keys
    serve as negatives: the first batch has none and gives 0.
    """

    keys: Float[Tensor, "q d"]
    written: Tensor

    def __init__(self, size: int, *, queue: int = 4096):
        super().__init__()
        self.register_buffer("keys", torch.zeros(queue, size))
        self.register_buffer("written", torch.zeros((), dtype=torch.long))

    def forward(
        self,
        views: Float[Tensor, "n 2 d"],
        *,
        targets: Float[Tensor, "n 2 d"],
        mask: Bool[Tensor, "n 2"] | None = None,
        temperature: float = 0.07,
    ) -> Float[Tensor, ""]:
        """Mean of −log( e^{q·k⁺/τ} / (e^{q·k⁺/τ} + Σ_queue e^{q·k/τ}) ): q the first view, k⁺ the second's target."""
        with torch.autocast(views.device.type, enabled=False):
            pair_N = slice(None) if mask is None else mask.all(1)
            query_ND = F.normalize(exact(views)[pair_N][:, 0], dim=-1)
            key_ND = F.normalize(exact(targets.detach())[pair_N][:, 1], dim=-1)
            filled = min(int(self.written), len(self.keys))
            queue_QD = self.keys[:filled].to(query_ND, copy=True)  # copied: backward needs the values of this step
            positive_N1 = (query_ND * key_ND).sum(-1, keepdim=True)
            logits_NQ = torch.cat([positive_N1, query_ND @ queue_QD.T], dim=1) / temperature
            value_N = logits_NQ.logsumexp(1) - logits_NQ[:, 0]
            self.remember(key_ND)
            return value_N.sum() / max(1, len(value_N))

    @torch.no_grad()
    def remember(self, keys: Float[Tensor, "n d"]) -> None:
        newest = keys[-len(self.keys) :]
        places = (int(self.written) + torch.arange(len(newest), device=keys.device)) % len(self.keys)
        self.keys[places] = newest.to(self.keys)
        self.written += len(newest)

    def decay(self, progress: float) -> float:
        return 0.999
