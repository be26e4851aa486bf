"""Tokens of transfer data on which finished encoders are tried (`evaluation.transfer`), by the cell's own tokenizer.

Labelled texts are divided by their content, as those of a cell are. Of labelled pairs the whole pair is divided, since
many share a text. Pairs with a score need no training part.
"""

from __future__ import annotations

import hashlib
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
    """`sides` are `train` and `test`, of scored pairs `test` alone; the other texts of pairs are their only partner."""

    sides: dict[str, TokenSplit]
    classes: tuple[str, ...]  # names of the labels by their numbers; none where pairs have scores
    scores: Float[np.ndarray, " n"] | None
    subsets: tuple[str, ...]  # of each scored pair, where there are any

    def truth(self, side: str) -> dict[str, Any]:
        """What is known of the texts of a side, which evaluation.transfer compares with what vectors say."""
        if self.scores is None:
            return {"labels": np.asarray(self.sides[side].labels), "classes": np.array(self.classes)}
        return {"scores": self.scores} | ({"subsets": np.array(self.subsets)} if self.subsets else {})


def prepare_transfer(transfer: Transfer, prepared: Path, home: Path) -> Path:
    """The folder with the tokens of `transfer` by the tokenizer that lies in a cell's own prepared tokens."""
    folder = store.cache_folder("tokens", transfer_key(transfer, prepared.name), home)
    with named_in_errors(transfer):
        return store.make_once(folder, lambda unfinished: _tokenise_transfer(transfer, prepared, unfinished))


def transfer_key(transfer: Transfer, own: str) -> str:
    """`own` is the key of the cell's own tokens, which stands for the tokenizer and how many tokens are kept."""
    content = transfer_digest(transfer)
    kind, _, name = transfer.source.partition(":")
    chosen = (("contrastive.data", "DATASETS", (name,) if kind == "package" else ()),)
    code = fingerprint.code_digest(("contrastive.data.transfer_data",), chosen)
    return fingerprint.key("transfer", content=content, tokens=own, code=code)


def transfer_digest(transfer: Transfer) -> str:
    """Digest of what the texts, their division and their truth follow from, wherever they lie."""
    with named_in_errors(transfer):
        content = datasets.content_of(*_sources(transfer))
    settings = transfer.model_dump(mode="json", exclude={"name", "source", "metric"})
    settings |= {"test": "own"} if isinstance(transfer.test, str) else {}
    return fingerprint.key("transfer data", content=content, settings=settings)


def open_transfer(folder: Path) -> TransferTexts:
    meta = store.read_json(folder / "meta.json")
    sides = {name: tokens.stored(folder, name, meta["partners"]) for name in meta["sides"]}
    scores = np.load(folder / "scores.npy") if meta["scored"] else None
    return TransferTexts(sides, tuple(meta["classes"]), scores, tuple(meta["subsets"]))


@contextmanager
def named_in_errors(transfer: Transfer) -> Iterator[None]:
    """Errors about the data name this transfer, and its settings instead of a cell's."""
    try:
        yield
    except UserError as error:
        mended = re.sub(r"\bdata\.(?=(text|label|score|other|subset|train|test)\b)", f"{transfer.name}.", str(error))
        raise UserError(f"evaluation.transfer {transfer.name}: {mended}") from error


def _sources(transfer: Transfer) -> tuple[str, dict[str, str]]:
    """What is read: the source, and a split or file of its own, which of scored pairs is all that is read."""
    own = {"test": transfer.test} if isinstance(transfer.test, str) else {}
    if transfer.score is not None and transfer.source.startswith("file:"):
        return own.get("test", transfer.source), {}
    return transfer.source, own


def _tokenise_transfer(transfer: Transfer, prepared: Path, folder: Path) -> None:
    fast, max_length = tokens.prepared_tokenizer(prepared)
    partners = [] if transfer.other is None else [OTHER]
    subsets: list[str] = []
    if transfer.score is None:
        divided, sides = _labelled_texts(transfer), ["train", "test"]
    else:
        divided, scores, subsets = _scored_pairs(transfer)
        sides = ["test"]
        np.save(folder / "scores.npy", np.array(scores, np.float64))
    wordless: dict[str, int] = {}
    for name in sides:
        wordless |= tokens.write_split(folder, name, divided.named()[name], fast, max_length, partners)
    made = {
        "sides": sides,
        "partners": partners,
        "classes": divided.labels,
        "scored": transfer.score is not None,
        "subsets": subsets,
        "sifted": divided.sifted,
        "wordless": wordless,
        "merged": divided.merged,
        "notes": [*divided.notes, *tokens.notes_of_wordless(wordless)],
    }
    store.write_json(folder / "meta.json", made)


def _labelled_texts(transfer: Transfer) -> Splits:
    data = Data(
        source=transfer.source, text=transfer.text, label=transfer.label, train=transfer.train, test=transfer.test
    )
    if transfer.other is None:
        return datasets.load_splits(data)
    columns = {"text": transfer.text, "label": transfer.label, OTHER: transfer.other}
    pairs: dict[str, tuple[str, str]] = {}
    pool = _as_one(datasets.read_source(transfer.source, columns), pairs)
    own = {
        name: _as_one(datasets.read_source(transfer.source, columns, split), pairs)
        for name, split in _sources(transfer)[1].items()
    }
    divided = splits.divide(pool, own, data)
    return replace(divided, train=_as_two(divided.train, pairs), test=_as_two(divided.test, pairs))


def _as_one(rows: Rows, pairs: dict[str, tuple[str, str]]) -> Rows:
    """Each pair as one text, and in `pairs` what it stands for: of pairs that are the same, the first in order."""
    texts = []
    for text, (other,) in zip(rows.texts, rows.partners, strict=True):
        key = json.dumps([splits.without_white_space(text), splits.without_white_space(other)], ensure_ascii=False)
        pairs[key] = min((text, other), pairs.get(key, (text, other)))
        texts.append(key)
    return replace(rows, texts=texts, partners=[])


def _as_two(split: Split, pairs: dict[str, tuple[str, str]]) -> Split:
    chosen = [pairs[text] for text in split.texts]
    return Split([text for text, _ in chosen], split.labels, [(other,) for _, other in chosen])


def _scored_pairs(transfer: Transfer) -> tuple[Splits, list[float], list[str]]:
    """Every pair of the source, or of its own split or file, or so many of them, the first by their content."""
    assert transfer.score is not None and transfer.other is not None
    columns = {"text": transfer.text, "score": transfer.score, OTHER: transfer.other}
    if transfer.subset is not None:
        columns |= {"subset": transfer.subset}
    source, own = _sources(transfer)
    rows = datasets.read_source(source, columns, own.get("test"))
    if len(set(rows.labels)) == 1:
        raise UserError(
            f"{rows.name}: all {len(rows.labels)} scores are {float(rows.labels[0]):g}, and nothing goes along with a "
            "constant. Where they are kept secret, name a split that has them, such as `validation`"
        )
    chosen = list(range(len(rows.texts)))
    if isinstance(transfer.test, int):
        if transfer.test > len(chosen):
            raise UserError(f"{rows.name}: there are {len(chosen)} pairs, and data.test is {transfer.test}. Lower it")
        order = {i: hashlib.sha256(json.dumps([rows.texts[i], *rows.partners[i]]).encode()).digest() for i in chosen}
        chosen = sorted(chosen, key=order.__getitem__)[: transfer.test]
    others: list[tuple[str, ...]] = [rows.partners[i][:1] for i in chosen]
    subsets = [rows.partners[i][1] for i in chosen] if transfer.subset is not None else []
    test = Split([rows.texts[i] for i in chosen], [0] * len(chosen), others)
    return Splits((), Split([], []), Split([], []), test), [float(rows.labels[i]) for i in chosen], subsets


def check_classes(transfer: Transfer, classes: tuple[str, ...]) -> None:
    """That what the data is known for can be computed of these classes."""
    if transfer.known_for() == "f1" and len(classes) != 2:
        raise UserError(f"evaluation.transfer {transfer.name}: f1 is that of one class of two, and there are "
                        f"{len(classes)}: set metric to accuracy or matthews")  # fmt: skip
