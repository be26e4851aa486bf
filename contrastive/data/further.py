"""Tokens of further data on which finished encoders are tried (`evaluation.transfer`), by the cell's own tokenizer.

Labelled texts are divided by their content, as those of a cell are. Of labelled pairs the whole pair is divided, since
many share a text. Pairs with a score need no training part.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from contrastive import data as datasets
from contrastive import identity, store, tokenizer
from contrastive.config import Data
from contrastive.data import splits, tokens
from contrastive.data.files import Rows
from contrastive.data.splits import Split
from contrastive.data.tokens import TokenSplit
from contrastive.errors import UserError
from contrastive.evaluation import Transfer

OTHER = "other"


@dataclass(frozen=True)
class Further:
    """`sides` are `train` and `test`, of scored pairs `test` alone; the other texts of pairs are their only partner."""

    sides: dict[str, TokenSplit]
    classes: tuple[str, ...]  # names of the labels by their numbers; none where pairs have scores
    scores: Float[np.ndarray, " n"] | None
    subsets: tuple[str, ...]  # of each scored pair, where there are any

    def given(self) -> dict[str, Any]:
        """What contrastive.transfer needs beside vectors, under the names that it expects."""
        if self.scores is None:
            labels = {f"{name}.labels": np.asarray(side.labels) for name, side in self.sides.items()}
            return labels | {"classes": np.array(self.classes)}
        subsets = {"test.subsets": np.array(self.subsets)} if self.subsets else {}
        return {"test.scores": self.scores} | subsets


def prepare(transfer: Transfer, of_cell: Path, home: Path) -> Path:
    """The folder with the tokens of `transfer` by the tokenizer of `of_cell`, a cell's own prepared tokens."""
    with told(transfer):
        folder = home / "cache" / "tokens" / digest(transfer, of_cell)
        return tokens.once(folder, lambda unfinished: _make(transfer, of_cell, unfinished))


def digest(transfer: Transfer, of_cell: Path) -> str:
    """`of_cell` has in its name the tokenizer and the number of tokens kept of a text."""
    kind, _, name = transfer.source.partition(":")
    own = _own(transfer)
    source = own.get("test", transfer.source) if transfer.score is not None and kind == "file" else transfer.source
    content = {
        "content": datasets.content(source, own),
        "settings": transfer.model_dump(mode="json", exclude={"name", "source", "metric"})
        | {"test": "own" if own else transfer.test},
        "tokens": of_cell.name,
        "code": identity.code_digest(
            ("contrastive.data.further",), (("contrastive.data", "DATASETS", (name,) if kind == "package" else ()),)
        ),
    }
    return hashlib.sha256(identity.canonical_json(content).encode()).hexdigest()[:16]


def open(folder: Path) -> Further:
    meta = store.read_json(folder / "meta.json")
    sides = {name: tokens.stored(folder, name, meta["partners"]) for name in meta["sides"]}
    scores = np.load(folder / "scores.npy") if meta["scored"] else None
    return Further(sides, tuple(meta["classes"]), scores, tuple(meta["subsets"]))


@contextmanager
def told(transfer: Transfer) -> Iterator[None]:
    """Errors about the data name this transfer, and its settings instead of a cell's."""
    try:
        yield
    except UserError as error:
        mended = re.sub(r"\bdata\.(?=(text|label|score|other|subset|train|test)\b)", f"{transfer.name}.", str(error))
        raise UserError(f"evaluation.transfer {transfer.name}: {mended}") from error


def _own(transfer: Transfer) -> dict[str, str]:
    return {"test": transfer.test} if isinstance(transfer.test, str) else {}


def _make(transfer: Transfer, of_cell: Path, folder: Path) -> None:
    meta = store.read_json(of_cell / "meta.json")
    fast = tokenizer.read("the prepared tokens", of_cell / "tokenizer")
    notes: list[str] = []
    scores: list[float] = []
    subsets: list[str] = []
    classes: tuple[str, ...] = ()
    if transfer.score is None:
        classes, sides, notes = _labelled(transfer)
    else:
        sides, scores, subsets = _scored(transfer)
        np.save(folder / "scores.npy", np.array(scores, np.float64))
    for name, split in sides.items():
        notes += tokens.write(folder, name, split, fast, meta["max_length"])
        if transfer.other is not None:
            others = Split([other for (other,) in split.partners], split.labels)
            notes += tokens.write(folder, f"{name}.{OTHER}", others, fast, meta["max_length"])
    made = {
        "sides": list(sides),
        "partners": [] if transfer.other is None else [OTHER],
        "classes": classes,
        "scored": transfer.score is not None,
        "subsets": subsets,
        "notes": notes,
    }
    store.write_json(folder / "meta.json", made)


def _labelled(transfer: Transfer) -> tuple[tuple[str, ...], dict[str, Split], list[str]]:
    data = Data(
        source=transfer.source, text=transfer.text, label=transfer.label, train=transfer.train, test=transfer.test
    )
    if transfer.other is None:
        divided = datasets.load_splits(data)
        return divided.labels, {"train": divided.train, "test": divided.test}, list(divided.notes)
    columns = {"text": transfer.text, "label": transfer.label, OTHER: transfer.other}
    pool = datasets.read(transfer.source, columns)
    own = {name: datasets.read(transfer.source, columns, split) for name, split in _own(transfer).items()}
    pairs: dict[str, tuple[str, str]] = {}
    divided = splits.divide(_as_one(pool, pairs), {name: _as_one(rows, pairs) for name, rows in own.items()}, data)
    sides = {"train": divided.train, "test": divided.test}
    return divided.labels, {name: _as_two(split, pairs) for name, split in sides.items()}, list(divided.notes)


def _as_one(rows: Rows, pairs: dict[str, tuple[str, str]]) -> Rows:
    """Each pair as one text, and in `pairs` what it stands for: of pairs that are the same, the first in order."""
    texts = []
    for text, (other,) in zip(rows.texts, rows.partners, strict=True):
        key = json.dumps([splits.same(text), splits.same(other)], ensure_ascii=False)
        pairs[key] = min((text, other), pairs.get(key, (text, other)))
        texts.append(key)
    return Rows(rows.name, texts, rows.labels)


def _as_two(split: Split, pairs: dict[str, tuple[str, str]]) -> Split:
    found = [pairs[text] for text in split.texts]
    return Split([text for text, _ in found], split.labels, [(other,) for _, other in found])


def _scored(transfer: Transfer) -> tuple[dict[str, Split], list[float], list[str]]:
    """Every pair of the source, or of its own split or file, or so many of them, the first by their content."""
    assert transfer.score is not None and transfer.other is not None
    columns = {"text": transfer.text, "score": transfer.score, OTHER: transfer.other}
    if transfer.subset is not None:
        columns |= {"subset": transfer.subset}
    rows = datasets.read(transfer.source, columns, _own(transfer).get("test"))
    if len(set(rows.labels)) == 1:
        raise UserError(
            f"{rows.name}: all {len(rows.labels)} scores are {float(rows.labels[0]):g}, which nothing can go along with. "
            "Where they are kept secret, name a split that has them, such as `validation`"
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
    return {"test": test}, [float(rows.labels[i]) for i in chosen], subsets
