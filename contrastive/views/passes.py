"""Views by passes of the encoder: sentence vectors, blocks, tokens, dropout, copies of the encoder, pairs, crops."""

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.config.facts import FactsVariant, Unsplittable, ViewFacts
from contrastive.config.facts import middle as half_way
from contrastive.errors import UserError
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, Encoded, VectorGroup, View, as_pairs, unmasked

CLS_FACTS = ViewFacts(vectors=1)


def cls(encode: Encode, batch: Batch) -> View:
    """One view: the sentence vector itself. Its positives are the other samples of its class."""
    encoded = encode(batch)
    sentence = encoded.pooled()
    return View([unmasked(torch.stack([sentence], dim=1))], torch.stack([encoded.dropout(sentence)], dim=1))


ONE_STAGE_FACTS = ViewFacts(vectors=2, predictions=2)


def one_stage(encode: Encode, batch: Batch) -> View:
    """Two views from one encoder pass: two dropout masks on the sentence vector."""
    encoded = encode(batch)
    sentence = encoded.pooled()
    both = torch.stack([encoded.dropout(sentence), encoded.dropout(sentence)], dim=1)
    return View([unmasked(both)], both)


TWO_STAGE_FACTS = ViewFacts(vectors=2, predictions=2, passes=2)


def two_stage(encode: Encode, batch: Batch) -> View:
    """Two views by two dropout masks of the whole encoder (R-Drop, SimCSE), as one pass over a doubled batch."""
    encoded = encode(batch.times(2))
    sentences = as_pairs(encoded.dropout(encoded.pooled()))
    return View([unmasked(sentences)], sentences)


MULTIVIEW_FACTS = ViewFacts(vectors=3, looks_into="middle")


def multiview(encode: Encode, batch: Batch, *, middle: int | None = None) -> View:
    """Three views from one pass: the sentence vectors of the last and a middle block, and dropout of the last. Return
    three vectors per text; `middle` is a block counted from 0, by default the one half way up."""
    encoded = encode(batch)
    blocks = len(encoded.hidden)
    chosen = half_way(blocks) if middle is None else middle
    if chosen >= blocks:
        raise UserError(f"middle is {chosen}, but this encoder has only blocks 0 to {blocks - 1}")
    last = encoded.pooled()
    vectors = torch.stack([last, encoded.pooled(chosen), encoded.dropout(last)], dim=1)
    return View([unmasked(vectors)], torch.stack([encoded.dropout(last)], dim=1))


MULTICROP_FACTS = ViewFacts(predictions=2, passes=3)  # four crops of a quarter of the pixels take as long as one pass


def multicrop(
    encode: Encode, batch: Batch, small: Encode, *, crops: int = 4, area: tuple[float, float] = (0.05, 0.14)
) -> View:
    """Multi-crop of SwAV (Caron et al., 2020): two views of an image, and small crops of it of up to half the size.
    Return two vectors of each image, followed by those of its small crops, which keep `area` of it."""
    encoded = encode(batch.times(2))
    vectors = encoded.pooled()
    parts = small(batch.times(crops), area=area).pooled()
    whole = torch.cat([as_pairs(vectors), torch.stack(parts.chunk(crops), 1)], 1)
    return View([unmasked(whole)], as_pairs(encoded.dropout(vectors)))


COPIES_FACTS = ViewFacts(vectors=2, passes=2)


def copies(encode: Encode, batch: Batch, twin: Encode) -> View:
    """Two copies of the encoder that start equal and train separately, as in Contrastive Tension. Return a text's
    vector by each copy. The head and the evaluation read the first copy's."""
    encoded = encode(batch)
    sentence = encoded.pooled()
    vectors = torch.stack([sentence, twin(batch).pooled()], dim=1)
    return View([unmasked(vectors)], torch.stack([encoded.dropout(sentence)], dim=1))


MOMENTUM_FACTS = ViewFacts(
    vectors=2,
    predictions=2,
    passes=2,
    slow_passes=2,
    unsplittable=Unsplittable(("zero3",), "it averages all weights after each step"),
)


def momentum(encode: Encode, batch: Batch, slow: Encode) -> View:
    """Momentum views (MoCo, BYOL): two vectors of the encoder, and two of the slow copy that follows it. Return the
    vectors by two dropout masks; `targets` are those of the slow copy by two more, without gradient."""
    twice = batch.times(2)
    encoded = encode(twice)
    vectors = encoded.pooled()
    with torch.no_grad():
        targets = as_pairs(slow(twice).pooled())
    return View([replace(unmasked(as_pairs(vectors)), targets=targets)], as_pairs(encoded.dropout(vectors)))


PAIR_FACTS = ViewFacts(vectors=2, partners=True)


def pair(encode: Encode, batch: Batch) -> View:
    """Pairs from the data: a text and one that means the same, and, where the data has it, a hard negative.

    Return the vectors of a text and of its `positive`; the `negative` texts are hard negatives of the group. The head
    reads the text itself. Only simcse_sup reads hard negatives; other losses use the pair alone.
    """
    encoded = encode(batch)
    sentence = encoded.pooled()
    positive, *negative = (encode(partner).pooled() for partner in batch.partners)
    pairs = unmasked(torch.stack([sentence, positive], dim=1))
    group = replace(pairs, negatives=negative[0] if negative else None)
    return View([group], torch.stack([encoded.dropout(sentence)], dim=1))


TOPK_TOKENS_FACTS = ViewFacts(attention=True)


def topk_tokens(encode: Encode, batch: Batch, *, k: int) -> View:
    """Token-level views: the K tokens that CLS attends to most. Return K tokens of the last block; where a text is
    shorter, the mask leaves fewer."""
    encoded = encode(batch)
    return View([top_tokens(encoded, -1, k)], torch.stack([encoded.dropout(encoded.pooled())], dim=1))


def top_tokens(encoded: Encoded, block: int, k: int) -> VectorGroup:
    """Return the vectors of a block's K most attended tokens, never padding, CLS or another special token."""
    attention_NS = encoded.cls_attention(block).masked_fill(encoded.batch.special, -torch.inf)
    best_NK = attention_NS.topk(min(k, attention_NS.shape[1]), dim=1)
    hidden_NSD = encoded.hidden[block]
    index_NKD = best_NK.indices[..., None].expand(-1, -1, hidden_NSD.shape[-1])
    return VectorGroup(hidden_NSD.gather(1, index_NKD), best_NK.values > -torch.inf)


LAYERS_FACTS = ViewFacts(
    vectors=2,
    looks_into="layers",
    unread=("k",),
    variants=(FactsVariant("level", "token", ViewFacts(looks_into="layers", attention=True)),),
)


def layers(
    encode: Encode, batch: Batch, *, layers: tuple[int, ...], level: Literal["sentence", "token"], k: int
) -> View:
    """Multi-layer contrast: one contrastive term for each chosen block, averaged.

    Return a group per block: at sentence level the block's sentence vector and a dropout of it, at token level its K
    most attended tokens. Block i means its output, with its own attention.
    """
    encoded = encode(batch)
    if wrong := [block for block in layers if block >= len(encoded.hidden)]:
        raise UserError(f"layers names {wrong}, but this encoder has only blocks 0 to {len(encoded.hidden) - 1}")
    groups = [top_tokens(encoded, block, k) if level == "token" else sentence_group(encoded, block) for block in layers]
    return View(groups, torch.stack([encoded.dropout(encoded.pooled())], dim=1))


def sentence_group(encoded: Encoded, block: int) -> VectorGroup:
    vector = encoded.pooled(block)
    return unmasked(torch.stack([vector, encoded.dropout(vector)], dim=1))


CLUSTER_FACTS = ViewFacts(attention=True)

ITERATIONS = 10


def cluster(encode: Encode, batch: Batch, *, k: int, clusters: int) -> View:
    """Cluster views: k-means over a sample's K token vectors; the centres are the views. The assignment is computed
    without gradient; a centre is the differentiable mean of its members. Detached centres would leave the term
    without any gradient."""
    encoded = encode(batch)
    tokens = top_tokens(encoded, -1, k)
    group = centres(F.normalize(tokens.vectors.float(), dim=-1), tokens.mask, clusters)
    return View([group], torch.stack([encoded.dropout(encoded.pooled())], dim=1))


def centres(points_NKD: Float[Tensor, "n k d"], mask_NK: Bool[Tensor, "n k"], clusters: int) -> VectorGroup:
    """Compute the cluster centres of all samples at once; a centre without members is masked."""
    with torch.no_grad():
        one_hot_NKC = assign(points_NKD.detach(), mask_NK, clusters)
    size_NC = one_hot_NKC.sum(1)
    mean_NCD = one_hot_NKC.transpose(1, 2) @ points_NKD / size_NC.clamp(min=1)[..., None]
    return VectorGroup(mean_NCD, size_NC > 0)


def assign(points_NKD: Float[Tensor, "n k d"], mask_NK: Bool[Tensor, "n k"], clusters: int) -> Float[Tensor, "n k c"]:
    """Return each point's cluster (one-hot) by Lloyd's iterations from a farthest-first start, without randomness."""
    clusters = min(clusters, points_NKD.shape[1])
    centre_NCD = farthest_first(points_NKD, mask_NK, clusters)
    for _ in range(ITERATIONS):
        nearest_NK = torch.cdist(points_NKD, centre_NCD).argmin(-1)
        one_hot_NKC = F.one_hot(nearest_NK, clusters).to(points_NKD) * mask_NK[..., None]
        size_NC1 = one_hot_NKC.sum(1)[..., None]
        mean_NCD = one_hot_NKC.transpose(1, 2) @ points_NKD / size_NC1.clamp(min=1)
        centre_NCD = torch.where(size_NC1 > 0, mean_NCD, centre_NCD)
    return one_hot_NKC


def farthest_first(
    points_NKD: Float[Tensor, "n k d"], mask_NK: Bool[Tensor, "n k"], clusters: int
) -> Float[Tensor, "n c d"]:
    """Choose the most attended token, then repeatedly the token farthest from those chosen."""
    chosen = [points_NKD[:, 0]]
    distance_NK = torch.full_like(points_NKD[..., 0], torch.inf)
    for _ in range(clusters - 1):
        distance_NK = distance_NK.minimum((points_NKD - chosen[-1][:, None]).pow(2).sum(-1))
        farthest_N: Int[Tensor, " n"] = distance_NK.masked_fill(~mask_NK, -1).argmax(1)
        chosen.append(points_NKD[torch.arange(len(points_NKD), device=points_NKD.device), farthest_N])
    return torch.stack(chosen, dim=1)
