"""Losses with a head of their own, or a state such as a queue or prototypes.

Projectors and predictors train with the cell and are discarded afterwards.
"""

import copy
import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts, Unsplittable
from contrastive.errors import UserError
from contrastive.losses.ntxent import ntxent
from contrastive.losses.similarity import exact, pairs


def mlp(*widths: int, norm: bool = True, bias: bool = True) -> nn.Sequential:
    """Return linear layers of these widths with ReLU between them, and batch norm before each ReLU.

    Layers before a batch norm have no bias, since it would have no effect. Pass `bias=False` to leave it out of the
    last layer too, for losses that subtract the batch mean.
    """
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(pairwise(widths), start=1):
        last = number == len(widths) - 1
        layers.append(nn.Linear(before, after, bias=bias if last else not norm))
        if not last:
            layers += [nn.BatchNorm1d(after), nn.ReLU()] if norm else [nn.ReLU()]
    return nn.Sequential(*layers)


SIMCLR_FACTS = LossFacts()


class Simclr(nn.Module):
    """SimCLR: NT-Xent on the outputs of a projector. Chen et al., "A Simple Framework for Contrastive Learning of
    Visual Representations", 2020. The loss `ntxent` is the same without a projector.

    Contrast the views of a sample with those of others, after two linear layers that are discarded afterwards.
    """

    def __init__(self, size: int, *, projector: int = 1024, projection: int = 128):
        super().__init__()
        self.projector = mlp(size, projector, projection, norm=False)

    def forward(
        self,
        views: Float[Tensor, "n v d"],
        *,
        mask: Bool[Tensor, "n v"] | None = None,
        temperature: float = 0.1,
        chunk: int | None = None,
    ) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            return ntxent(self.projector(exact(views)), mask=mask, temperature=temperature, chunk=chunk)


MOCO_FACTS = LossFacts(vectors=2, usual_view="momentum", needs_batch=False)  # the queue holds the negatives


class Moco(nn.Module):
    """MoCo loss: He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", 2020. With a
    projector: MoCo v2, Chen et al., "Improved Baselines with Momentum Contrastive Learning", 2020.

    Contrast a query with its momentum key and a queue of keys from earlier batches. The queue is a ring buffer of the
    last `queue` keys, saved in checkpoints. It starts empty, and only computed keys serve as negatives: the first batch
    has none and gives 0. With `projector`, both are projected; the projector of the keys follows that of the queries.
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


BYOL_FACTS = LossFacts(vectors=2, usual_view="momentum")


class Byol(nn.Module):
    """BYOL loss: Grill et al., "Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning", 2020. Predict
    the momentum projection of one view from the projection of the other."""

    def __init__(self, size: int, *, projector: int = 1024, projection: int = 256, decay: float = 0.996):
        super().__init__()
        self.kept = decay
        self.projector = mlp(size, projector, projection)
        self.predictor = mlp(projection, projector, projection)
        self.target = copy.deepcopy(self.projector).requires_grad_(False)

    def forward(
        self, views: Float[Tensor, "n 2 d"], *, targets: Float[Tensor, "n 2 d"], mask: Bool[Tensor, "n 2"] | None = None
    ) -> Float[Tensor, ""]:
        """Mean over both directions of 2 − 2 cos(predictor(projector(x)), target(momentum encoder's y)).

        `targets` come from the momentum encoder and get no gradient. Batch norm needs two samples: fewer give 0.
        """
        with torch.autocast(views.device.type, enabled=False):
            online, momentum = pairs(views, mask), pairs(targets.detach(), mask)
            if len(online) < 2:
                return online.sum() * 0.0
            predicted = [self.predictor(self.projector(online[:, view])) for view in (0, 1)]
            with torch.no_grad():
                expected = [self.target(momentum[:, view]) for view in (1, 0)]
            cosine = torch.stack([F.cosine_similarity(p, e, dim=-1) for p, e in zip(predicted, expected, strict=True)])
            return (2 - 2 * cosine).mean()

    def decay(self, progress: float) -> float:
        """Return the decay of the momentum copy: from the setting to 1, along a cosine over the training."""
        return 1 - (1 - self.kept) * (math.cos(math.pi * progress) + 1) / 2

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        for slow, fast in zip(self.target.parameters(), self.projector.parameters(), strict=True):
            slow.lerp_(fast, 1 - self.decay(progress))


BARLOW_FACTS = LossFacts(vectors=2)

BARLOW_EPSILON = 1e-5  # added to the variance before the batch is normalised


class Barlow(nn.Module):
    """Barlow Twins loss: Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", 2021.
    Barlow Twins on the outputs of a three-layer projector; each layer is `projector` wide."""

    def __init__(self, size: int, *, projector: int = 1024):
        super().__init__()
        self.projector = mlp(size, projector, projector, projector, bias=False)

    def forward(
        self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None, redundancy: float = 0.0051
    ) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            both = pairs(views, mask)
            if len(both) < 2:  # a single sample has no correlation
                return both.sum() * 0.0
            return barlow(torch.stack([self.projector(both[:, 0]), self.projector(both[:, 1])], dim=1), redundancy)


def barlow(views: Float[Tensor, "n 2 d"], redundancy: float) -> Float[Tensor, ""]:
    """Σᵢ (1 − Cᵢᵢ)² + λ Σ_{i≠j} Cᵢⱼ², C the correlation between the dimensions of the two views over the batch."""
    centred = views - views.mean(0)
    scaled = centred / (centred.pow(2).mean(0) + BARLOW_EPSILON).sqrt()
    correlation_DD = scaled[:, 0].T @ scaled[:, 1] / len(views)
    same_D = correlation_DD.diagonal()
    return (1 - same_D).pow(2).sum() + redundancy * (correlation_DD.pow(2).sum() - same_D.pow(2).sum())


VICREG_FACTS = LossFacts(vectors=2)

INVARIANCE, VARIANCE, COVARIANCE = 25.0, 25.0, 1.0
VICREG_EPSILON = 1e-4  # added to the variance before the square root


class Vicreg(nn.Module):
    """VICReg: Bardes et al., "VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning",
    2022. VICReg on the outputs of a three-layer projector; each layer is `projector` wide."""

    def __init__(self, size: int, *, projector: int = 1024):
        super().__init__()
        self.projector = mlp(size, projector, projector, projector, bias=False)

    def forward(self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            both = pairs(views, mask)
            if len(both) < 2:  # a single sample has no variance
                return both.sum() * 0.0
            return vicreg(torch.stack([self.projector(both[:, 0]), self.projector(both[:, 1])], dim=1))


def vicreg(views: Float[Tensor, "n 2 d"]) -> Float[Tensor, ""]:
    """25 · mean (x − y)² + 25 · ½ Σ_views mean_d max(0, 1 − std_d) + 1 · Σ_views Σ_{d≠e} Cov_de² / D."""
    invariance = (views[:, 0] - views[:, 1]).pow(2).mean()
    deviation_VD = (views.var(0) + VICREG_EPSILON).sqrt()
    centred = views - views.mean(0)
    covariance_VDD = torch.einsum("nvd,nve->vde", centred, centred) / (len(views) - 1)
    squares = covariance_VDD.pow(2).sum((1, 2)) - covariance_VDD.diagonal(dim1=1, dim2=2).pow(2).sum(1)
    return (
        INVARIANCE * invariance
        + VARIANCE * torch.relu(1 - deviation_VD).mean(1).sum() / 2
        + COVARIANCE * squares.sum() / views.shape[-1]
    )


SWAV_FACTS = LossFacts(
    unsplittable=Unsplittable(
        ("zero1", "zero2", "zero3"),
        "its prototypes are frozen at first, and ZeRO applies weight decay to frozen weights",
    ),
)

SHARPNESS = 0.05  # ε in the Sinkhorn algorithm
ITERATIONS = 3
FROZEN_STEPS = 5  # optimizer steps with frozen prototypes; at most a tenth of the training


class Swav(nn.Module):
    """SwAV loss: Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", 2020.
    Predict the codes of the first two views (balanced soft assignments to prototypes) from each other view."""

    steps: Tensor

    def __init__(self, size: int, *, projector: int = 1024, projection: int = 128, prototypes: int = 64):
        super().__init__()
        self.projector = mlp(size, projector, projection)
        self.prototypes = nn.Linear(projection, prototypes, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(
        self, views: Float[Tensor, "n v d"], *, mask: Bool[Tensor, "n v"] | None = None, temperature: float = 0.1
    ) -> Float[Tensor, ""]:
        """−½ Σ_{i = 1, 2} mean_{j ≠ i} qᵢ · log softmax(sⱼ/τ), s cosines to the prototypes, q the codes.

        Texts without one of their views are left out.
        """
        with torch.autocast(views.device.type, enabled=False):
            whole = pairs(views, mask)
            if len(whole) < 2 or whole.shape[1] < 2:  # batch norm and balanced codes need two samples
                return whole.sum() * 0.0
            weight = F.normalize(self.prototypes.weight, dim=-1)
            weight = weight.detach() if self.training and int(self.steps) < FROZEN_STEPS else weight
            projected = torch.stack([self.projector(view) for view in whole.unbind(1)], 1)
            return swapped_prediction(F.normalize(projected, dim=-1) @ weight.T, temperature)

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        self.steps += 1 if progress < 0.1 else FROZEN_STEPS


def swapped_prediction(scores: Float[Tensor, "n v k"], temperature: float) -> Float[Tensor, ""]:
    logs = F.log_softmax(scores / temperature, dim=-1)
    others = [logs.sum(1) - logs[:, view] for view in (0, 1)]
    terms = codes(scores[:, 0]) * others[0] + codes(scores[:, 1]) * others[1]
    return -terms.sum(1).mean() / 2 / (scores.shape[1] - 1)


@torch.no_grad()
def codes(scores: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Compute codes by Sinkhorn-Knopp iterations in log space: rows sum to 1, columns are balanced."""
    log = scores / SHARPNESS
    for _ in range(ITERATIONS):
        log = log - log.logsumexp(0, keepdim=True)
        log = log - log.logsumexp(1, keepdim=True)
    return log.exp()


SCCL_FACTS = LossFacts(vectors=2, least_texts="clusters")

CLUSTERING = 10.0  # η, the weight of the clustering term


class Sccl(nn.Module):
    """SCCL loss: Zhang et al., "Supporting Clustering with Contrastive Learning", 2021.

    NT-Xent on projections of two views, plus a soft clustering loss on the sentence vectors. The cluster centres train
    with the heads; `begin` initialises them by k-means.
    """

    def __init__(self, size: int, *, projection: int = 128, clusters: int = 5):
        super().__init__()
        self.projector = mlp(size, size, projection, norm=False)
        self.centres = nn.Parameter(torch.randn(clusters, size))

    @torch.no_grad()
    def begin(self, embeddings: Float[Tensor, "m d"]) -> None:
        """Initialise the centres by k-means on embeddings of the training texts from the untrained encoder."""
        from sklearn.cluster import KMeans

        if len(embeddings) < len(self.centres):
            raise UserError(
                f"sccl has {len(self.centres)} clusters, but there are only {len(embeddings)} training "
                "texts; lower objective.clusters"
            )
        fitted = KMeans(len(self.centres), n_init=10, random_state=0).fit(embeddings.cpu().double().numpy())
        self.centres.copy_(torch.from_numpy(fitted.cluster_centers_))

    def forward(
        self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None, temperature: float = 0.5
    ) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            both = pairs(views, mask)
            if len(both) == 0:
                return both.sum() * 0.0
            projected = torch.stack([self.projector(both[:, 0]), self.projector(both[:, 1])], dim=1)
            return ntxent(projected, temperature=temperature) + CLUSTERING * clustering(both[:, 0], self.centres)


def clustering(vectors: Float[Tensor, "n d"], centres: Float[Tensor, "k d"]) -> Float[Tensor, ""]:
    """Mean KL(p‖q) over texts; q ∝ (1 + ‖e − μ‖²)⁻¹ (Student's t with 1 df), p ∝ q²/Σ_texts q, detached."""
    similarity_NK = 1 / (1 + torch.cdist(vectors, centres).pow(2))
    q_NK = similarity_NK / similarity_NK.sum(1, keepdim=True)
    with torch.no_grad():
        sharp_NK = q_NK.pow(2) / q_NK.sum(0)
        p_NK = sharp_NK / sharp_NK.sum(1, keepdim=True)
    return F.kl_div(q_NK.log(), p_NK, reduction="batchmean")
