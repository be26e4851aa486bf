"""DeBERTa's attention, fast: transformers computes it by the plain formula only.

score[q, k] = (query_q · key_k + query_q · position_key_b + key_k · position_query_b) / scale, with b the bucket of the
distance q − k; c2p is the second term, p2c the third. Values, gradients and random draws are those of the plain way,
but at positions of padding, which nobody reads: they attend to the text here, and to anything there.

Two ways. Where FlexAttention trains (CUDA, no attention dropout) the terms are its score function, and no memory grows
with the square of the length. Elsewhere one head's scores of a few texts are computed at a time, and again in the
backward pass: SDPA with the terms as a bias that learns would keep them all, as the plain way does.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, no_type_check

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from transformers.models.deberta_v2.modeling_deberta_v2 import DebertaV2Encoder, DisentangledSelfAttention

from contrastive.models.kernels.kernels import onednn_pays, product

SCORES = 2**20  # at a time on a CPU: 4 MB, which the caches hold
LONG = 128  # from this length on a text's matrices are worth products of their own
BAND = 128  # rows of a band at a time: the product is so many columns wider than the band
BLOCK = 128  # keys that FlexAttention skips together where all are padding


def quicken(backbone: nn.Module) -> None:
    """Let every disentangled attention of a backbone compute the same, fast; other modules stay as they are."""
    for module in backbone.modules():
        for plain, quick in ((DisentangledSelfAttention, QuickSelfAttention), (DebertaV2Encoder, QuickEncoder)):
            if type(module) is plain:
                module.__class__ = quick  # its parameters with their names, and its hooks, stay


class QuickEncoder(DebertaV2Encoder):
    """Masks keys and not pairs of tokens, and knows positions by distance and not by pair."""

    def get_attention_mask(self, attention_mask: Tensor) -> Tensor:
        whole = attention_mask.dim() != 2
        return super().get_attention_mask(attention_mask) if whole else attention_mask[:, None, None].bool()

    def get_rel_pos(self, hidden_states: Any, query_states: Any = None, relative_pos: Any = None) -> Any:
        """Buckets of the distances 1 − length … length − 1, or of each pair of a query and a key where these differ."""
        if not self.relative_attention or query_states is not None or relative_pos is not None:
            return super().get_rel_pos(hidden_states, query_states, relative_pos)
        before_S = super().get_rel_pos(hidden_states, hidden_states[:, :1])[0, 0]
        return torch.cat([before_S.flip(0), -before_S[1:]])


class QuickSelfAttention(DisentangledSelfAttention):
    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor,
        output_attentions: bool = False,
        query_states: Tensor | None = None,
        relative_pos: Tensor | None = None,
        rel_embeddings: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        if output_attentions or query_states is not None or attention_mask.shape[-2] > 1:
            plain = None if relative_pos is None or relative_pos.dim() == 1 else relative_pos
            return super().forward(
                hidden_states, attention_mask, output_attentions, query_states, plain, rel_embeddings
            )
        heads, scale = self.num_attention_heads, self.attention_head_size
        scale = (scale * (1 + ("c2p" in self.pos_att_type) + ("p2c" in self.pos_att_type))) ** -0.5
        query, key, value = (
            split(project(hidden_states), heads) for project in (self.query_proj, self.key_proj, self.value_proj)
        )
        row_D, tables = self.positions(hidden_states.shape[1], relative_pos, rel_embeddings, scale)
        rate = self.dropout.p if self.training else 0.0
        given = (query * scale, key, value, tables.get("c2p"), tables.get("p2c"), row_D, attention_mask[:, 0, 0])
        found = by_score_function(*given) if query.is_cuda and not rate else by_slices(*given, rate)
        return found.transpose(1, 2).flatten(2), None

    def positions(
        self, length: int, away_D: Tensor | None, rel_embeddings: Tensor | None, scale: float
    ) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The row of each distance, and the vectors of these rows: position keys (c2p), position queries (p2c)."""
        if not self.relative_attention:
            return None, {}
        assert away_D is not None and rel_embeddings is not None
        span = self.pos_ebd_size
        first, last = max(0, span - length + 1), min(2 * span, span + length)  # the distances that there are
        dropped_RE = self.pos_dropout(rel_embeddings)[: 2 * span]
        projections = {"c2p": "key_proj", "p2c": "query_proj"} if self.share_att_key else PROJECTIONS
        tables = {}
        for kind in KINDS[::-1] if self.share_att_key else KINDS:  # in the order of the plain way's random draws
            if kind in self.pos_att_type:
                project = getattr(self, projections[kind])
                if isinstance(project, nn.Linear):
                    table_RE = project(dropped_RE[first:last])
                else:  # an adapter draws its dropout for all rows
                    table_RE = project(dropped_RE)[first:last]
                tables[kind] = split(table_RE, self.num_attention_heads)
        if "p2c" in tables:
            tables["p2c"] = tables["p2c"] * scale  # the query's share, as with a query of content
        return (away_D + span).clamp(0, 2 * span - 1) - first, tables


KINDS = ("c2p", "p2c")
PROJECTIONS = {"c2p": "pos_key_proj", "p2c": "pos_query_proj"}


def split(vectors: Tensor, heads: int) -> Tensor:
    """[… s heads·d] → [… heads s d]"""
    return vectors.unflatten(-1, (heads, -1)).transpose(-2, -3)


def by_score_function(
    query: Float[Tensor, "n h s d"],
    key: Float[Tensor, "n h s d"],
    value: Float[Tensor, "n h s d"],
    keys: Float[Tensor, "h r d"] | None,
    queries: Float[Tensor, "h r d"] | None,
    row_D: Int64[Tensor, " w"] | None,
    mask: Bool[Tensor, "n s"],
    attend: Callable[..., Any] | None = None,
) -> Float[Tensor, "n h s d"]:
    """Through FlexAttention: products of each query and key with the rows' vectors, indexed by the score function."""
    c2p_NHSR = None if keys is None else query @ keys.mT
    p2c_NHSR = None if queries is None else key @ queries.mT
    middle = torch.full((), query.shape[2] - 1, device=query.device)  # an int would compile anew for each length

    @no_type_check  # it is traced, and no check of shapes can be
    def terms(score: Tensor, n: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if row_D is None:
            return score
        row = row_D[q - k + middle]
        score = score if c2p_NHSR is None else score + c2p_NHSR[n, h, q, row]
        return score if p2c_NHSR is None else score + p2c_NHSR[n, h, k, row]

    attend = attend or compiled()
    found: Tensor = attend(query, key, value, score_mod=terms, block_mask=without_padding(mask), scale=1.0)
    return found


@cache
def compiled() -> Callable[..., Any]:
    return torch.compile(flex_attention)


def without_padding(mask: Bool[Tensor, "n s"]) -> BlockMask:
    """Blocks of keys with a token of the text, for all queries; made from the mask of keys, without one of pairs."""
    length = mask.shape[1]
    blocks = -(-length // BLOCK)
    full_NK = nn.functional.pad(mask, (0, blocks * BLOCK - length)).unflatten(1, (blocks, BLOCK)).any(-1)
    order_NK = full_NK.int().argsort(dim=1, descending=True, stable=True).int()
    count_NQ = full_NK.sum(1, dtype=torch.int32)[:, None].expand(-1, blocks)
    order_NQK = order_NK[:, None].expand(-1, blocks, -1)
    return BlockMask.from_kv_blocks(
        count_NQ[:, None].contiguous(),
        order_NQK[:, None].contiguous(),
        BLOCK_SIZE=BLOCK,
        mask_mod=lambda n, h, q, k: mask[n, k],
        seq_lengths=(length, length),
    )


@torch.compiler.disable
def by_slices(
    query: Float[Tensor, "n h s d"],
    key: Float[Tensor, "n h s d"],
    value: Float[Tensor, "n h s d"],
    keys: Float[Tensor, "h r d"] | None,
    queries: Float[Tensor, "h r d"] | None,
    row_D: Int64[Tensor, " w"] | None,
    mask: Bool[Tensor, "n s"],
    rate: float,
) -> Float[Tensor, "n h s d"]:
    """One head's scores of a few texts at a time. The bits that dropout keeps are drawn as nn.Dropout draws them."""
    kept = None
    if rate:
        pairs = (*query.shape[:3], query.shape[2])
        kept = torch.empty(pairs, dtype=torch.bool, device=query.device).bernoulli_(1 - rate)
    if row_D is not None:  # a vector for each distance, in the order in which a band's row needs them
        keys = None if keys is None else keys.index_select(1, row_D.flip(0))
        queries = None if queries is None else queries.index_select(1, row_D)
    dense = (given.contiguous() for given in (query, key, value))  # oneDNN takes a thousand times longer otherwise
    found: Tensor = Sliced.apply(*dense, keys, queries, mask, kept, rate)
    return found


class Sliced(torch.autograd.Function):
    """Attention with its scores computed again in the backward pass; `keys` and `queries` hold a row a distance."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        keys: Tensor | None,
        queries: Tensor | None,
        mask: Tensor,
        kept: Tensor | None,
        rate: float,
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, keys, queries, mask, kept)
        ctx.rate = rate
        found = torch.empty_like(query)
        for part in slices(query):
            given = dropped(probabilities(part, query, key, keys, queries, mask), part, kept, rate)
            found[part] = times(given.to(value.dtype), value[part])
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        query, key, value, keys, queries, mask, kept = ctx.saved_tensors
        d_found = gradients[0].contiguous()
        d_query, d_key, d_value = (torch.empty_like(given) for given in (query, key, value))
        d_keys, d_queries = zeros(keys), zeros(queries)
        for part in slices(query):
            probability = probabilities(part, query, key, keys, queries, mask)
            given = dropped(probability, part, kept, ctx.rate).to(value.dtype)
            d_value[part] = times(given.mT, d_found[part])
            d_given = times(d_found[part], value[part].mT).to(probability.dtype)
            d_probability = dropped(d_given, part, kept, ctx.rate)
            d_score = torch._softmax_backward_data(d_probability, probability, -1, probability.dtype).to(query.dtype)
            d_query[part] = times(d_score, key[part])
            d_key[part] = times(d_score.mT, query[part])
            if keys is not None:
                learn_band(d_score, query[part], keys[part[1]], d_query[part], d_keys[part[1]])
            if queries is not None:
                learn_band(d_score.mT, key[part], queries[part[1]], d_key[part], d_queries[part[1]])
        return d_query, d_key, d_value, like(d_keys, keys), like(d_queries, queries), None, None, None


def slices(query: Tensor) -> Iterator[tuple[slice, int]]:
    """Texts and a head."""
    texts, heads, length, _ = query.shape
    step = texts if query.is_cuda else 1 if length >= LONG else SCORES // length**2
    for head in range(heads):
        yield from ((slice(start, start + step), head) for start in range(0, texts, step))


def probabilities(
    part: tuple[slice, int],
    query: Tensor,
    key: Tensor,
    keys: Tensor | None,
    queries: Tensor | None,
    mask: Bool[Tensor, "n s"],
) -> Float[Tensor, "m s s"]:
    texts, head = part
    score = times(query[part], key[part].mT)
    if keys is not None:
        add_band(score, query[part], keys[head])
    if queries is not None:
        add_band(score.mT, key[part], queries[head])
    score.masked_fill_(~mask[texts, None], torch.finfo(score.dtype).min)
    return score.softmax(-1, dtype=exact(score))


def times(left: Float[Tensor, "m a k"], right: Tensor) -> Float[Tensor, "m a b"]:
    """left @ right, with one matrix on the right or one a text; by oneDNN where it is quicker."""
    alone = right.dim() == 2 or len(left) == 1
    if left.is_cuda or left.dtype != torch.float32 or not alone or not onednn_pays():
        return left @ right
    right_KB = right if right.dim() == 2 else right[0]
    if left.stride(-1) != 1:  # oneDNN is slow with both the other way round
        return product(right_KB.T, left[0]).T[None]
    return product(left.flatten(0, 1), right_KB.T).unflatten(0, left.shape[:2])


def dropped(values: Tensor, part: tuple[slice, int], kept: Tensor | None, rate: float) -> Tensor:
    return values if kept is None else values * kept[part] / (1 - rate)


def bands(length: int) -> Iterator[tuple[slice, slice]]:
    """Some rows of a matrix of pairs, and the distances that stand in them, of a table that ends with row 0's."""
    for start in range(0, length, BAND):
        stop = min(start + BAND, length)
        yield slice(start, stop), slice(length - stop, 2 * length - 1 - start)


def band(product: Float[Tensor, "m b w"]) -> Float[Tensor, "m b s"]:
    """Of each row those columns that are its distances: they begin one column further left in each row."""
    texts, rows, width = product.shape
    return product.as_strided((texts, rows, width - rows + 1), (rows * width, width - 1, 1), rows - 1)


def add_band(score: Float[Tensor, "m s s"], vectors: Float[Tensor, "m s d"], table: Float[Tensor, "w d"]) -> None:
    for rows, distances in bands(score.shape[1]):
        score[:, rows].add_(band(times(vectors[:, rows], table[distances].T)))


def learn_band(
    d_score: Float[Tensor, "m s s"],
    vectors: Float[Tensor, "m s d"],
    table: Float[Tensor, "w d"],
    d_vectors: Float[Tensor, "m s d"],
    d_table: Float[Tensor, "w d"],
) -> None:
    """Add to the gradients of what `add_band` multiplied."""
    for rows, distances in bands(d_score.shape[1]):
        d_product = d_score.new_zeros(len(d_score), rows.stop - rows.start, distances.stop - distances.start)
        band(d_product).copy_(d_score[:, rows])
        d_vectors[:, rows].add_(times(d_product, table[distances]))
        d_table[distances].add_(times(d_product.flatten(0, 1).T[None], vectors[:, rows].flatten(0, 1))[0])


def exact(given: Tensor) -> torch.dtype:
    return torch.promote_types(given.dtype, torch.float32)


def zeros(given: Tensor | None) -> Any:
    return None if given is None else torch.zeros_like(given, dtype=exact(given))


def like(gradient: Tensor | None, given: Tensor | None) -> Tensor | None:
    return None if gradient is None or given is None else gradient.to(given.dtype)
