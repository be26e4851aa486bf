"""Which embeddings an evaluation reads, and which of them a run folder lacks."""

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
    """`others` are vectors beside those that trained; `twice`: some texts with dropout too; `transfer`: transfer data,
    each with the digest of its tokens."""

    splits: tuple[str, ...] = ("validation", "test")
    others: tuple[str, ...] = ()
    twice: bool = False
    transfer: tuple[tuple[Transfer, str], ...] = ()

    def prefixes(self) -> set[str]:
        """Of the arrays whose place names their content: those of the same and of other content are outdated."""
        larger = {split.removesuffix(".test") for split in self.splits if "@" in split}
        return larger | {transfer_prefix(*further) for further in self.transfer}

    def lacking(self, path: Path) -> bool:
        """Whether a file lacks something. Validation without texts is never there; training and test have some."""
        there = array_names(path)
        splits = [split for split in self.splits if split in there or split != "validation"]
        texts = [*splits, *(f"{transfer_prefix(*further)}.test" for further in self.transfer)]
        arrays = {f"{name}/{other}" if other else name for name in texts for other in ("", *self.others)}
        return not arrays | {f"{split}.twice" for split in splits if self.twice} <= there


def embedding_spec(evaluation: Evaluation, own: str) -> EmbeddingSpec:
    """Test and validation are always there; training texts where they are measured, or something is fitted on them.
    More test texts than the cell's own take the place of these.

    `own` is the digest of the cell's own tokens.
    """
    transfer = tuple((transfer, transfer_data.transfer_key(transfer, own)) for transfer in evaluation.transfer)
    splits = evaluation.embedded()
    if evaluation.test is not None:
        larger = larger_split_name(evaluation.test, larger_test_key(own, evaluation.test))
        splits = tuple(larger if split == "test" else split for split in splits)
    return EmbeddingSpec(splits, evaluation.vectors, evaluation.drops_twice(), transfer)


def transfer_prefix(transfer: Transfer, digest: str) -> str:
    """Where embeddings.npz keeps the vectors of transfer data: another content has another place."""
    return f"transfer.{transfer.name}@{digest}"


def lacks_embeddings(folder: Path, evaluation: Evaluation) -> bool:
    """Whether an evaluation reads embeddings that a trained cell has not: only then it needs the model."""
    if not (folder / "TRAINED").exists():
        return False
    cell = read_cell(folder)
    return embedding_spec(evaluation, tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed())).lacking(
        folder / "embeddings.npz"
    )


def read_cell(folder: Path) -> Cell:
    return Cell.model_validate(store.read_json(folder / "config.json")["cell"])


def array_names(path: Path) -> set[str]:
    """Names of the arrays in a file of them; none where there is no such file."""
    if not path.exists():
        return set()
    with zipfile.ZipFile(path) as content:
        return {name.removesuffix(".npy") for name in content.namelist()}
