"""Cells with frozen blocks, and what they leave."""

from pathlib import Path

from contrastive.config.cell import Cell
from contrastive.config.speed import Speed
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.reuse import frozen_store
from contrastive.stages.prepare import prepare_cell_tokens
from tests.contrastive.training.trained import make

STILL = {"last_blocks": 1, "frozen_dropout": False}
SMALL = {"train": 24, "validation": 0, "test": 16, "positive": "same", "negative": "other"}
RATES = {"encoder_lr": 1e-4, "head_lr": 1e-3}
NONE, FULL, HALF = Speed(reuse="none"), Speed(reuse="full"), Speed(reuse="half")


def cell_of(source: str, model: str, tune: dict | None = None, **settings) -> Cell:
    encoder = {"model": model, "scratch": None, "tune": STILL | (tune or {})} | settings.pop("encoder", {})
    data, training = SMALL | settings.pop("data", {}), RATES | settings.pop("training", {})
    return make(source, encoder=encoder, data=data, training=training, **settings)


def opened(cell: Cell) -> Tokens:
    return token_store.open(prepare_cell_tokens(cell))


def place(cell: Cell, speed: Speed = FULL) -> Path:
    return frozen_store.store_folder(opened(cell).folder.name, cell, speed)
