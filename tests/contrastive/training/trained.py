"""One cell, trained without the stages around it."""

from pathlib import Path

from contrastive.config.cell import Cell
from contrastive.config.speed import USUAL, Speed
from contrastive.data.tokens import Tokens
from contrastive.reuse.passes import Passes
from contrastive.training.sharding import Shared
from contrastive.training.train import CellTraining


def trained_into(folder: Path, cell: Cell, tokens: Tokens, speed: Speed = USUAL) -> Shared:
    passes = Passes(sharing=speed.reuse != "none")
    training = CellTraining(cell, folder, tokens, checkpoint_every=10_000, speed=speed, passes=passes)
    for _ in training.steps():
        passes.forget()
    return training.shared
