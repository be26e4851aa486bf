"""Embeddings and predictions of a cell's texts, and of transfer data, each row with the content id of its text."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors.torch import load_file

from contrastive.config.cell import Cell
from contrastive.data import transfer_data
from contrastive.data.tokens import Tokens, TokenSplit
from contrastive.data.transfer_data import TransferTexts
from contrastive.evaluation.needs import EmbeddingSpec, array_names, transfer_prefix
from contrastive.models import model as models
from contrastive.models.model import Model, ModelOutput
from contrastive.views.batches import EVAL_BATCH, Batch, by_length, collate

DROPOUT_SAMPLE = 1000  # texts, those with the smallest ids, that are also embedded with dropout, twice

Read: TypeAlias = Callable[[Callable[[Model], Any]], Any]  # shows the model, whose weights are whole there
Arrays: TypeAlias = dict[str, Any]


class Embedder:
    """Shows texts to a model, batches of about the same length at a time."""

    def __init__(self, read: Read, tokens: Tokens, device: torch.device, seed: int):
        self.read, self.tokens, self.device, self.seed = read, tokens, device, seed

    def batches(self, texts: TokenSplit, parts: list[np.ndarray]) -> Iterator[Batch]:
        for rows in parts:
            yield collate(texts, rows, self.tokens.pad_id, self.tokens.special_ids).to(self.device)

    def vectors(self, texts: TokenSplit, others: tuple[str, ...]) -> tuple[Arrays, Any]:
        """The embeddings, under the name "", and others of the same texts; and the logits, if there is a head."""
        parts = by_length(texts.lengths)
        back = np.argsort(np.concatenate(parts), kind="stable")
        seen: list[ModelOutput] = [
            self.read(partial(Model.predict, batch=batch, others=others)) for batch in self.batches(texts, parts)
        ]
        embeddings = {"": concatenated([batch.embedding for batch in seen])[back]}
        embeddings |= {other: concatenated([batch.others[other] for batch in seen])[back] for other in others}
        logits = [batch.logits for batch in seen if batch.logits is not None]
        return embeddings, concatenated(logits)[back] if logits else None

    def twice(self, texts: TokenSplit) -> Any:
        """Two embeddings of some texts, each with a mask of dropout that the cell's seed decides."""
        chosen = np.argsort(texts.digests, kind="stable")[:DROPOUT_SAMPLE]
        with fixed_seed(self.seed):
            parts = [chosen[begin : begin + EVAL_BATCH] for begin in range(0, len(chosen), EVAL_BATCH)]
            pairs = [self.read(partial(Model.drop_twice, batch=batch)) for batch in self.batches(texts, parts)]
        return concatenated(pairs)


def embed(embedder: Embedder, folder: Path | None, wanted: EmbeddingSpec, home: Path, prepared: Path) -> None:
    """Add to a folder's files what is wanted and not there. Without a folder only compute: where weights are split,
    every process must."""
    path = folder / "embeddings.npz" if folder is not None else None
    there = array_names(path) if path is not None else set()
    embeddings: Arrays = {}
    predictions: Arrays = {}
    for split in wanted.splits:
        texts = embedder.tokens.splits.get(split)
        if texts is None or len(texts) == 0:
            continue
        others = tuple(other for other in wanted.others if f"{split}/{other}" not in there)
        if others or split not in there:
            vectors, logits = embedder.vectors(texts, others)
            given = {f"{split}.labels": texts.labels, f"{split}.ids": texts.digests}
            embeddings |= with_prefix(split, vectors) | given
            if logits is not None:
                predictions |= {f"{split}.logits": logits} | given
        if wanted.twice and f"{split}.twice" not in there:
            embeddings[f"{split}.twice"] = embedder.twice(texts)
    for transfer, digest in wanted.transfer:
        name = transfer_prefix(transfer, digest)
        others = tuple(other for other in wanted.others if f"{name}.test/{other}" not in there)
        if others or f"{name}.test" not in there:
            embeddings |= embed_transfer(
                embedder,
                name,
                transfer_data.open_transfer(transfer_data.prepare_transfer(transfer, prepared, home)),
                others,
            )
    if folder is not None:
        add_arrays(folder / "embeddings.npz", embeddings, wanted.prefixes())
        add_arrays(folder / "predictions.npz", predictions, wanted.prefixes())


def embed_transfer(embedder: Embedder, name: str, data: TransferTexts, others: tuple[str, ...]) -> Arrays:
    arrays: Arrays = {}
    for side, texts in data.sides.items():
        arrays |= with_prefix(f"{name}.{side}", embedder.vectors(texts, others)[0])
        for partner in texts.partners:
            arrays |= with_prefix(f"{name}.{side}.other", embedder.vectors(partner, others)[0])
        arrays |= {f"{name}.{side}.{kind}": values for kind, values in data.truth(side).items()}
    return arrays


def with_prefix(name: str, arrays: Arrays) -> Arrays:
    return {f"{name}/{other}" if other else name: array for other, array in arrays.items()}


def concatenated(parts: list[torch.Tensor]) -> Any:
    return torch.cat([part.float().cpu() for part in parts]).numpy()


def add_arrays(path: Path, arrays: Arrays, prefixes: set[str]) -> None:
    """The file with these arrays besides its own; those of texts that have changed since have another place."""
    kept: Arrays = {}
    if path.exists():
        with np.load(path) as stored:
            kept = {
                name: stored[name] for name in stored.files if not any(is_outdated(name, prefix) for prefix in prefixes)
            }
    fresh = path.with_name(f".{path.name}")
    with open(fresh, "wb") as file:
        np.savez(file, **(kept | arrays))
    fresh.replace(path)


def is_outdated(name: str, prefix: str) -> bool:
    """Whether an array is of the same transfer data as a place, or of as many test texts, and of other content."""
    return name.startswith(prefix.partition("@")[0] + "@") and not name.startswith(f"{prefix}.")


@contextmanager
def fixed_seed(seed: int) -> Iterator[None]:
    """Random numbers that a seed decides, and none of those that would have come otherwise are used up."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def load_trained_model(cell: Cell, folder: Path, tokens: Tokens) -> models.Model:
    """The trained model of a finished cell: the encoder, overlaid by what training changed."""
    model = models.Model(cell, tokens)
    unexpected = model.load_state_dict(
        load_file(folder / "checkpoint" / "weights.safetensors"), strict=False
    ).unexpected_keys
    assert not unexpected, f"{folder.name}: weights of another model: {unexpected[:3]}"
    return model
