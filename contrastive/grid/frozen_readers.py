"""Which cells read what frozen blocks give from a store, and which of them the same one. Imports no torch."""

from collections.abc import Hashable, Iterator

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.data.locate import separable_blocks
from contrastive.grid.identity import frozen_output_settings


def trains_from_store(cell: Cell, speed: Speed) -> bool:
    """Whether the training reads one: the frozen blocks' output is always the same, and it is asked to be kept."""
    return not cell.encoder.tune.frozen_dropout and speed.reuse != "none" and separable_blocks(cell) > 0


def embeds_from_store(cell: Cell, speed: Speed) -> bool:
    """Whether the embedding afterwards does, where nothing drops out in any cell; an encoder that begins at random has
    few cells of its seed."""
    if cell.encoder.model.startswith("scratch:"):
        return trains_from_store(cell, speed)
    return speed.reuse != "none" and separable_blocks(cell) > 0


def for_embedding(cell: Cell, speed: Speed) -> tuple[Cell, Speed]:
    """What it reads is computed and kept in full precision, whatever the training computes with."""
    exact = cell.training.model_copy(update={"precision": "fp32"})
    return cell.model_copy(update={"training": exact}), speed.model_copy(update={"reuse": "full"})


def stores_read(cell: Cell, speed: Speed, splits: tuple[str, ...]) -> Iterator[tuple[Cell, Speed, str]]:
    """What a cell reads, in training and to embed these splits."""
    if trains_from_store(cell, speed):
        yield cell, speed, "train"
    if embeds_from_store(cell, speed):
        yield from ((*for_embedding(cell, speed), split) for split in splits)


def store_identity(cell: Cell, speed: Speed, split: str, tokens: str) -> Hashable:
    """Equal for what is one store of the tokens with this key."""
    return tokens, *frozen_output_settings(cell).values(), speed.reuse, split
