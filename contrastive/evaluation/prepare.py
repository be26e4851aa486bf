"""Prepare the data of a cell before it trains: tokens of its own texts, larger test sets and transfer data."""

from dataclasses import replace
from pathlib import Path

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.data import locate, transfer_data
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens, larger_test_key, prepare_larger_test
from contrastive.evaluation.needs import EmbeddingSpec, embedding_spec
from contrastive.evaluation.split_names import larger_split_name
from contrastive.runs import store


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
