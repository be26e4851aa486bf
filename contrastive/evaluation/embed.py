"""Embed the texts of a cell and its transfer data: vectors, logits, and a content id per text."""

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
from contrastive.evaluation.prepare import EmbeddingSpec, array_name, array_names, transfer_prefix
from contrastive.models import model as models
from contrastive.models.model import Model, ModelOutput
from contrastive.views.batches import EVAL_BATCH, Batch, by_length, collate

DROPOUT_SAMPLE = 1000  # texts (smallest ids) that are also embedded with two dropout masks

RunOnModel: TypeAlias = Callable[[Callable[[Model], Any]], Any]  # calls a function with the model, its weights gathered
Arrays: TypeAlias = dict[str, Any]


class Embedder:
    """Embeds texts with a model, in batches of texts of similar length."""

    def __init__(self, run_on_model: RunOnModel, tokens: Tokens, device: torch.device, seed: int):
        self.run_on_model, self.tokens, self.device, self.seed = run_on_model, tokens, device, seed

    def batches(self, texts: TokenSplit, parts: list[np.ndarray]) -> Iterator[Batch]:
        for rows in parts:
            yield collate(texts, rows, self.tokens.pad_id, self.tokens.special_ids).to(self.device)

    def vectors(self, texts: TokenSplit, others: tuple[str, ...]) -> tuple[Arrays, Any]:
        """Return the trained embeddings (name "") and `others` by name, and the logits if there is a head."""
        parts = by_length(texts.lengths)
        original_order = np.argsort(np.concatenate(parts), kind="stable")
        outputs: list[ModelOutput] = [
            self.run_on_model(partial(Model.predict, batch=batch, others=others))
            for batch in self.batches(texts, parts)
        ]
        embeddings = {"": concatenated([batch.embedding for batch in outputs])[original_order]}
        embeddings |= {name: concatenated([batch.others[name] for batch in outputs])[original_order] for name in others}
        logits = [batch.logits for batch in outputs if batch.logits is not None]
        return embeddings, concatenated(logits)[original_order] if logits else None

    def twice(self, texts: TokenSplit) -> Any:
        """Embed some texts with two dropout masks each, drawn from the cell's seed."""
        chosen = np.argsort(texts.digests, kind="stable")[:DROPOUT_SAMPLE]
        with fixed_seed(self.seed):
            parts = [chosen[begin : begin + EVAL_BATCH] for begin in range(0, len(chosen), EVAL_BATCH)]
            pairs = [self.run_on_model(partial(Model.drop_twice, batch=batch)) for batch in self.batches(texts, parts)]
        return concatenated(pairs)


def embed(embedder: Embedder, folder: Path | None, spec: EmbeddingSpec, home: Path, prepared: Path) -> None:
    """Add missing arrays of the spec to a folder's npz files.

    Without a folder, compute but write nothing: with sharded weights every process must run the forward passes.
    """
    path = folder / "embeddings.npz" if folder is not None else None
    existing = array_names(path) if path is not None else set()
    embeddings: Arrays = {}
    predictions: Arrays = {}
    for split in spec.splits:
        texts = embedder.tokens.splits.get(split)
        if texts is None or len(texts) == 0:
            continue
        others = tuple(other for other in spec.extra_vectors if f"{split}/{other}" not in existing)
        if others or split not in existing:
            vectors, logits = embedder.vectors(texts, others)
            labels_and_ids = {f"{split}.labels": texts.labels, f"{split}.ids": texts.digests}
            embeddings |= with_prefix(split, vectors) | labels_and_ids
            if logits is not None:
                predictions |= {f"{split}.logits": logits} | labels_and_ids
        if spec.dropout_pairs and f"{split}.twice" not in existing:
            embeddings[f"{split}.twice"] = embedder.twice(texts)
    for transfer, digest in spec.transfer:
        name = transfer_prefix(transfer, digest)
        others = tuple(other for other in spec.extra_vectors if f"{name}.test/{other}" not in existing)
        if others or f"{name}.test" not in existing:
            data = transfer_data.open_transfer(transfer_data.prepare_transfer(transfer, prepared, home))
            embeddings |= embed_transfer(embedder, name, data, others)
    if folder is not None:
        add_arrays(folder / "embeddings.npz", embeddings, spec.prefixes())
        add_arrays(folder / "predictions.npz", predictions, spec.prefixes())


def embed_transfer(embedder: Embedder, name: str, data: TransferTexts, others: tuple[str, ...]) -> Arrays:
    arrays: Arrays = {}
    for side, texts in data.sides.items():
        arrays |= with_prefix(f"{name}.{side}", embedder.vectors(texts, others)[0])
        for partner in texts.partners:
            arrays |= with_prefix(f"{name}.{side}.other", embedder.vectors(partner, others)[0])
        arrays |= {f"{name}.{side}.{kind}": values for kind, values in data.truth(side).items()}
    return arrays


def with_prefix(name: str, arrays: Arrays) -> Arrays:
    return {array_name(name, other): array for other, array in arrays.items()}


def concatenated(parts: list[torch.Tensor]) -> Any:
    return torch.cat([part.float().cpu() for part in parts]).numpy()


def add_arrays(path: Path, arrays: Arrays, prefixes: set[str]) -> None:
    """Add arrays to an npz file, and remove arrays of transfer or test texts that have changed (see `prefixes`)."""
    kept: Arrays = {}
    if path.exists():
        with np.load(path) as stored:
            kept = {
                name: stored[name] for name in stored.files if not any(is_outdated(name, prefix) for prefix in prefixes)
            }
    temporary = path.with_name(f".{path.name}")
    with open(temporary, "wb") as file:
        np.savez(file, **(kept | arrays))
    temporary.replace(path)


def is_outdated(name: str, prefix: str) -> bool:
    """Return whether an array is of the same data set as this prefix, but of another content digest."""
    return name.startswith(prefix.partition("@")[0] + "@") and not name.startswith(f"{prefix}.")


@contextmanager
def fixed_seed(seed: int) -> Iterator[None]:
    """Draw PyTorch random numbers from `seed`, and restore the generator afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def load_trained_model(cell: Cell, folder: Path, tokens: Tokens) -> models.Model:
    """Load the trained model of a cell: the pretrained encoder plus the weights that training changed."""
    model = models.Model(cell, tokens)
    every = load_file(folder / "checkpoint" / "weights.safetensors")
    weights = {name: weight for name, weight in every.items() if not name.startswith("losses.")}  # only trained with
    unexpected = model.load_state_dict(weights, strict=False).unexpected_keys
    assert not unexpected, f"{folder.name}: weights of another model: {unexpected[:3]}"
    return model
