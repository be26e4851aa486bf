"""Prepare the tokens of transfer data (`evaluation.transfer`), on which finished encoders are tested.

Labelled texts are divided by their content, as a cell's texts are. Labelled pairs are divided as whole pairs, since
many share a text. All scored pairs are test data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from contrastive import data as datasets
from contrastive.config.cell import Data
from contrastive.config.evaluation import Transfer
from contrastive.data import splits, tokens
from contrastive.data.files import Rows
from contrastive.data.splits import Split, Splits
from contrastive.data.tokens import TokenSplit
from contrastive.errors import UserError
from contrastive.runs import fingerprint, store

OTHER = "other"


@dataclass(frozen=True)
class TransferTexts:
    """`sides` are `train` and `test`, or `test` alone for scored pairs; the second text of a pair is its partner."""

    sides: dict[str, TokenSplit]
    classes: tuple[str, ...]  # names of the labels by their numbers; empty for scored pairs
    scores: Float[np.ndarray, " n"] | None

    def truth(self, side: str) -> dict[str, Any]:
        """Return the labels or scores of a side, which evaluation.transfer compares with the predictions."""
        if self.scores is None:
            return {"labels": np.asarray(self.sides[side].labels), "classes": np.array(self.classes)}
        texts = self.sides[side]
        return {"scores": self.scores, "ids": texts.digests, "other.ids": texts.partners[0].digests}


def prepare_transfer(transfer: Transfer, prepared: Path, home: Path) -> Path:
    """Return the folder with the tokens of `transfer`, by the tokenizer of a cell's prepared tokens."""
    folder = store.cache_folder("tokens", transfer_key(transfer, prepared.name), home)
    with named_in_errors(transfer):
        return store.make_once(folder, lambda unfinished: _tokenise_transfer(transfer, prepared, unfinished))


def transfer_key(transfer: Transfer, prepared: str) -> str:
    """Return the cache key; `prepared` is the key of the cell's tokens, which covers the tokenizer and max_length."""
    content = transfer_digest(transfer)
    code = fingerprint.code_digest(("contrastive.data.transfer_data",), (datasets.registry_choice(transfer.source),))
    return fingerprint.key("transfer", content=content, tokens=prepared, code=code)


def transfer_digest(transfer: Transfer) -> str:
    """Return the digest of the data's content and the settings that divide and read it."""
    held_out = {"test": transfer.test} if isinstance(transfer.test, str) else {}
    with named_in_errors(transfer):
        content = datasets.content_of(transfer.source, held_out)
    settings = transfer.model_dump(mode="json", exclude={"name", "source", "metric"})
    settings |= dict.fromkeys(held_out, "own")
    return fingerprint.key("transfer data", content=content, settings=settings)


def open_transfer(folder: Path) -> TransferTexts:
    """Open prepared transfer data: the tokens of its train and test texts, and the classes or the pairs' scores."""
    meta = store.read_json(folder / "meta.json")
    sides = {name: tokens.open_split(folder, name, meta["partners"]) for name in meta["sides"]}
    scores = None if meta["scores"] is None else np.array(meta["scores"], np.float64)
    return TransferTexts(sides, tuple(meta["classes"]), scores)


@contextmanager
def named_in_errors(transfer: Transfer) -> Iterator[None]:
    """Name this transfer and its settings in errors about the data."""
    try:
        yield
    except UserError as error:
        message = re.sub(r"\bdata\.(?=(text|label|score|other|train|test)\b)", f"{transfer.name}.", str(error))
        raise UserError(f"evaluation.transfer {transfer.name}: {message}") from error


def _tokenise_transfer(transfer: Transfer, prepared: Path, folder: Path) -> None:
    reader, max_length, prompt = tokens.prepared_tokenizer(prepared)
    partners = [] if transfer.other is None else [OTHER]
    divided, scores = (_labelled_texts(transfer), None) if transfer.score is None else _scored_pairs(transfer)
    sides = {name: split for name, split in divided.named().items() if len(split)}
    wordless: dict[str, int] = {}
    for name, split in sides.items():
        wordless |= tokens.write_split(folder, name, split, reader, max_length, partners, prompt)
    meta = {
        "sides": list(sides),
        "partners": partners,
        "classes": divided.labels,
        "scores": scores,
        "sifted": divided.row_counts,
        "wordless": wordless,
        "merged": divided.merged,
    }
    store.write_json(folder / "meta.json", meta)


def _labelled_texts(transfer: Transfer) -> Splits:
    data = Data(
        source=transfer.source, text=transfer.text, label=transfer.label, train=transfer.train, test=transfer.test
    )
    if transfer.other is None:
        return datasets.load_splits(data)
    columns = {"text": transfer.text, "label": transfer.label, OTHER: transfer.other}
    pairs: dict[str, tuple[str, str]] = {}
    pool = _joined(datasets.read_source(transfer.source, columns), pairs)
    held_out = {
        name: _joined(datasets.read_source(transfer.source, columns, split), pairs)
        for name, split in datasets.named_splits(data).items()
    }
    divided = splits.divide(pool, held_out, data)
    return replace(divided, train=_separated(divided.train, pairs), test=_separated(divided.test, pairs))


def _joined(rows: Rows, pairs: dict[str, tuple[str, str]]) -> Rows:
    """Join each pair into one text, and note in `pairs` the pair; the first in order among equal pairs."""
    texts = []
    for text, (other,) in zip(rows.texts, rows.partners, strict=True):
        key = json.dumps([splits.without_white_space(text), splits.without_white_space(other)], ensure_ascii=False)
        pairs[key] = min((text, other), pairs.get(key, (text, other)))
        texts.append(key)
    return replace(rows, texts=texts, partners=[])


def _separated(split: Split, pairs: dict[str, tuple[str, str]]) -> Split:
    chosen = [pairs[text] for text in split.texts]
    return Split([text for text, _ in chosen], split.labels, [(other,) for _, other in chosen])


def _scored_pairs(transfer: Transfer) -> tuple[Splits, list[float]]:
    """Return the pairs of the test data and their scores."""
    assert transfer.score is not None and transfer.other is not None
    columns = {"text": transfer.text, "score": transfer.score, OTHER: transfer.other}
    rows = datasets.read_source(transfer.source, columns, None if transfer.test is None else str(transfer.test))
    if transfer.main_metric() == "ndcg":
        if not any(float(score) > 0 for score in rows.labels):
            raise UserError(f"{rows.name}: no score is above 0, so no document answers a query")
    elif len(set(rows.labels)) == 1:
        raise UserError(
            f"{rows.name}: all {len(rows.labels)} scores are {float(rows.labels[0]):g}, so no correlation can be "
            "computed. If they say which documents answer a query, set `metric: ndcg`; if they are secret, name a "
            "split with public scores, such as `validation`"
        )
    test = Split(rows.texts, [0] * len(rows.texts), rows.partners)
    return Splits((), Split([], []), Split([], []), test), [float(score) for score in rows.labels]


def check_classes(transfer: Transfer, classes: tuple[str, ...]) -> None:
    """Raise UserError if the transfer's metric cannot be computed for these classes."""
    if transfer.main_metric() == "f1" and len(classes) != 2:
        raise UserError(f"evaluation.transfer {transfer.name}: f1 needs two classes, and there are "
                        f"{len(classes)}: set metric to accuracy or matthews")  # fmt: skip
