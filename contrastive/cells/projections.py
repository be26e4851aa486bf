"""What of a cell decides what: each function here gives the settings that one thing follows from, and no other.

Cells that have the same of them share that thing: a store, a pass, a calibration, an expectation. A test changes every
setting and sees that each of these changes exactly when it should.
"""

from collections.abc import Hashable
from typing import Any

from contrastive.config import registry
from contrastive.config.cell import Cell, Data
from contrastive.sources.encoder_shape import cut


def same_texts(data: Data) -> Data:
    """Decides which texts there are and how they are divided: all of the data but how long a text may be. Where each
    seed draws its training texts, `Cell.draw` decides them too."""
    return data.model_copy(update={"max_length": Data.model_fields["max_length"].default})


def token_settings(cell: Cell) -> tuple[Hashable, ...]:
    """Decide the tokens of a cell on one machine: the data, with the draw of its training texts, and of the encoder
    whose tokenizer it has."""
    return cell.data, cell.draw(), cell.encoder.model, cell.encoder.scratch


def batch_settings(cell: Cell) -> tuple[Hashable, ...]:
    """Decide how many tokens the batches of a training have."""
    training = cell.training
    filled = training.batch_size, training.bucket, training.token_budget
    return *token_settings(cell), *filled


def arithmetic(cell: Cell) -> dict[str, Any]:
    """Decides the last digits of what the same weights give for the same tokens."""
    return {"precision": cell.training.precision, "threads": cell.training.threads}


def begun_weights(cell: Cell) -> dict[str, Any]:
    """Decide the weights of the encoder before any training: those of a scratch encoder are drawn by the seed."""
    scratch = cell.encoder.model.startswith("scratch:")
    return {"model": cell.encoder.model, "scratch": cell.encoder.scratch, "seed": cell.seed if scratch else None}


def frozen_output(cell: Cell) -> dict[str, Any]:
    """Decides what the blocks below the cut give for given tokens without dropout: not what happens above them."""
    attention = {"attention_dropout": cell.encoder.attention_dropout}  # 0 is computed in another way than the rest
    return begun_weights(cell) | arithmetic(cell) | attention | {"cut": cut(cell)}


def untrained_output(cell: Cell) -> dict[str, Any]:
    """Decides what the whole encoder gives for given tokens before any training."""
    return {"encoder": cell.encoder} | begun_weights(cell) | arithmetic(cell)


def shared_passes(cell: Cell) -> tuple[Hashable, ...]:
    """Decide the texts and random numbers that frozen blocks are given step by step: all but the objective, of which
    only the cut matters."""
    return cell.data, cell.encoder, cell.training, cell.seed, cut(cell)


def calibration_settings(cell: Cell) -> dict[str, Any]:
    """Decide which calibration says how long an amount of work takes: the size of the encoder, and how it computes."""
    return {"model": cell.encoder.model, "scratch": cell.encoder.scratch} | arithmetic(cell)


def work_amounts(cell: Cell) -> tuple[Hashable, ...]:
    """Decide the amounts of work and memory of a cell: all but the numbers that weigh an objective, and the seed as
    far as it draws no texts."""
    names = ("loss", "view", "layers", "middle", *registry.variant_settings())
    return cell.data, cell.draw(), cell.encoder, cell.training, *(getattr(cell.objective, name) for name in names)


def expectations(cell: Cell) -> tuple[Hashable, ...]:
    """Decide what finished cells a cell is expected to take as long as, the most alike first."""
    how = cell.training.threads, cell.training.precision, cell.training.processes
    return (
        cell.model_copy(update={"seed": 0}),
        (cell.encoder, cell.objective.loss, cell.objective.view, *how),
        (cell.encoder, *how),
        cell.encoder.model,
    )
