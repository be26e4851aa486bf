"""Embeddings and predictions of the held-out texts, one array a split, each row with the content id of its text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors.torch import load_file

from contrastive import model as models
from contrastive.batches import Batch, collate
from contrastive.config import Cell
from contrastive.data.tokens import Tokens

BATCH = 64

Predict: TypeAlias = Callable[[Batch], tuple[torch.Tensor, torch.Tensor | None]]


def embed(predict: Predict, folder: Path | None, tokens: Tokens, device: torch.device) -> None:
    """Without a folder only compute: where weights are split, every process must."""
    embeddings: dict[str, Any] = {}
    predictions: dict[str, Any] = {}
    for split in ("validation", "test"):
        texts = tokens.splits.get(split)
        if texts is None or len(texts) == 0:
            continue
        by_length = np.argsort(texts.lengths, kind="stable")
        back = np.argsort(by_length, kind="stable")
        vectors, logits = [], []
        for begin in range(0, len(by_length), BATCH):
            batch = collate(texts, by_length[begin : begin + BATCH], tokens.pad_id, tokens.special_ids).to(device)
            vector, logit = predict(batch)
            vectors.append(vector.float().cpu())
            if logit is not None:
                logits.append(logit.float().cpu())
        given = {f"{split}.labels": texts.labels, f"{split}.ids": texts.digests}
        embeddings |= {split: torch.cat(vectors).numpy()[back]} | given
        if logits:
            predictions |= {f"{split}.logits": torch.cat(logits).numpy()[back]} | given
    if folder is None:
        return
    np.savez(folder / "embeddings.npz", **embeddings)
    np.savez(folder / "predictions.npz", **predictions)


def restore(cell: Cell, folder: Path, tokens: Tokens) -> models.Model:
    """The trained model of a finished cell: the encoder, overlaid by what training changed."""
    model = models.build(cell, tokens)
    unexpected = model.load_state_dict(
        load_file(folder / "checkpoint" / "weights.safetensors"), strict=False
    ).unexpected_keys
    assert not unexpected, f"{folder.name}: weights of another model: {unexpected[:3]}"
    return model
