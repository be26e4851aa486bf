"""MoCo loss: He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", 2020. With a projector:
MoCo v2, Chen et al., "Improved Baselines with Momentum Contrastive Learning", 2020."""

import copy

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.heads import mlp
from contrastive.losses.similarity import exact

MOCO_FACTS = LossFacts(vectors=2, usual_view="momentum", needs_batch=False)  # the queue holds the negatives


class Moco(nn.Module):
    """Contrast a query with its momentum key and a queue of keys from earlier batches.

    The queue is a ring buffer of the last `queue` keys, saved in checkpoints. It starts empty, and only computed keys
    serve as negatives: the first batch has none and gives 0. With `projector`, both are projected; the projector of the
    keys follows that of the queries.
    """

    keys: Float[Tensor, "q d"]
    written: Tensor

    def __init__(
        self, size: int, *, queue: int = 4096, projector: int | None = None, projection: int = 128, decay: float = 0.999
    ):
        super().__init__()
        self.kept, self.projector, self.target = decay, None, None
        if projector is not None:
            self.projector = mlp(size, projector, projection, norm=False)
            self.target = copy.deepcopy(self.projector).requires_grad_(False)
        self.register_buffer("keys", torch.zeros(queue, size if projector is None else projection))
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
            query_ND, key_ND = exact(views)[pair_N][:, 0], exact(targets.detach())[pair_N][:, 1]
            if self.projector is not None and self.target is not None:
                query_ND, key_ND = self.projector(query_ND), self.target(key_ND).detach()
            query_ND, key_ND = F.normalize(query_ND, dim=-1), F.normalize(key_ND, dim=-1)
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
        return self.kept

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        if self.projector is not None and self.target is not None:
            for slow, fast in zip(self.target.parameters(), self.projector.parameters(), strict=True):
                slow.lerp_(fast, 1 - self.kept)
