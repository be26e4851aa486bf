"""Which cells read the output of frozen blocks from a store, and which share one. Imports no torch."""

from collections.abc import Hashable, Iterator

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.data.locate import separable_blocks
from contrastive.grid.identity import frozen_output_settings


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
