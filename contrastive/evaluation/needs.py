"""Embeddings that an evaluation needs (EmbeddingSpec), and whether a run folder lacks any."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation, Transfer
from contrastive.data import tokens, transfer_data
from contrastive.data.tokens import larger_test_key
from contrastive.evaluation.split_names import larger_split_name
from contrastive.runs import store


@dataclass(frozen=True)
class EmbeddingSpec:
    """The embeddings that an evaluation needs. `extra_vectors`: vectors besides the trained ones; `dropout_pairs`:
    two dropout passes of each text; `transfer`: transfer data sets, each with the digest of its tokens."""

    splits: tuple[str, ...] = ("validation", "test")
    extra_vectors: tuple[str, ...] = ()
    dropout_pairs: bool = False
    transfer: tuple[tuple[Transfer, str], ...] = ()

    def prefixes(self) -> set[str]:
        """Return the array-name prefixes that contain a content digest; the same with another digest is outdated."""
        larger = {split.removesuffix(".test") for split in self.splits if "@" in split}
        return larger | {transfer_prefix(*with_digest) for with_digest in self.transfer}

    def lacking(self, path: Path) -> bool:
        """Return whether a file lacks an array. Validation may have no texts and is then not required."""
        existing = array_names(path)
        splits = [split for split in self.splits if split in existing or split != "validation"]
        texts = [*splits, *(f"{transfer_prefix(*with_digest)}.test" for with_digest in self.transfer)]
        arrays = {f"{name}/{other}" if other else name for name in texts for other in ("", *self.extra_vectors)}
        return not arrays | {f"{split}.twice" for split in splits if self.dropout_pairs} <= existing


def embedding_spec(evaluation: Evaluation, token_digest: str) -> EmbeddingSpec:
    """Build the spec: test and validation always, training texts if they are measured or post-processing is fitted.

    A larger test set (evaluation.test) replaces the cell's own. `token_digest`: digest of the cell's own tokens.
    """
    transfer = tuple((transfer, transfer_data.transfer_key(transfer, token_digest)) for transfer in evaluation.transfer)
    splits = evaluation.embedded()
    if evaluation.test is not None:
        larger = larger_split_name(evaluation.test, larger_test_key(token_digest, evaluation.test))
        splits = tuple(larger if split == "test" else split for split in splits)
    return EmbeddingSpec(splits, evaluation.vectors, evaluation.needs_dropout_pairs(), transfer)


def transfer_prefix(transfer: Transfer, digest: str) -> str:
    """Return the prefix of a transfer data set in embeddings.npz; the digest tells different contents apart."""
    return f"transfer.{transfer.name}@{digest}"


def lacks_embeddings(folder: Path, evaluation: Evaluation) -> bool:
    """Return whether a trained cell lacks embeddings for this evaluation; only then is the model needed."""
    if not (folder / "TRAINED").exists():
        return False
    cell = read_cell(folder)
    return embedding_spec(evaluation, tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed())).lacking(
        folder / "embeddings.npz"
    )


def read_cell(folder: Path) -> Cell:
    return Cell.model_validate(store.read_json(folder / "config.json")["cell"])


def array_names(path: Path) -> set[str]:
    """Return the names of the arrays in an npz file; empty if there is no such file."""
    if not path.exists():
        return set()
    with zipfile.ZipFile(path) as content:
        return {name.removesuffix(".npy") for name in content.namelist()}
