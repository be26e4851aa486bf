"""The model of a cell: encoder, view and head in one module, so that a launcher can wrap it whole."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from contrastive import encoder as encoders
from contrastive import registry, tuning
from contrastive.batches import Batch
from contrastive.config import Cell
from contrastive.views import VIEWS
from contrastive.views.types import Encode, Encoded, Output, View


class Model(nn.Module):
    def __init__(self, cell: Cell, labels: int, vocab_size: int, pad_id: int):
        super().__init__()
        self.backbone = tuning.tune(encoders.load(cell.encoder, vocab_size, pad_id), cell.encoder.tune)
        self.dropout = nn.Dropout(cell.encoder.dropout)
        config: Any = self.backbone.config
        self.head = nn.Linear(config.hidden_size, labels) if cell.objective.reads_logits() else None
        self.pooling = cell.encoder.pooling
        self.view = view_of(cell)

    def encode(self, batch: Batch) -> Encoded:
        return encoders.encode(self.backbone, batch, self.pooling, self.dropout)

    def forward(self, batch: Batch) -> Output:
        view = self.view(self.encode, batch)
        logits = None if self.head is None else self.head(view.sentences)
        return Output(view.groups, view.sentences, logits)

    @torch.no_grad()
    def predict(self, batch: Batch) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n c"] | None]:
        """Embedding and logits of each text, without dropout; leaves the mode as it was."""
        training = self.training
        self.eval()
        embedding = self.encode(batch).pooled()
        logits = None if self.head is None else self.head(embedding)
        self.train(training)
        return embedding, logits


def view_of(cell: Cell) -> Callable[[Encode, Batch], View]:
    """The view that the cell names, with the settings that it reads."""
    name = cell.objective.view or "cls"
    wanted = registry.entries("contrastive.views", "VIEWS")[name].settings
    return partial(VIEWS[name], **{setting: getattr(cell.objective, setting) for setting in wanted})


def build(cell: Cell, labels: int, vocab_size: int, pad_id: int) -> Model:
    return Model(cell, labels, vocab_size, pad_id)
