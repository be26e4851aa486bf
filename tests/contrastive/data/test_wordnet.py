"""Pairs from WordNet: what a pair is said to be, it is in WordNet's files; tests share nothing with trainings."""

from collections import Counter

import pytest

from contrastive import data as datasets
from contrastive.config.cell import Data
from contrastive.data import locate, wordnet
from contrastive.errors import UserError

FOLDER = locate.wordnet_folder().parents[3]


@pytest.fixture(scope="module")
def by_noun() -> dict[str, wordnet.Synset]:
    return {noun: synset for synset in wordnet.synsets(FOLDER) for noun in synset.nouns}


def rows(table: wordnet.Table, *columns: str) -> list[tuple[str, ...]]:
    return list(zip(*(table[column] for column in columns), strict=True))


def test_a_pair_is_a_noun_and_its_definition_and_the_negative_a_siblings(by_noun):
    defined = {}
    for synset in wordnet.synsets(FOLDER):
        defined.setdefault(synset.definition, []).append(synset)
    for text, positive, negative in rows(wordnet.pairs(FOLDER), "text", "positive", "negative")[:3000]:
        assert by_noun[text].definition == positive != negative
        assert by_noun[text].parent in {other.parent for other in defined[negative]}
    lines = "".join((FOLDER / name).read_text("ascii") for name in wordnet.FILES)
    assert by_noun["quarter horse"].definition.startswith("a small powerful horse originally bred")
    assert f"\n{by_noun['quarter horse'].parent} 05 n" in lines  # its parent is an animal


def test_grades_are_relations(by_noun):
    by_definition = {synset.definition: synset for synset in wordnet.synsets(FOLDER)}
    seen = Counter()
    for text, other, grade in rows(wordnet.grades(FOLDER), "text", "positive", "label"):
        synset, related = by_noun[text], by_definition[other]
        if synset.definition == other:
            found = "3"
        elif synset.parent == related.parent:
            found = "2"
        else:
            found = "1" if synset.grandparent == related.grandparent else "0"
        seen[grade] += found == grade
        seen["all"] += 1
    assert sum(seen[grade] for grade in "0123") > 0.99 * seen["all"]  # a few definitions belong to two synsets


def test_synonyms_are_of_one_synset_and_crowded_ones_have_four_lines_in_it(by_noun):
    for table, lines in ((wordnet.synonyms(FOLDER), 1), (wordnet.crowded(FOLDER), 4)):
        both = rows(table, "text", "positive")
        assert all(by_noun[text] == by_noun[other] and text != other for text, other in both)
        assert {*Counter(by_noun[text] for text, _ in both).values()} == {lines} and len(both) == 1560


def test_no_test_has_a_noun_or_a_definition_of_a_training():
    trained, tested = (wordnet.of_part(FOLDER, test=side) for side in (False, True))
    for of in (lambda synset: [synset.definition], lambda synset: synset.nouns):
        ours, theirs = ({text for synset in part for text in of(synset)} for part in (trained, tested))
        assert ours and theirs and not ours & theirs
    tables = (wordnet.pairs, wordnet.synonyms, wordnet.crowded, wordnet.grades)
    nouns = {noun for synset in trained for noun in synset.nouns}
    assert all(nouns.issuperset(table(FOLDER)["text"]) for table in tables)
    assert not nouns & {*wordnet.search(FOLDER)["text"], *wordnet.similarity(FOLDER)["text"]}
    searched, chosen_by = wordnet.search(FOLDER), wordnet.search_validation(FOLDER)
    assert len({*searched["text"]}) == len({*chosen_by["text"]}) == 1000
    assert not {*searched["text"], *searched["other"]} & {*chosen_by["text"], *chosen_by["other"]}
    assert not {*wordnet.similarity(FOLDER)["text"]} & {*searched["text"], *chosen_by["text"]}


def test_a_package_with_pairs_is_read_by_its_columns():
    settings = {"positive": "positive", "negative": "negative", "train": 300, "test": 20}
    splits = datasets.load_splits(Data(source="package:wordnet-pairs", **settings))
    by_text = dict(rows(wordnet.pairs(FOLDER), "text", "positive"))
    assert len(splits.train) == 300
    assert all(by_text[text] == both[0] for text, both in zip(splits.train.texts, splits.train.partners, strict=True))
    with pytest.raises(UserError, match="no column `negative` for data.negative; its columns are `text`, `label`"):
        datasets.load_splits(Data(source="package:wordnet-synonyms", **settings))
