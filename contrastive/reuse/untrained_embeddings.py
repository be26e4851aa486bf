"""Embeddings of the training texts by the untrained encoder, from which some losses begin: computed once for all cells
that share data and encoder."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from contrastive.cells import identity
from contrastive.cells.projections import untrained_output
from contrastive.config.cell import Cell
from contrastive.config.speed import Speed
from contrastive.data.tokens import Tokens
from contrastive.runs import cache, fingerprint
from contrastive.sources.encoder_shape import cut


def embeddings(
    cell: Cell, tokens: Tokens, speed: Speed, compute: Callable[[], Float[Tensor, "n d"]]
) -> Float[Tensor, "n d"]:
    """What `compute` gives, or gave another cell of which it must be the same."""

    def make(folder: Path) -> None:
        np.save(folder / "embeddings.npy", compute().float().cpu().numpy())

    folder = cache.make_once(embeddings_folder(cell, tokens, speed), make)
    return torch.from_numpy(np.load(folder / "embeddings.npy"))


def embeddings_folder(cell: Cell, tokens: Tokens, speed: Speed) -> Path:
    content = untrained_output(cell) | {"model": None, "encoder": identity.encoder_content(cell.encoder)}
    key = fingerprint.key(
        "untrained",
        tokens=tokens.folder.name,
        cell=content,
        read=cut(cell) if tokens.splits["train"].below is not None else None,  # from a store, as that rounded it
        speed=speed.model_dump(mode="json", exclude={"together"}),
        device="cuda" if torch.cuda.is_available() else "cpu",
        code=fingerprint.code_digest(
            ("contrastive.models.model", "contrastive.reuse.frozen_store", "contrastive.reuse.untrained_embeddings")
        ),
    )
    return cache.place_of("untrained", key)
