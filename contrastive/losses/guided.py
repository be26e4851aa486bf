"""Losses that follow a guide: the vectors of the texts by a frozen model or from a file (`objective.guide`).

`guide` holds unit vectors of each text, of its positive (the text itself, where a view makes one), and of its hard
negative, if there is one.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import exact, pairs

GIST_FACTS = LossFacts(vectors=2, usual_view="pair")


def gist(
    views: Float[Tensor, "n 2 d"],
    *,
    guide: Float[Tensor, "n p g"],
    negatives: Float[Tensor, "n d"] | None = None,
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.01,
    guide_margin: float = 0.0,
    guide_margin_strategy: str = "absolute",
) -> Float[Tensor, ""]:
    """GIST loss: Solatorio, "GISTEmbed: Guided In-sample Selection of Training Negatives for Text Embedding
    Fine-tuning", 2024.

    InfoNCE of each text against all positives, the other texts, and all hard negatives, and of its positive against the
    other positives. A candidate is left out where the guide finds it closer than the text's own positive, less the
    margin: it may be a false negative. A relative margin is a share of that similarity.
    """
    with torch.autocast(views.device.type, enabled=False):
        first, second = F.normalize(pairs(views, mask), dim=-1).unbind(1)
        by_guide = exact(kept(guide, mask)).unbind(1)
        own = torch.eye(len(first), dtype=torch.bool, device=first.device)
        none = torch.zeros_like(own)
        # vectors, vectors by the guide, the entries that are positives, those that compare a text with itself
        blocks = [
            ((first, second), (by_guide[0], by_guide[1]), own, none),
            ((first, first), (by_guide[0], by_guide[0]), none, own),
            ((second, second), (by_guide[1], by_guide[1]), none, own),
        ]
        if negatives is not None:
            hard = F.normalize(exact(kept(negatives, mask)), dim=-1)
            blocks.append(((first, hard), (by_guide[0], by_guide[2]), none, none))
        agreed_N1 = (by_guide[0] * by_guide[1]).sum(-1, keepdim=True)
        limit_N1 = agreed_N1 - guide_margin * (agreed_N1.abs() if guide_margin_strategy == "relative" else 1.0)
        scores = []
        for (left, right), (left_guide, right_guide), positive, itself in blocks:
            false_negative = (left_guide @ right_guide.T > limit_N1) & ~positive
            scores.append((left @ right.T / temperature).masked_fill(false_negative | itself, -torch.inf))
        right = torch.arange(len(first), device=first.device)  # columns of the positives
        return F.cross_entropy(torch.cat(scores, 1), right, reduction="sum") / max(1, len(first))


MARGIN_MSE_FACTS = LossFacts(vectors=2, needs_batch=False, usual_view="pair")


def margin_mse(
    views: Float[Tensor, "n 2 d"],
    *,
    guide: Float[Tensor, "n p g"],
    negatives: Float[Tensor, "n d"],
    mask: Bool[Tensor, "n 2"] | None = None,
) -> Float[Tensor, ""]:
    """MarginMSE: Hofstätter et al., "Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge
    Distillation", 2020.

    Mean squared difference between x·x⁺ − x·x⁻ and the same of the guide's unit vectors. The vectors of the encoder are
    not normalised.
    """
    with torch.autocast(views.device.type, enabled=False):
        first, second = pairs(views, mask).unbind(1)
        ours = (first * (second - exact(kept(negatives, mask)))).sum(-1)
        text, positive, negative = exact(kept(guide, mask)).unbind(1)
        theirs = (text * (positive - negative)).sum(-1)
        return (ours - theirs).square().sum() / max(1, len(first))


DISTIL_KL_FACTS = LossFacts(vectors=2)


def distil_kl(
    views: Float[Tensor, "n 2 d"],
    *,
    guide: Float[Tensor, "n p g"],
    negatives: Float[Tensor, "n d"] | None = None,
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """Distillation of similarities: Lin et al., "Distilling Dense Representations for Ranking using Tightly-Coupled
    Teachers", 2020.

    τ² times the mean over texts of KL(g ‖ s), each a softmax over the similarities/τ of a text to all positives and
    hard negatives of the batch: g by the guide, s by the encoder. All are cosines, hence the low default of τ.
    """
    with torch.autocast(views.device.type, enabled=False):
        first, second = F.normalize(pairs(views, mask), dim=-1).unbind(1)
        text, *others = exact(kept(guide, mask)).unbind(1)
        candidates = [second]
        if negatives is not None:
            candidates.append(F.normalize(exact(kept(negatives, mask)), dim=-1))
        ours_NM = (first @ torch.cat(candidates).T / temperature).log_softmax(1)
        theirs_NM = (text @ torch.cat(others[: len(candidates)]).T / temperature).log_softmax(1)
        total = F.kl_div(ours_NM, theirs_NM, reduction="sum", log_target=True)
        return temperature**2 * total / max(1, len(first))


DISTILCOS_FACTS = LossFacts(vectors=2, needs_batch=False)


class DistilCos(nn.Module):
    """Distillation of vectors: Reimers and Gurevych, "Making Monolingual Sentence Embeddings Multilingual using
    Knowledge Distillation", 2020, with cosines instead of squared distances.

    1 − the cosine of each vector and the guide's, averaged over both views. A linear map is trained in front where the
    guide's vectors have another size.
    """

    def __init__(self, size: int, *, guide_size: int | None = None):
        super().__init__()
        wanted = size if guide_size is None else guide_size
        self.map = nn.Identity() if wanted == size else nn.Linear(size, wanted, bias=False)

    def forward(
        self,
        views: Float[Tensor, "n 2 d"],
        *,
        guide: Float[Tensor, "n p g"],
        mask: Bool[Tensor, "n 2"] | None = None,
    ) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            ours = F.normalize(self.map(pairs(views, mask)), dim=-1)
            cosines = (ours * exact(kept(guide, mask))[:, :2]).sum(-1)
            return (1 - cosines).sum() / max(1, cosines.numel())


def kept(rows: Float[Tensor, "n *d"], mask: Bool[Tensor, "n 2"] | None) -> Float[Tensor, "m *d"]:
    """Return the rows of the samples whose views are all unmasked."""
    return rows if mask is None else rows[mask.all(1)]
