"""Prepare what an evaluation needs before a cell trains: tokens, larger test sets, transfer data.

The arrays of embeddings.npz are named here. Imports no torch.
"""

import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

from contrastive.config import registry
from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation, Transfer
from contrastive.data import locate, transfer_data
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens, larger_test_key, prepare_larger_test
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
        arrays = {array_name(name, vectors) for name in texts for vectors in ("", *self.extra_vectors)}
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
    pairs = any(registry.metrics()[name].facts.needs_dropout_pairs for name in evaluation.metrics)
    return EmbeddingSpec(splits, evaluation.vectors, pairs, transfer)


def prepare_cell_tokens(cell: Cell) -> Path:
    """Tokenize the cell's data, once for all cells with the same data, tokenizer and length; return the folder."""
    return token_store.prepare_tokens(cell.data, cell.encoder, store.home(), cell.train_sample_seed())


def prepare_evaluation(cell: Cell, evaluation: Evaluation, prepared: Path) -> EmbeddingSpec:
    """Check and prepare what an evaluation reads, before anything trains; return its EmbeddingSpec."""
    for vectors in evaluation.vectors:
        locate.check_block(cell.encoder, vectors)
    for name in evaluation.post:
        locate.check_width(cell.encoder, name)
    if evaluation.test is not None:
        prepare_larger_test(cell.data, evaluation.test, prepared, store.home())
    for transfer in evaluation.transfer:
        texts = transfer_data.open_transfer(transfer_data.prepare_transfer(transfer, prepared, store.home()))
        transfer_data.check_classes(transfer, texts.classes)
    return embedding_spec(evaluation, prepared.name)


def with_larger_test(tokens: Tokens, evaluation: Evaluation) -> Tokens:
    """Add the larger test set to the tokens, if the evaluation has one (evaluation.test)."""
    if evaluation.test is None:
        return tokens
    key = larger_test_key(tokens.folder.name, evaluation.test)
    split = token_store.open_split(store.cache_folder("tokens", key), "test")
    return replace(tokens, splits=tokens.splits | {larger_split_name(evaluation.test, key): split})


def larger_split_name(count: int, key: str) -> str:
    """Return the name of a larger test set of `count` texts; `key` (of its tokens) tells different texts apart."""
    return f"larger.{count}@{key}.test"


def array_name(texts: str, vectors: str) -> str:
    """Return the name of an array of vectors of a split or transfer data set; `vectors` is empty for the trained."""
    return f"{texts}/{vectors}" if vectors else texts


def transfer_prefix(transfer: Transfer, digest: str) -> str:
    """Return the prefix of a transfer data set in embeddings.npz; the digest tells different contents apart."""
    return f"transfer.{transfer.name}@{digest}"


def lacks_embeddings(folder: Path, evaluation: Evaluation) -> bool:
    """Return whether a trained cell lacks embeddings for this evaluation; only then is the model needed."""
    if not (folder / "TRAINED").exists():
        return False
    cell = read_cell(folder)
    return embedding_spec(evaluation, token_store.token_key(cell.data, cell.encoder, cell.train_sample_seed())).lacking(
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
