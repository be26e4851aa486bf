"""Divide labelled rows into train, validation and test by the content of the texts.

Texts are ordered by their sha256. Test takes the first, validation the next, training the last, so that another number
of training texts never changes who is in test, and a smaller training set is part of a larger one. With data.resample
each seed orders what is left after test and validation anew, and trains on the first of these.
"""

import hashlib
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
LISTED = 5  # classes, or ways to write one, that a note names
UNKNOWN = "-1"  # what stands for the labels of test sets that are kept secret, as GLUE's


@dataclass(frozen=True)
class Split:
    texts: list[str]
    labels: list[int]
    partners: list[tuple[str, ...]] = field(default_factory=list)  # of training texts, where the data has pairs

    def __len__(self) -> int:
        return len(self.texts)


# How many rows a source, or a split of its own, has, and why some are dropped: they are there twice, or bear several
# labels, they are also in another split, which keeps them, or their positive or negative is.
Sifted = dict[str, int]
COUNTED = ("rows", "repeated", "contradicting", "held_out", "partner_held_out")


class Labelled(NamedTuple):
    text: str
    label: str
    partners: tuple[str, ...]


Distinct = dict[str, Labelled]  # by the text as a tokenizer reads it, in which white space is one space


@dataclass(frozen=True)
class Splits:
    """No text is in two splits, or twice in one. `notes` say what was dropped, `sifted` how much, by where it was;
    `merged` are the classes that the data writes in several ways, such as 1 and 1.0, with these."""

    labels: tuple[str, ...]
    train: Split
    validation: Split
    test: Split
    notes: tuple[str, ...] = ()
    sifted: Mapping[str, Sifted] = field(default_factory=dict)  # `source`, and `validation` and `test` of their own
    merged: Mapping[str, list[str]] = field(default_factory=dict)

    def named(self) -> dict[str, Split]:
        return {name: getattr(self, name) for name in SPLITS}

    def class_counts(self) -> dict[str, dict[str, int]]:
        counts = {name: Counter(split.labels) for name, split in self.named().items()}
        return {name: {label: counts[name][i] for i, label in enumerate(self.labels)} for name in SPLITS}


def divide(
    pool: Rows, own: Mapping[str, Rows], data: Data, draw: int | None = None, measured: int | None = None
) -> Splits:
    """Splits of `pool`; `own` holds the rows of a test or validation split that the source names, and `draw` is the
    seed of the training texts where data.resample has them drawn. `measured` are so many test texts instead of
    data.test, which leave validation and training as they are."""
    notes: list[str] = []
    sifted: dict[str, Sifted] = {}
    rest, own_parts = _separated(pool, own, notes, sifted)
    order = sorted(rest, key=_place_in_order)
    test, validation = (0 if isinstance(count, str) else count for count in (data.test, data.validation))
    held_out = {*order[: test + validation], *chain(*own_parts.values())}
    left = order[test + validation :]
    beside = {key: {without_white_space(partner) for partner in rest[key].partners} for key in left}
    kept = [key for key in left if not held_out & beside[key]]
    if removed := len(left) - len(kept):
        sifted["source"]["partner_held_out"] = removed
        notes.append(f"source: {removed} texts removed, of which a positive or negative is held out")
    _enough(len(order) - removed, {"test": test, "validation": validation, "train": data.train}, pool, notes)
    train = _training_texts(kept, data, draw, pool.name)
    chosen = {"test": order[:test], "validation": order[test : test + validation], "train": train}
    if measured is not None:
        barred = set(train).union(*(beside[key] for key in kept))
        chosen["test"] += _further_test_texts([key for key in left if key not in barred], measured, data, pool.name)
    parts = {name: [rest[key] for key in keys] for name, keys in chosen.items()}
    parts |= {name: list(part.values()) for name, part in own_parts.items()}

    merged = _merged(pool, own.values(), notes)
    labels = _labels(parts, pool.name)
    index = {label: i for i, label in enumerate(labels)}
    splits = {
        name: Split([row.text for row in part], [index[row.label] for row in part]) for name, part in parts.items()
    }
    if data.positive is not None:
        splits["train"].partners.extend(row.partners for row in parts["train"])
    return Splits(labels, **splits, notes=tuple(notes), sifted=sifted, merged=merged)


def _separated(
    pool: Rows, own: Mapping[str, Rows], notes: list[str], sifted: dict[str, Sifted]
) -> tuple[Distinct, dict[str, Distinct]]:
    """The texts of the pool, and of each split of its own; no text is in two of them, or twice in one."""
    parts = {name: _distinct(own[name], name, notes, sifted) for name in ("test", "validation") if name in own}
    if {"test", "validation"} <= parts.keys():
        _keep_apart(parts["validation"], parts["test"], "validation", "test", notes, sifted)
    rest = _distinct(pool, "source", notes, sifted)
    for name, part in parts.items():
        _keep_apart(rest, part, "source", name, notes, sifted)
    return rest, parts


def _training_texts(left: list[str], data: Data, draw: int | None, name: str) -> list[str]:
    """The last of what is left after test and validation; with data.resample those that the seed draws from it."""
    assert data.resample == (draw is not None), "a draw is that of a cell whose training texts are drawn"
    if not data.resample:
        return left[-data.train :] if data.train is not None else left
    if data.train is None or data.train >= len(left):
        wanted = "all" if data.train is None else data.train
        raise UserError(
            f"{name}: data.resample draws {wanted} training texts anew with each seed, and {len(left)} are left after "
            "test and validation, so that all seeds would train on the same: lower data.train, or leave out "
            "data.resample"
        )
    return sorted(left, key=lambda key: _place_in_order(key, f"{draw}\n"))[: data.train]


def _further_test_texts(left: list[str], measured: int, data: Data, name: str) -> list[str]:
    """The first of what is left, as many as data.test lacks."""
    assert not data.resample and isinstance(data.test, int), "such files are refused"
    if data.test + len(left) < measured:
        raise UserError(
            f"{name}: evaluation.test is {measured}, and there are {data.test + len(left)} texts to measure on: "
            f"{data.test} of data.test and {len(left)} that no cell trains on, with data.train at {data.train} and "
            f"data.validation at {data.validation}. Lower evaluation.test to {data.test + len(left)} or less"
        )
    return left[: measured - data.test]


def _place_in_order(key: str, before: str = "") -> bytes:
    return hashlib.sha256((before + key).encode()).digest()


def _merged(pool: Rows, own: Iterable[Rows], notes: list[str]) -> dict[str, list[str]]:
    """Labels that are one class and that the data writes in several ways, with these; the first few of each."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for rows in (pool, *own):
        for label, spelled in zip(rows.labels, rows.spelled, strict=False):
            spellings[label].add(spelled)
    several = [(label, sorted(ways)) for label, ways in sorted(spellings.items()) if len(ways) > 1]
    merged = {brief(label, 80): [brief(way, 80) for way in ways[:LISTED]] for label, ways in several[:LISTED]}
    if merged:
        shown = (f"`{label}` ({', '.join(f'`{way}`' for way in ways)})" for label, ways in merged.items())
        notes.append(f"classes that are written in several ways: {', '.join(shown)}")
    return merged


def _distinct(rows: Rows, role: str, notes: list[str], sifted: dict[str, Sifted]) -> Distinct:
    """Each text once; one that bears several labels is dropped, since none of them can be trusted.

    Of texts that differ in white space alone, and of several partners, the first in alphabetical order stays.
    """
    distinct: Distinct = {}
    times: Counter[str] = Counter()
    contradicting = set()
    for row in map(Labelled, rows.texts, rows.labels, rows.partners or repeat(())):
        key = without_white_space(row.text)
        times[key] += 1
        former = distinct.get(key, row)
        distinct[key] = Labelled(min(row.text, former.text), former.label, min(row.partners, former.partners))
        if row.label != former.label:
            contradicting.add(key)
    untrusted = sum(times[key] for key in contradicting)
    repeated = len(rows.texts) - untrusted - (len(distinct) - len(contradicting))
    sifted[role] = dict(zip(COUNTED, (len(rows.texts), repeated, untrusted, 0, 0), strict=True))
    notes.append(f"{role}: {len(rows.texts)} rows, {len(distinct)} distinct texts")
    if repeated:
        notes.append(f"{role}: {repeated} repeated rows dropped")
    if contradicting:
        notes.append(f"{role}: {len(contradicting)} texts with contradicting labels dropped")
    return {key: row for key, row in distinct.items() if key not in contradicting}


def without_white_space(text: str) -> str:
    """Equal for texts that only white space tells apart: to a tokenizer they are one text."""
    return " ".join(text.split())


def _keep_apart(
    texts: Distinct, others: Distinct, name: str, other: str, notes: list[str], sifted: dict[str, Sifted]
) -> None:
    shared = texts.keys() & others.keys()
    for key in shared:
        del texts[key]
    if shared:
        sifted[name]["held_out"] += len(shared)
        notes.append(f"{len(shared)} texts of {other} removed from {name}")


def _enough(there: int, wanted: Mapping[str, int | None], pool: Rows, notes: list[str]) -> None:
    needed = sum(count if count is not None else 1 for count in wanted.values())
    if needed > there:
        asked = " + ".join(
            f"{name} {'(at least 1)' if count is None else count}" for name, count in wanted.items() if count != 0
        )
        raise UserError(
            f"{pool.name}: {asked} texts are {needed}, and there are {there} that can be used ({'; '.join(notes)}). "
            "Lower data.train, data.validation or data.test"
        )


def _labels(parts: Mapping[str, list[Labelled]], name: str) -> tuple[str, ...]:
    """All labels in order, numbers by value, after making sure that training sees each of them."""
    counts = {split: Counter(row.label for row in part) for split, part in parts.items()}
    labels = set().union(*counts.values())
    if len(labels) == 1:
        raise UserError(
            f"{name}: all texts have the label `{brief(labels.pop())}`; classes are compared, so give at least two"
        )
    for split in ("test", "validation"):
        if set(counts[split]) == {UNKNOWN} and UNKNOWN not in counts["train"]:
            raise UserError(
                f"{name}: all {counts[split].total()} labels of {split} are {UNKNOWN}, so they are not public. Name a "
                "split that has them, such as `validation`"
            )
        unseen = [
            f"`{brief(label, 80)}` ({count} texts)"
            for label, count in sorted(counts[split].items())
            if label not in counts["train"]
        ]
        if unseen:
            raise UserError(
                f"{name}: {listed(unseen)} only in {split}, never in train, which has "
                f"{listed(brief(label, 80) for label in sorted(counts['train']))}. Correct the label, or take more "
                "training texts"
            )
    numeric = all(re.fullmatch("-?[0-9]{1,18}", label) for label in labels)
    return tuple(sorted(labels, key=(lambda label: (int(label), label)) if numeric else None))
