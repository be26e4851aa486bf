"""Divide labelled rows into train, validation and test by the content of the texts.

Texts are ordered by their sha256. Test takes the first, validation the next, training the last, so that changing the
number of training texts never changes the test set, and a smaller training set is part of a larger one. With
data.resample each seed reorders what is left after test and validation, and trains on the first of these.
"""

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import NamedTuple

from contrastive.config.cell import Data
from contrastive.data.files import Rows, listed
from contrastive.errors import UserError, brief

SPLITS = ("train", "validation", "test")
LISTED = 5  # the most classes, and spellings of one, that a note lists
UNKNOWN = "-1"  # the label of test sets whose labels are secret, such as those of GLUE


@dataclass(frozen=True)
class Split:
    texts: list[str]
    labels: list[int]
    partners: list[tuple[str, ...]] = field(default_factory=list)  # of training texts, where the data has pairs

    def __len__(self) -> int:
        return len(self.texts)


RowCounts = dict[str, int]  # the rows of a source or separate split, and those dropped for each reason
COUNTED = {"rows": "rows", "repeated": "repeated", "contradicting": "with contradicting labels",
           "held_out": "also in another split, which keeps them",
           "partner_held_out": "whose positive or negative is held out"}  # → how a message names them  # fmt: skip


class Labelled(NamedTuple):
    text: str
    label: str
    partners: tuple[str, ...]


Distinct = dict[str, Labelled]  # key: the text with its white space normalised, as a tokenizer reads it


@dataclass(frozen=True)
class Splits:
    """Train, validation and test; no text is in two splits, or twice in one. `row_counts` counts what was dropped;
    `merged` maps classes that the data spells in several ways, such as 1 and 1.0, to these."""

    labels: tuple[str, ...]
    train: Split
    validation: Split
    test: Split
    # key: `source`, or a separate `validation` or `test`
    row_counts: Mapping[str, RowCounts] = field(default_factory=dict)
    merged: Mapping[str, list[str]] = field(default_factory=dict)

    def named(self) -> dict[str, Split]:
        return {name: getattr(self, name) for name in SPLITS}

    def class_counts(self) -> dict[str, dict[str, int]]:
        counts = {name: Counter(split.labels) for name, split in self.named().items()}
        return {name: {label: counts[name][i] for i, label in enumerate(self.labels)} for name in SPLITS}


def divide(
    pool: Rows, held_out_rows: Mapping[str, Rows], data: Data, draw: int | None = None, measured: int | None = None
) -> Splits:
    """Divide `pool`. `held_out_rows`: the rows of separate test or validation splits; `draw`: the seed that selects the
    training texts under data.resample; `measured`: another number of test texts than data.test, which leaves
    validation and training as they are."""
    row_counts: dict[str, RowCounts] = {}
    rest, held_out_parts = _separated(pool, held_out_rows, row_counts)
    order = sorted(rest, key=_sort_key)
    test, validation = (0 if isinstance(count, str) else count for count in (data.test, data.validation))
    held_out = {*order[: test + validation], *chain(*held_out_parts.values())}
    left = order[test + validation :]
    partners = {key: {without_white_space(partner) for partner in rest[key].partners} for key in left}
    kept = [key for key in left if not held_out & partners[key]]
    row_counts["source"]["partner_held_out"] = removed = len(left) - len(kept)
    sizes = {"test": test, "validation": validation, "train": data.train}
    _check_size(len(order) - removed, sizes, pool.name, row_counts["source"])
    train = _training_texts(kept, data, draw, pool.name)
    chosen = {"test": order[:test], "validation": order[test : test + validation], "train": train}
    if measured is not None:
        barred = set(train).union(*(partners[key] for key in kept))
        chosen["test"] += _further_test_texts([key for key in left if key not in barred], measured, data, pool.name)
    parts = {name: [rest[key] for key in keys] for name, keys in chosen.items()}
    parts |= {name: list(part.values()) for name, part in held_out_parts.items()}

    labels = _labels(parts, pool.name)
    index = {label: i for i, label in enumerate(labels)}
    splits = {
        name: Split([row.text for row in part], [index[row.label] for row in part]) for name, part in parts.items()
    }
    if data.positive is not None:
        splits["train"].partners.extend(row.partners for row in parts["train"])
    return Splits(labels, **splits, row_counts=row_counts, merged=_merged_labels(pool, *held_out_rows.values()))


def _separated(
    pool: Rows, held_out_rows: Mapping[str, Rows], row_counts: dict[str, RowCounts]
) -> tuple[Distinct, dict[str, Distinct]]:
    """Return the distinct texts of the pool and of each separate split; add what was removed to `row_counts`."""
    sources = {name: held_out_rows[name] for name in ("test", "validation") if name in held_out_rows} | {"source": pool}
    parts: dict[str, Distinct] = {}
    for name, rows in sources.items():
        texts, counts = _distinct(rows)
        kept = texts.keys() - set().union(*parts.values())
        row_counts[name] = counts | {"held_out": len(texts) - len(kept)}
        parts[name] = {key: row for key, row in texts.items() if key in kept}
    return parts.pop("source"), parts


def _training_texts(left: list[str], data: Data, draw: int | None, name: str) -> list[str]:
    """Return the last of the texts left after test and validation; with data.resample those that the seed selects."""
    assert data.resample == (draw is not None), "give the seed of the training texts if data.resample is set, else None"
    if not data.resample:
        return left[-data.train :] if data.train is not None else left
    if data.train is None or data.train >= len(left):
        count = "all" if data.train is None else data.train
        raise UserError(
            f"{name}: data.resample draws {count} training texts with each seed, but only {len(left)} are left after "
            "test and validation, so all seeds would train on the same texts: lower data.train, or leave out "
            "data.resample"
        )
    return sorted(left, key=lambda key: _sort_key(key, f"{draw}\n"))[: data.train]


def _further_test_texts(left: list[str], measured: int, data: Data, name: str) -> list[str]:
    """Return the first of the texts left, to have `measured` test texts together with those of data.test."""
    assert not data.resample and isinstance(data.test, int), "the configuration's check refuses these"
    if data.test + len(left) < measured:
        raise UserError(
            f"{name}: evaluation.test is {measured}, but only {data.test + len(left)} texts can be tested on: "
            f"{data.test} of data.test and {len(left)} that no cell trains on, with data.train at {data.train} and "
            f"data.validation at {data.validation}. Lower evaluation.test to {data.test + len(left)} or less"
        )
    return left[: measured - data.test]


def _sort_key(key: str, prefix: str = "") -> bytes:
    return hashlib.sha256((prefix + key).encode()).digest()


def _merged_labels(*sources: Rows) -> dict[str, list[str]]:
    """Return the first classes that the data spells in several ways, each with its first spellings."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for rows in sources:
        for label, spelled in zip(rows.labels, rows.spelled, strict=False):
            spellings[label].add(spelled)
    several = [(label, sorted(words)) for label, words in sorted(spellings.items()) if len(words) > 1]
    return {brief(label, 80): [brief(word, 80) for word in words[:LISTED]] for label, words in several[:LISTED]}


def _distinct(rows: Rows) -> tuple[Distinct, RowCounts]:
    """Return each text once, and the counts of rows; texts with several labels are dropped, since none can be trusted.

    Among texts that differ only in white space, and among several partners, the first in alphabetical order is kept.
    """
    distinct: Distinct = {}
    times: Counter[str] = Counter()
    contradicting = set()
    for row in map(Labelled, rows.texts, rows.labels, rows.partners or repeat(())):
        key = without_white_space(row.text)
        times[key] += 1
        previous = distinct.get(key, row)
        distinct[key] = Labelled(min(row.text, previous.text), previous.label, min(row.partners, previous.partners))
        if row.label != previous.label:
            contradicting.add(key)
    untrusted = sum(times[key] for key in contradicting)
    repeated = len(rows.texts) - untrusted - (len(distinct) - len(contradicting))
    counts = dict(zip(COUNTED, (len(rows.texts), repeated, untrusted, 0, 0), strict=True))
    return {key: row for key, row in distinct.items() if key not in contradicting}, counts


def without_white_space(text: str) -> str:
    """Return the text with single spaces: texts that differ only in white space are one text to a tokenizer."""
    return " ".join(text.split())


def _check_size(available: int, sizes: Mapping[str, int | None], name: str, counts: RowCounts) -> None:
    needed = sum(count if count is not None else 1 for count in sizes.values())
    if needed > available:
        terms = " + ".join(
            f"{split} {'(at least 1)' if count is None else count}" for split, count in sizes.items() if count != 0
        )
        reasons = ", ".join(f"{count} {COUNTED[why]}" for why, count in counts.items() if count)
        raise UserError(
            f"{name}: {terms} needs {needed} texts, but only {available} can be used ({reasons}). "
            "Lower data.train, data.validation or data.test"
        )


def grades_of(labels: Iterable[str], loss: str) -> list[float]:
    """Return the numbers that labels are, as a loss of graded pairs reads them."""
    labels = list(labels)
    try:
        numbers = [float(label) for label in labels]
        if all(map(math.isfinite, numbers)):
            return numbers
        raise ValueError
    except ValueError:
        shown = listed(brief(label, 80) for label in labels)
        raise UserError(f"{loss} reads labels as grades of pairs, such as 0 to 5, but they are {shown}") from None


def _labels(parts: Mapping[str, list[Labelled]], name: str) -> tuple[str, ...]:
    """Return all labels in order, numbers by value; raise UserError if a held-out label never occurs in train."""
    counts = {split: Counter(row.label for row in part) for split, part in parts.items()}
    labels = set().union(*counts.values())
    if len(labels) == 1:
        raise UserError(f"{name}: all texts have the label `{brief(labels.pop())}`; give texts of at least two classes")
    for split in ("test", "validation"):
        if set(counts[split]) == {UNKNOWN} and UNKNOWN not in counts["train"]:
            raise UserError(
                f"{name}: all {counts[split].total()} labels of {split} are {UNKNOWN}, so they are not public. Name a "
                "split with public labels, such as `validation`"
            )
        unseen = [
            f"`{brief(label, 80)}` ({count} texts)"
            for label, count in sorted(counts[split].items())
            if label not in counts["train"]
        ]
        if unseen:
            raise UserError(
                f"{name}: {listed(unseen)} only in {split}, never in train, which has "
                f"{listed(brief(label, 80) for label in sorted(counts['train']))}. Correct the label, or use more "
                "training texts"
            )
    numeric = all(re.fullmatch("-?[0-9]{1,18}", label) for label in labels)
    return tuple(sorted(labels, key=(lambda label: (int(label), label)) if numeric else None))
