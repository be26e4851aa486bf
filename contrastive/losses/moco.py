"""MoCo: He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", 2020."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import exact

FACTS = LossFacts(vectors=2, usual_view="momentum", needs_batch=False)  # its queue has the texts to compare with


class Moco(nn.Module):
    """A query against its momentum key and a queue of the keys of earlier batches.

    The queue is a ring of the last `queue` keys, in the checkpoint like every buffer. It begins empty, and only keys
    that were really computed are negatives: the first batch, which has none, gives 0.
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
        """Mean of −log( e^{q·k⁺/τ} / (e^{q·k⁺/τ} + Σ_queue e^{q·k/τ}) ): q the first view, k⁺ the second's slow one."""
        with torch.autocast(views.device.type, enabled=False):
            pair_N = slice(None) if mask is None else mask.all(1)
            query_ND = F.normalize(exact(views)[pair_N][:, 0], dim=-1)
            key_ND = F.normalize(exact(targets.detach())[pair_N][:, 1], dim=-1)
            filled = min(int(self.written), len(self.keys))
            queue_QD = self.keys[:filled].to(query_ND, copy=True)  # the backward pass needs it as it is now
            own_N1 = (query_ND * key_ND).sum(-1, keepdim=True)
            logits_NQ = torch.cat([own_N1, query_ND @ queue_QD.T], dim=1) / temperature
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
