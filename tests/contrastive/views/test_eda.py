"""Synonyms and EDA's operations as properties: how many words change, into what, and what never does."""

from collections import Counter
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.views import VIEWS
from contrastive.views.batches import Batch
from contrastive.views.eda import inserted, swapped, thinned
from contrastive.views.synonym import replaced
from contrastive.views.tokens import rebuilt
from contrastive.views.tools.lexicon import Lexicon
from tests.contrastive.views.conftest import CLS, PIECES, SEP, batch_of

pytestmark = pytest.mark.usefixtures("lexicon")  # made before the clock of a property's first example runs
BOTH = pytest.mark.parametrize("name", ["synonym", "eda"])
WITH = {"car", "automobile", "machine", "motor ##car", "big", "happy", "glad", "film", "buy", "error", "kid", "sofa"}
WITHOUT = {"the", "of", "zebra", ",", ".", "[UNK]", "car ##ish"}
text = st.lists(st.sampled_from(sorted(WITH | WITHOUT)), max_size=15)
few = settings(max_examples=25)
seeds = st.integers(0, 1000)
rates = st.floats(0.05, 0.95)


def ids(words: list[str]) -> list[torch.Tensor]:
    return [torch.tensor([PIECES.index(piece) for piece in word.split()]) for word in words]


def names(words: list[torch.Tensor]) -> list[str]:
    return [" ".join(PIECES[i] for i in word.tolist()) for word in words]


def batch(texts: list[list[str]]) -> Batch:
    none = torch.zeros(0, dtype=torch.long)
    return rebuilt(batch_of(*[0] * len(texts)), [torch.cat([none, *ids(words)]) for words in texts])


def versions(name: str, known, lexicon: Lexicon, texts: Batch, seed: int = 0, **settings) -> tuple[Batch, list]:
    """The batch of changed texts that the encoder reads, and the words of each of them that has any."""
    read = []

    def encode(given: Batch):
        read.append(given)
        return known(given, [torch.zeros(*given.input_ids.shape, 4)])

    torch.manual_seed(seed)
    with mock.patch.object(lexicon, "joined", wraps=lexicon.joined) as joined:
        view = VIEWS[name](encode, texts, lexicon, **settings)
    assert view.groups[0].vectors.shape[:2] == (len(texts), 2) and torch.equal(read[1].input_ids, texts.input_ids)
    return read[0], [call.args[0] for call in joined.call_args_list]


def is_within(some: list[str], more: list[str]) -> bool:
    """Whether some words are among more words in the same order."""
    rest = iter(more)
    return all(word in rest for word in some)


def synonyms_of(word: str, lexicon: Lexicon) -> list[str]:
    (found,) = ids([word])
    return names(lexicon.synonyms(found))


def test_which_words_of_these_tests_have_synonyms(lexicon):
    assert all(synonyms_of(word, lexicon) for word in WITH)
    assert not any(synonyms_of(word, lexicon) for word in WITHOUT)
    assert "motor ##car" in synonyms_of("car", lexicon) and "motion picture" in synonyms_of("film", lexicon)


@pytest.mark.slow
@BOTH
@few
@given(texts=st.lists(text, min_size=1, max_size=4), seed=seeds, rate=rates)
def test_versions_stand_between_the_added_tokens_and_have_none_within(name, texts, seed, rate, request):
    known, lexicon = request.getfixturevalue("known"), request.getfixturevalue("lexicon")
    given = batch(texts)
    read, _ = versions(name, known, lexicon, given, seed, rate=rate)
    assert len(read) == 2 * len(texts) and torch.equal(read.labels, given.labels.repeat(2))
    for row, mask, words in zip(read.input_ids, read.attention_mask, texts + texts, strict=True):
        first, *within, last = row[mask].tolist()
        assert (first, last) == (CLS, SEP) and not set(within) & {PIECES.index(f"[{n}]") for n in ("PAD", "CLS", "SEP")}
        assert bool(within) == bool(words)  # never emptied, never filled


@pytest.mark.slow
@few
@given(words=text, seed=seeds, rate=rates)
def test_the_share_of_the_text_is_drawn_among_the_words_that_have_synonyms(words, seed, rate, request):
    known, lexicon = request.getfixturevalue("known"), request.getfixturevalue("lexicon")
    _, made = versions("synonym", known, lexicon, batch([words]), seed, rate=rate)
    able = [word in WITH for word in words]
    for version in map(names, made):
        changed = [a != b for a, b in zip(words, version, strict=True)]
        assert sum(changed) == min(sum(able), max(1, round(rate * len(words))))
        for before, after in zip(words, version, strict=True):
            assert before == after or after in synonyms_of(before, lexicon)
    assert len(made) == (2 if words else 0)


def test_every_word_and_every_synonym_has_its_turn(lexicon):
    words = ids(["car", "the", "film"])
    torch.manual_seed(0)
    made = Counter(" ".join(names(replaced(words, lexicon, 1))) for _ in range(600))
    expected = {f"{other} the film" for other in synonyms_of("car", lexicon)}
    expected |= {f"car the {other}" for other in synonyms_of("film", lexicon)}
    assert set(made) == expected
    assert sum(made[key] for key in made if key.startswith("car the")) == pytest.approx(300, abs=60)


@few
@given(words=text, seed=seeds, count=st.integers(1, 5))
def test_inserted_are_synonyms_of_the_texts_own_words(words, seed, count, request):
    lexicon = request.getfixturevalue("lexicon")
    torch.manual_seed(seed)
    made = names(inserted(ids(words), lexicon, count))
    assert is_within(words, made) and len(made) == len(words) + (count if WITH & set(words) else 0)
    possible = {other for word in words for other in synonyms_of(word, lexicon)}
    assert set(Counter(made) - Counter(words)) <= possible


def test_any_place_takes_an_insertion(lexicon):
    torch.manual_seed(0)
    places = Counter(names(inserted(ids(["the", "big", "of"]), lexicon, 1)).index("large") for _ in range(400))
    assert set(places) == {0, 1, 2, 3} and min(places.values()) > 60


@few
@given(words=text, seed=seeds, count=st.integers(1, 5))
def test_a_swap_keeps_the_words_and_moves_exactly_two_and_a_deletion_keeps_the_order_and_some(words, seed, count):
    torch.manual_seed(seed)
    some = names(thinned(ids(words), count / 6)) if words else ["nothing to delete"]
    assert some and (not words or is_within(some, words))
    made = names(swapped(ids(words), count))
    assert Counter(made) == Counter(words)
    assert sum(a != b for a, b in zip(words, made, strict=True)) <= 2 * count
    numbered = [torch.tensor([i]) for i in range(count + 1)]
    assert sum(i != int(word) for i, word in enumerate(swapped(numbered, 1))) == 2


def test_each_word_goes_with_the_same_probability_and_the_last_one_that_stays_is_any():
    torch.manual_seed(0)
    words = [torch.tensor([i]) for i in range(10)]
    stayed = Counter(int(word) for _ in range(1000) for word in thinned(words, 0.3))
    assert all(stayed[i] == pytest.approx(700, abs=60) for i in range(10))
    assert {int(word) for _ in range(60) for word in thinned(words[:3], 0.999)} == {0, 1, 2}


@pytest.mark.slow
def test_the_four_operations_are_drawn_alike_often_and_change_their_share(known, lexicon):
    words = ["car", "the", "big", "zebra", "film", ",", "of", "sofa", "kid", "."]
    drawn = Counter()
    for seed in range(200):
        for version in map(names, versions("eda", known, lexicon, batch([words]), seed, rate=0.17)[1]):
            if len(version) > len(words):
                drawn["insert"] += 1
                assert len(version) == len(words) + 2
            elif len(version) < len(words):
                drawn["delete"] += 1
            elif Counter(version) == Counter(words):  # a deletion that drew no word is here, too: 0.83 ** 10 of them
                drawn["swap"] += 1
            else:
                drawn["replace"] += 1
                assert sum(a != b for a, b in zip(words, version, strict=True)) == 2
    assert all(70 <= drawn[operation] <= 130 for operation in ("insert", "delete", "swap", "replace"))
