"""Which blocks can run apart, which cells read their output or a guide's vectors from a store, and which share one.
Imports no torch."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.config.facts import middle
from contrastive.config.objective import Objective
from contrastive.data.locate import configuration, guide_digest, has_convolution, is_decoder, shape
from contrastive.grid.identity import initial_weight_settings, numeric_settings
from contrastive.runs import fingerprint, store

SEPARABLE_DECODERS = ("llama", "mistral")  # whose blocks all have one mask, and whose embeddings are not scaled


def separable_blocks(cell: Cell) -> int:
    """Return how many of the lowest blocks are frozen and not read by the cell's view.

    0 if they cannot be computed separately: nothing is frozen, processes share the weights of a block, the data are
    images, which are few tokens of many values, texts are encoded twice (echo), or the blocks of a decoder differ.
    """
    tuned = cell.encoder.tune.last_blocks
    if (
        tuned is None
        or cell.data.images is not None
        or cell.training.sharding is not None
        or cell.encoder.pooling == "echo"
        or has_convolution(cell.encoder)
        or (is_decoder(cell.encoder.model) and configuration(cell.encoder)["model_type"] not in SEPARABLE_DECODERS)
    ):
        return 0
    blocks = shape(cell.encoder)[0]
    return max(0, min(blocks - tuned, first_block_to_compute(cell.objective, blocks)))


def first_block_to_compute(objective: Objective, blocks: int) -> int:
    """Return the number of the first block that must be computed for the view; the output of those before may be
    stored."""
    facts = objective.view_facts()
    if facts.looks_into == "last":
        return blocks  # the view uses the attention of the last block, which is allowed only if that block trains
    if facts.looks_into == "all":
        return 0
    if facts.looks_into == "middle":
        block = middle(blocks) if objective.middle is None else objective.middle
    else:
        block = min(objective.layers or (0,))
    return block + (not facts.attention)


def frozen_output_settings(cell: Cell) -> dict[str, Any]:
    """Return what decides the output of the blocks below the cut for given tokens without dropout."""
    attention = {"attention_dropout": cell.encoder.attention_dropout}  # 0 uses another kernel
    seen = {} if cell.encoder.attention is None else {"attention": cell.encoder.attention}
    return initial_weight_settings(cell) | numeric_settings(cell) | attention | seen | {"cut": separable_blocks(cell)}


def trains_from_store(cell: Cell, speed: Speed) -> bool:
    """Return whether training reads a store: the output of frozen blocks never changes, and speed.reuse keeps it."""
    return not cell.encoder.tune.frozen_dropout and speed.reuse != "none" and separable_blocks(cell) > 0


def embeds_from_store(cell: Cell, speed: Speed) -> bool:
    """Return whether embedding reads a store: there, dropout is always off. A scratch encoder has too few cells per
    seed, so it only reads one if its training does."""
    if cell.encoder.model.startswith("scratch:"):
        return trains_from_store(cell, speed)
    return speed.reuse != "none" and separable_blocks(cell) > 0


def for_embedding(cell: Cell, speed: Speed) -> tuple[Cell, Speed]:
    """Return the settings of the store for embedding: always full precision, whatever the training uses."""
    exact = cell.training.model_copy(update={"precision": "fp32"})
    return cell.model_copy(update={"training": exact}), speed.model_copy(update={"reuse": "full"})


def stores_read(cell: Cell, speed: Speed, splits: tuple[str, ...]) -> Iterator[tuple[Cell, Speed, str]]:
    """Yield cell, speed and split of each store that a cell reads, in training and to embed these splits."""
    if trains_from_store(cell, speed):
        yield cell, speed, "train"
    if embeds_from_store(cell, speed):
        yield from ((*for_embedding(cell, speed), split) for split in splits)


def store_identity(cell: Cell, speed: Speed, split: str, tokens: str) -> Hashable:
    """Return a key that is equal for readers of the same store. `tokens`: key of the tokens."""
    return tokens, *frozen_output_settings(cell).values(), speed.reuse, split


def guide_folder(cell: Cell, tokens: str) -> Path:
    """Return the folder with the vectors of the training texts by the guide of a cell. `tokens`: key of the tokens."""
    assert cell.objective.guide is not None
    code = fingerprint.code_digest(("contrastive.models.guide",))
    key = fingerprint.key("guide", tokens=tokens, guide=guide_digest(cell.objective.guide), code=code)
    return store.cache_folder("guides", key)


def guides_to_make(cells: Iterable[Cell], token_key: Callable[[Cell], str]) -> list[Cell]:
    """Return one cell for each guide and set of texts whose vectors are not stored yet."""
    guided = {guide_folder(cell, token_key(cell)): cell for cell in cells if cell.objective.guide is not None}
    return [cell for folder, cell in guided.items() if not store.finished(folder)]
