"""Views that change words, as properties: what stays in order, how many words change, and into what."""

import itertools
from collections import Counter
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.contract.views import CLS, SEP, batch_of
from contrastive.views import VIEWS
from contrastive.views.batches import Batch
from contrastive.views.lexicon import Lexicon
from contrastive.views.words import backtranslation, draw_spans, inserted, rebuilt, share_of, swapped, thinned, words_of
from tests.contrastive.views.conftest import PIECES

pytestmark = pytest.mark.usefixtures("lexicon")  # made before the clock of a property's first example runs
REWRITING = ("word_delete", "span_delete", "reorder")
lengths = st.lists(st.integers(0, 40), min_size=1, max_size=5)


def versions(name: str, known, *count: int, seed: int = 0, **settings) -> tuple[list, list]:
    """The tokens of each text, and those of its two versions."""
    read, batch = [], batch_of(*count)

    def encode(given):
        read.append(given)
        return known(given, [torch.zeros(*given.input_ids.shape, 4, requires_grad=True)])

    torch.manual_seed(seed)
    VIEWS[name](encode, batch, **settings)
    return words_of(batch), words_of(read[0])


@pytest.mark.parametrize("name", REWRITING)
@settings(max_examples=25)
@given(count=lengths, seed=st.integers(0, 1000), rate=st.floats(0.05, 0.95))
def test_versions_have_only_tokens_of_their_text_and_are_never_empty(name, count, seed, rate, request):
    known = request.getfixturevalue("known")
    texts, made = versions(name, known, *count, seed=seed, rate=rate)
    assert len(made) == 2 * len(texts)
    for i, version in enumerate(made):
        text = texts[i % len(texts)]
        assert Counter(version.tolist()) <= Counter(text.tolist())
        gone = 0 if name == "reorder" else share_of(len(text), rate)
        assert len(version) == len(text) - gone and (len(version) > 0) == (len(text) > 0)


def test_words_go_in_order_and_apart_in_the_two_versions_a_span_as_one_run_and_two_runs_change_places(known):
    for name in ("word_delete", "span_delete"):
        (text,), (first, second) = versions(name, known, 30, rate=0.3)
        for version in (first, second):
            kept = [token in version for token in text]
            assert version.tolist() == text[kept].tolist() and sum(kept) == 21
            assert name == "word_delete" or sum(a != b for a, b in itertools.pairwise(kept)) <= 2
        assert first.tolist() != second.tolist()
    (text,), made = versions("reorder", known, 30, rate=0.4)
    assert all(not torch.equal(version, text) and torch.equal(version.sort()[0], text.sort()[0]) for version in made)


def test_a_version_stands_between_the_tokens_that_the_tokenizer_adds():
    batch = batch_of(3, 1)
    made = rebuilt(batch, [torch.tensor([9]), torch.tensor([8, 7]), torch.tensor([]).long(), torch.tensor([6])])
    assert made.input_ids.tolist() == [[CLS, 9, SEP, 0], [CLS, 8, 7, SEP], [CLS, SEP, 0, 0], [CLS, 6, SEP, 0]]
    assert made.attention_mask.sum(1).tolist() == [3, 4, 2, 3]
    assert made.special.tolist()[0] == [True, False, True, True]
    assert made.labels.tolist() == [0, 1, 0, 1]


@given(count=st.integers(0, 700), seed=st.integers(0, 1000))
def test_spans_are_runs_of_the_text_that_touch_their_anchor(count, seed):
    torch.manual_seed(seed)
    text = torch.arange(count)
    drawn = draw_spans(text)
    assert len(drawn) == 6
    shortest = min(32, max(1, count // 4)) if count else 0
    for anchor, *positives in (drawn[:3], drawn[3:]):
        for run in (anchor, *positives):
            assert shortest <= len(run) <= min(512, count)
            assert run.tolist() == list(range(int(run[0]), int(run[0]) + len(run))) if len(run) else count == 0
        for positive in positives:
            if count:  # overlapping, adjacent, or one within the other
                assert positive[0] <= anchor[-1] + 1 and positive[-1] >= anchor[0] - 1


def test_anchors_are_longer_than_positives():
    torch.manual_seed(0)
    drawn = [draw_spans(torch.arange(512)) for _ in range(200)]
    anchors = [len(d[i]) for d in drawn for i in (0, 3)]
    positives = [len(d[i]) for d in drawn for i in (1, 2, 4, 5)]
    assert sum(anchors) / len(anchors) == pytest.approx(32 + 480 * 4 / 6, rel=0.05)
    assert sum(positives) / len(positives) == pytest.approx(32 + 480 * 2 / 6, rel=0.05)


def test_an_anchor_is_paired_with_the_mean_of_its_own_positives(known):
    """An encoder whose vector is the mean of the tokens it read tells whose vectors they are."""
    batch = batch_of(30, 20)
    read = []

    def encode(given):
        read.append(given)
        mean = torch.stack([row.double().mean() for row in words_of(given)])
        return known(given, [mean[:, None, None].expand(-1, given.input_ids.shape[1], 2)])

    torch.manual_seed(0)
    vectors = VIEWS["span"](encode, batch).groups[0].vectors[..., 0]
    torch.manual_seed(0)
    for i, text in enumerate(words_of(batch)):
        a, p, q, b, r, s = (run.double().mean() for run in draw_spans(text))
        assert vectors[i].tolist() == pytest.approx([float(v) for v in (a, (p + q) / 2, b, (r + s) / 2)])


def test_backtranslation_is_the_text_and_its_back_translation(known):
    batch, other, asked = batch_of(3, 1), batch_of(2, 5), []

    def encode(read):
        return known(read, [read.input_ids.double().mean(1)[:, None, None].expand(-1, read.input_ids.shape[1], 4)])

    view = backtranslation(encode, batch, lambda *given: asked.append(given) or other, translators=("there", "back"))
    (group,), sentence = view.groups, encode(batch).pooled()
    assert len(asked) == 1 and asked[0][0] is batch and asked[0][1] == ("there", "back")
    assert torch.equal(group.vectors, torch.stack([sentence, encode(other).pooled()], dim=1)) and group.mask.all()
    assert torch.equal(view.sentences, -sentence[:, None])


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


def lexical_versions(name: str, known, lexicon: Lexicon, texts: Batch, seed: int = 0, **settings) -> tuple[Batch, list]:
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
    rest = iter(more)
    return all(word in rest for word in some)


def synonyms_of(word: str, lexicon: Lexicon) -> list[str]:
    (found,) = ids([word])
    return names(lexicon.synonyms(found))


@few
@given(words=text, seed=seeds, rate=rates)
def test_the_share_of_the_text_is_drawn_among_the_words_that_have_synonyms(words, seed, rate, request):
    known, lexicon = request.getfixturevalue("known"), request.getfixturevalue("lexicon")
    _, made = lexical_versions("synonym", known, lexicon, batch([words]), seed, rate=rate)
    able = [word in WITH for word in words]
    for version in map(names, made):
        changed = [a != b for a, b in zip(words, version, strict=True)]
        assert sum(changed) == min(sum(able), max(1, round(rate * len(words))))
        for before, after in zip(words, version, strict=True):
            assert before == after or after in synonyms_of(before, lexicon)
    assert len(made) == (2 if words else 0)


@few
@given(words=text, seed=seeds, count=st.integers(1, 5))
def test_inserted_are_synonyms_of_the_texts_own_words(words, seed, count, request):
    lexicon = request.getfixturevalue("lexicon")
    torch.manual_seed(seed)
    made = names(inserted(ids(words), lexicon, count))
    assert is_within(words, made) and len(made) == len(words) + (count if WITH & set(words) else 0)
    possible = {other for word in words for other in synonyms_of(word, lexicon)}
    assert set(Counter(made) - Counter(words)) <= possible


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


def test_the_four_operations_are_drawn_alike_often_and_change_their_share(known, lexicon):
    words = ["car", "the", "big", "zebra", "film", ",", "of", "sofa", "kid", "."]
    drawn = Counter()
    for seed in range(200):
        for version in map(names, lexical_versions("eda", known, lexicon, batch([words]), seed, rate=0.17)[1]):
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
