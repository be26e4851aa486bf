"""Store the outputs of frozen blocks without dropout for each token of a split: computed once per (data, encoder, cut),
memory-mapped in full or half precision, and read by all cells, epochs and seeds that can use it.

Texts are encoded in groups of equal length, not in the training batches; the results differ only by rounding.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.lib.format import open_memmap
from torch import Tensor

from contrastive.config.cell import Cell, Encoder, Training
from contrastive.config.experiment import Speed
from contrastive.data import locate
from contrastive.data.tokens import Tokens, TokenSplit
from contrastive.grid import frozen_readers, identity
from contrastive.grid.frozen_readers import frozen_output_settings, separable_blocks
from contrastive.grid.identity import untrained_output_settings
from contrastive.models import encoder as encoders
from contrastive.models import tuning
from contrastive.runs import fingerprint, store
from contrastive.views.batches import by_length, collate

SPARE = 0.5  # share of the free disk that a store may take
WIDTH: dict[str, np.dtype[Any]] = {"full": np.dtype(np.float32), "half": np.dtype(np.float16)}


def with_stored_training_outputs(tokens: Tokens, cell: Cell, speed: Speed) -> Tokens:
    """Return the tokens with the stored outputs of frozen blocks for the training texts, if the cell can use them."""
    return _with(tokens, ("train",), cell, speed) if frozen_readers.trains_from_store(cell, speed) else tokens


def with_stored_outputs(tokens: Tokens, cell: Cell, speed: Speed, splits: tuple[str, ...]) -> Tokens:
    """Return the tokens with stored outputs of frozen blocks for some splits, bit for bit as computed."""
    if not frozen_readers.embeds_from_store(cell, speed):
        return tokens
    return _with(tokens, splits, *frozen_readers.for_embedding(cell, speed))


def _with(tokens: Tokens, names: tuple[str, ...], cell: Cell, speed: Speed) -> Tokens:
    splits = dict(tokens.splits)
    for name in names:
        if name in splits and (folder := make_store(tokens, name, cell, speed)) is not None:
            texts = splits[name]
            partners = tuple(
                replace(partner, frozen_outputs=_mapped(folder, f"partner{i}"))
                for i, partner in enumerate(texts.partners)
            )
            splits[name] = replace(texts, frozen_outputs=_mapped(folder, "below"), partners=partners)
    return replace(tokens, splits=splits)


def _mapped(folder: Path, name: str) -> np.ndarray:
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def make_store(tokens: Tokens, name: str, cell: Cell, speed: Speed) -> Path | None:
    """Store the outputs of frozen blocks for a split, and return the folder; None without texts or disk space."""
    split = tokens.splits[name]
    if not len(split):
        return None
    folder = store_folder(tokens.folder.name, cell, speed) / name
    store.home().mkdir(parents=True, exist_ok=True)
    room = SPARE * shutil.disk_usage(store.home()).free
    if not store.finished(folder) and bytes_of_store(split, cell.encoder, speed) >= room:
        return None
    return store.make_once(folder, lambda unfinished: _compute(tokens, split, cell, speed, unfinished))


def store_folder(tokens: str, cell: Cell, speed: Speed) -> Path:
    """Return the folder, named by a digest of everything that decides its content: tokens, encoder, settings, code."""
    content = frozen_output_settings(cell) | {"model": locate.model_digest(cell.encoder)}
    key = fingerprint.key(
        "frozen",
        tokens=tokens,
        cell=content,
        speed=speed.model_dump(include={"reuse"}),
        device="cuda" if torch.cuda.is_available() else "cpu",
        code=fingerprint.code_digest(("contrastive.models.frozen_store",)),
    )
    return store.cache_folder("prefix", key)


def bytes_of_store(split: TokenSplit, encoder: Encoder, speed: Speed) -> int:
    """Return the size in bytes, partner texts included."""
    tokens = sum(len(texts.ids) for texts in (split, *split.partners))
    return tokens * locate.shape(encoder)[1] * WIDTH[speed.reuse].itemsize


def _compute(tokens: Tokens, split: TokenSplit, cell: Cell, speed: Speed, folder: Path) -> None:
    torch.set_num_threads(cell.training.threads)
    torch.manual_seed(cell.seed)  # a scratch encoder is the same as in the cell
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backbone = encoders.load_encoder(cell.encoder, tokens.vocab_size, tokens.pad_id).to(device).eval()
    names = ["below", *(f"partner{i}" for i in range(len(split.partners)))]
    with autocast(device, cell.training):
        for name, texts in zip(names, (split, *split.partners), strict=True):
            shape = (len(texts.ids), locate.shape(cell.encoder)[1])
            kept = open_memmap(folder / f"{name}.npy", mode="w+", dtype=WIDTH[speed.reuse], shape=shape)
            for rows in by_length(texts.lengths):
                batch = collate(texts, rows, tokens.pad_id, tokens.special_ids).to(device)
                outputs = tuning.outputs_below(backbone, batch, separable_blocks(cell))[batch.attention_mask]
                positions = np.concatenate([np.arange(texts.offsets[row], texts.offsets[row + 1]) for row in rows])
                kept[positions] = outputs.float().cpu().numpy()
            kept.flush()


def autocast(device: torch.device, training: Training) -> torch.autocast:
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[training.precision]
    return torch.autocast(device.type, dtype if dtype != torch.float32 else None, enabled=dtype != torch.float32)


def untrained_embeddings(
    cell: Cell, tokens: Tokens, speed: Speed, compute: Callable[[], Float[Tensor, "n d"]]
) -> Float[Tensor, "n d"]:
    """Return the embeddings before training: stored ones if an equivalent cell has them, else those of `compute`."""

    def make(folder: Path) -> None:
        np.save(folder / "embeddings.npy", compute().float().cpu().numpy())

    folder = store.make_once(untrained_embeddings_folder(cell, tokens, speed), make)
    return torch.from_numpy(np.load(folder / "embeddings.npy"))


def untrained_embeddings_folder(cell: Cell, tokens: Tokens, speed: Speed) -> Path:
    content = untrained_output_settings(cell) | {"model": None, "encoder": identity.encoder_content(cell.encoder)}
    key = fingerprint.key(
        "untrained",
        tokens=tokens.folder.name,
        cell=content,
        # stored outputs are rounded
        read=separable_blocks(cell) if tokens.splits["train"].frozen_outputs is not None else None,
        speed=speed.model_dump(mode="json"),
        device="cuda" if torch.cuda.is_available() else "cpu",
        code=fingerprint.code_digest(("contrastive.models.model", "contrastive.models.frozen_store")),
    )
    return store.cache_folder("untrained", key)
