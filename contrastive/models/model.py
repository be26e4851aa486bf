"""The model of a cell in one module that DDP can wrap: encoder, view, head, and losses that have parameters."""

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from contrastive.config.cell import Cell
from contrastive.config.objective import Objective
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.grid.frozen_readers import separable_blocks
from contrastive.losses import LOSSES
from contrastive.models import encoder as encoders
from contrastive.models import tuning
from contrastive.models.pooling import POOLINGS, mean_token
from contrastive.views import VIEWS
from contrastive.views.augment import augmented
from contrastive.views.batches import Batch
from contrastive.views.hidden_words import Masked
from contrastive.views.lexicon import Lexicon
from contrastive.views.translation import Rephrase
from contrastive.views.types import Encoded, Output, View


@dataclass(frozen=True)
class ModelOutput:
    embedding: Float[Tensor, "n d"]
    logits: Float[Tensor, "n c"] | None
    others: dict[str, Tensor]


class Model(nn.Module):
    def __init__(self, cell: Cell, tokens: Tokens):
        super().__init__()
        self.backbone = encoders.load_encoder(cell.encoder, tokens.vocab_size, tokens.pad_id, cell.data.images)
        self.dropout = nn.Dropout(cell.encoder.dropout)
        config: Any = self.backbone.config
        self.cut = separable_blocks(cell)  # frozen blocks that run apart from the others
        # only this many top blocks have dropout; None: all, frozen ones too
        self.dropout_blocks = None if cell.encoder.tune.frozen_dropout else cell.encoder.tune.last_blocks
        self.head = nn.Linear(config.hidden_size, len(tokens.labels)) if cell.objective.reads_logits() else None
        self.pooling = cell.encoder.pooling
        self.augment, self.images, self.passes = cell.training.augment, cell.data.images, 0
        self.view = bind_view(cell)
        self.needs = tuple(inspect.signature(self.view).parameters)
        self.slow = copy.deepcopy(self.backbone).requires_grad_(False) if "slow" in self.needs else None
        self.twin = copy.deepcopy(self.backbone) if "twin" in self.needs else None
        self.rephrase = Rephrase(tokens, cell.data.max_length)
        by_guide = tokens.splits["train"].guide
        guide_size = None if by_guide is None else by_guide.shape[1]
        self.losses = nn.ModuleDict(loss_modules(cell.objective, config.hidden_size, guide_size))
        self.lexicon = Lexicon(tokens.tokenizer, cell.data.max_length) if "lexicon" in self.needs else None
        self.computes_guesses = cell.objective.reads_guesses()
        self.masked = (
            load_masked_lm(cell, self.backbone, tokens) if self.computes_guesses or "guess" in self.needs else None
        )

    def encode(self, batch: Batch, **changes: Any) -> Encoded:
        return self._encode(self.backbone, batch, **changes)

    def _encode(
        self, backbone: nn.Module, batch: Batch, area: tuple[float, float] | None = None, **changes: Any
    ) -> Encoded:
        if self.augment is not None and self.images is not None:
            patch = getattr(self.backbone.config, "patch_size", 1)
            batch = augmented(batch, self.augment, self.images, self.passes, area, patch)
            self.passes += 1
        return encoders.encode(backbone, batch, self.pooling, self.dropout, **{"cut": self.cut} | changes)

    def train(self, mode: bool = True) -> "Model":
        """Set the mode; frozen blocks stay in eval mode with `frozen_dropout: false`."""
        super().train(mode)
        if self.dropout_blocks is not None:
            for backbone in (self.backbone, self.slow, self.twin):
                for module in () if backbone is None else tuning.frozen_modules(backbone, self.dropout_blocks):
                    module.eval()
        return self

    def forward(self, batch: Batch) -> Output:
        self.passes = 0  # each pass changes images in another way
        view = self.view(self.encode, batch, **self.tools())
        logits = None if self.head is None else self.head(view.sentences)
        guesses = self.masked(self.encode, batch) if self.masked is not None and self.computes_guesses else None
        return Output(view.groups, view.sentences, logits, guesses)

    def tools(self) -> dict[str, Any]:
        """Return the tools that the view names as parameters, besides the encoder and the batch."""
        available: dict[str, Any] = {"head_loss": self.head_loss, "lexicon": self.lexicon, "rephrase": self.rephrase}
        others = {"slow": self.slow, "twin": self.twin, "small": self.backbone}
        available |= {name: partial(self._encode, module) for name, module in others.items() if module is not None}
        if self.masked is not None:
            available["guess"] = partial(self.masked.guess, self.encode)
        return {name: tool for name, tool in available.items() if name in self.needs}

    def head_loss(self, encoded: Encoded) -> Float[Tensor, ""]:
        """Return the summed cross-entropy of the head on a batch."""
        assert self.head is not None, "`head_loss` needs a classification head"
        return F.cross_entropy(self.head(encoded.pooled()).float(), encoded.batch.labels, reduction="sum")

    @torch.no_grad()
    def predict(self, batch: Batch, others: Sequence[str] = ()) -> ModelOutput:
        """Return embeddings, logits and the named other vectors of each text without dropout; restores the mode."""
        training = self.training
        self.eval()
        encoded = self.encode(batch)
        embedding = encoded.pooled()
        logits = None if self.head is None else self.head(embedding)
        # cut=0: other vectors may need the output of any block
        whole = self.encode(batch, cut=0) if others else encoded
        prediction = ModelOutput(embedding, logits, {name: named_vectors(name, whole) for name in others})
        self.train(training)
        return prediction

    @torch.no_grad()
    def drop_twice(self, batch: Batch) -> Float[Tensor, "n 2 d"]:
        """Return the embedding of each text under two dropout masks; restores the mode."""
        training = self.training
        self.train()
        pair = torch.stack([self.encode(batch).pooled() for _ in range(2)], 1)
        self.train(training)
        return pair

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        """Update the momentum encoder and losses with state after an optimizer step."""
        losses: list[Any] = list(self.losses.values())
        for loss in losses:
            if self.slow is not None and hasattr(loss, "decay"):
                for slow, fast in zip(self.slow.parameters(), self.backbone.parameters(), strict=True):
                    slow.lerp_(fast, 1 - loss.decay(progress))
            if hasattr(loss, "after_step"):
                loss.after_step(progress)


def loss_modules(objective: Objective, size: int, guide_size: int | None = None) -> dict[str, nn.Module]:
    """Create the losses of an objective that are modules, with the settings that they read."""
    available = {name: getattr(objective, name) for name in Objective.model_fields} | {"guide_size": guide_size}
    modules = {}
    for name in objective.term_weights():
        made = LOSSES[name]
        if isinstance(made, type):
            wanted = [p.name for p in inspect.signature(made).parameters.values() if p.kind is p.KEYWORD_ONLY]
            given = {key: value for key in wanted if (value := available[key]) is not None}
            modules[name] = made(size, **given)
    return modules


def load_masked_lm(cell: Cell, backbone: nn.Module, tokens: Tokens) -> Masked:
    """Load the masked-LM head. It trains, at the heads' learning rate, only if a loss reads its predictions."""
    if tokens.mask_id is None:
        raise UserError(f"the tokenizer of {cell.encoder.model} has no mask token; use an encoder that has one")
    masked = Masked(
        encoders.load_masked_lm_head(cell.encoder, backbone), tokens.mask_id, tokens.special_ids, tokens.vocab_size
    )
    if not cell.objective.reads_guesses():
        shared = {id(parameter) for parameter in backbone.parameters()}
        for parameter in masked.parameters():
            parameter.requires_grad_(parameter.requires_grad and id(parameter) in shared)
    return masked


def bind_view(cell: Cell) -> Callable[..., View]:
    """Return the cell's view with the settings that it reads; a setting left out keeps the view's default."""
    view = cell.objective.view_entry()
    given = {setting: getattr(cell.objective, setting) for setting in view.settings}
    return partial(VIEWS[view.name], **{setting: value for setting, value in given.items() if value is not None})


def named_vectors(name: str, encoded: Encoded) -> Float[Tensor, "n d"]:
    """Return one vector of each text, by name.

    `cls` and `mean` pool the last block; `layer:I:cls` and `layer:I:mean` pool block I, counted from 0; `first_last`
    averages the token means of the first and the last block.
    """
    if name == "first_last":
        first, last = (mean_token(encoded.hidden[block], encoded.batch) for block in (0, -1))
        return (first + last) / 2
    *_, block, pooling = ("", "", "-1", name) if ":" not in name else name.split(":")
    return POOLINGS[pooling](encoded.hidden[int(block)], encoded.batch)
