"""ConSERT's changes of the embedding layer: Yan et al., "ConSERT: A Contrastive Framework for Self-Supervised Sentence
Representation Transfer", 2021."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from contrastive.config.facts import FactsVariant, Unsplittable, ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, Encoded, View, as_pairs, unmasked

CONSERT_FACTS = ViewFacts(
    vectors=2,
    changed_passes=2,
    variants=(
        FactsVariant("change", "position_shuffle", ViewFacts(vectors=2, changed_passes=2, positions=True)),
        FactsVariant(
            "change",
            "adversarial",
            ViewFacts(
                vectors=2,
                changed_passes=4,  # two of them for the gradient
                judged=True,
                unsplittable=Unsplittable(("zero3", "fsdp"), "it takes a gradient in the forward pass"),
            ),
        ),
    ),
)

Change = Literal["token_cutoff", "feature_cutoff", "span_cutoff", "position_shuffle", "dropout", "adversarial"]
HeadLoss = Callable[[Encoded], Tensor]


def consert(
    encode: Encode, batch: Batch, head_loss: HeadLoss, *, change: Change = "feature_cutoff", rate: float = 0.2
) -> View:
    """Return two versions of each text, changed separately in the embedding layer. The head reads the unchanged text.

    `token_cutoff` and `span_cutoff` set a share `rate` of the text's tokens to 0, at random or in one run;
    `position_shuffle` permutes their positions; `adversarial` moves each of their numbers by `rate` standard
    deviations in the direction that increases the head's error, which `head_loss` computes. The others include the
    tokens that the tokenizer adds: `feature_cutoff` sets a share of the dimensions to 0, the same in a whole text,
    and `dropout` single numbers, scaling the others by 1/(1 − rate).
    """
    encoded, twice = encode(batch), batch.times(2)
    if change == "position_shuffle":
        changed = encode(twice, positions=shuffled(twice))
    elif change == "adversarial":
        uphill = slope(encode, twice, head_loss)
        changed = encode(twice, alter=partial(pushed, batch=twice, slope=uphill, rate=rate))
    else:
        changed = encode(twice, alter=lambda embedded: embedded * kept(embedded, twice, change, rate))
    sentence = encoded.dropout(encoded.pooled())
    return View([unmasked(as_pairs(changed.pooled()))], torch.stack([sentence], dim=1))


def kept(embedded: Float[Tensor, "n s d"], batch: Batch, change: str, rate: float) -> Tensor:
    """Return the factors that the embeddings are multiplied with."""
    n, s, d = embedded.shape
    words_NS = ~batch.special
    if change == "feature_cutoff":
        return (torch.rand(n, 1, d) >= rate).to(embedded)
    if change == "dropout":
        return (torch.rand(n, s, d) >= rate).to(embedded) / (1 - rate)
    count_N1 = words_NS.sum(1, keepdim=True).cpu()
    gone_N1 = (rate * count_N1.double()).round()  # as Python rounds
    if change == "token_cutoff":
        rank_NS = torch.rand(n, s).masked_fill(~words_NS.cpu(), 2.0).argsort(1).argsort(1)  # words first
        cut_NS = rank_NS < gone_N1
    else:
        begin_N1 = (torch.rand(n, 1) * (count_N1 - gone_N1 + 1)).floor()
        place_NS = words_NS.cpu().cumsum(1) - 1
        cut_NS = (place_NS >= begin_N1) & (place_NS < begin_N1 + gone_N1) & words_NS.cpu()
    return (~cut_NS[..., None]).to(embedded)


def slope(encode: Encode, batch: Batch, head_loss: HeadLoss) -> Float[Tensor, "n s d"]:
    """Return the gradient of the head's loss (`head_loss`) with respect to the token embeddings."""
    leaves = []

    def leaf(embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[0]

    with torch.enable_grad():  # also in passes without a graph
        (uphill,) = torch.autograd.grad(head_loss(encode(batch, alter=leaf)), leaves)
    return uphill


def pushed(embedded: Float[Tensor, "n s d"], batch: Batch, slope: Float[Tensor, "n s d"], rate: float) -> Tensor:
    """The fast gradient sign method: move every number of a text's words equally far, up or down the slope.

    The distance is `rate` standard deviations of this text's numbers, whatever other texts are in the batch.
    """
    words_NS1 = ~batch.special[..., None]
    count_N11 = (words_NS1.sum(1, keepdim=True) * embedded.shape[-1]).clamp(min=1)
    words_NSD = embedded.detach() * words_NS1
    mean_N11 = words_NSD.sum((1, 2), keepdim=True) / count_N11
    spread_N11 = ((words_NSD - mean_N11).square() * words_NS1).sum((1, 2), keepdim=True).div(count_N11).sqrt()
    return embedded + rate * spread_N11 * slope.sign() * words_NS1


def shuffled(batch: Batch) -> Tensor:
    """Permute the positions of each text's own tokens; padding and added tokens keep theirs."""
    n, s = batch.input_ids.shape
    words_NS = ~batch.special
    place_NS = torch.arange(s, device=words_NS.device).expand(n, s)
    drawn_NS = torch.rand(n, s).to(words_NS.device)
    position_NS = place_NS.clone()
    for i in range(n):
        places = place_NS[i, words_NS[i]]
        position_NS[i, places] = places[drawn_NS[i, places].argsort()]
    return position_NS
