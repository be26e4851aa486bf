"""What a cell reads is made before it trains: the tokens of its data, and those of the data that transfer is measured
on."""

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
    """Tokens of the cell's data, made once for all cells that share data, tokenizer and length."""
    return token_store.prepare_tokens(cell.data, cell.encoder, store.home(), cell.train_sample_seed())


def prepare_evaluation(cell: Cell, evaluation: Evaluation, prepared: Path) -> EmbeddingSpec:
    """What an evaluation reads, after making sure, before anything is trained, that it can be made."""
    for vectors in evaluation.vectors:
        locate.check_block(cell.encoder, vectors)
    for how in evaluation.post:
        locate.check_width(cell.encoder, how)
    if evaluation.test is not None:
        prepare_larger_test(cell.data, evaluation.test, prepared, store.home())
    for transfer in evaluation.transfer:
        further = transfer_data.open_transfer(transfer_data.prepare_transfer(transfer, prepared, store.home()))
        transfer_data.check_classes(transfer, further.classes)
    return embedding_spec(evaluation, prepared.name)


def with_larger_test(tokens: Tokens, evaluation: Evaluation) -> Tokens:
    """The tokens with those of more test texts, where an evaluation measures on more than the cell's own."""
    if evaluation.test is None:
        return tokens
    key = larger_test_key(tokens.folder.name, evaluation.test)
    split = token_store.stored(store.cache_folder("tokens", key), "test")
    return replace(tokens, splits=tokens.splits | {larger_split_name(evaluation.test, key): split})
