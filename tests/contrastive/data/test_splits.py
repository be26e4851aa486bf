"""Membership is decided by content: no text twice, none on both sides, and one split's size leaves test alone."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.config.cell import Data
from contrastive.data.files import Rows
from contrastive.data.splits import Splits, divide
from contrastive.errors import UserError
from tests.contrastive.data.written import PARTNERS, POOL


def asked(**values):
    return Data(source="file:pool.csv", **values)


@given(st.randoms(use_true_random=False), st.integers(1, 60))
def test_test_stays_whatever_the_order_and_the_number_of_training_texts(shuffler, train):
    order = list(range(100))
    shuffler.shuffle(order)
    shuffled = Rows("pool.csv", [POOL.texts[i] for i in order], [POOL.labels[i] for i in order])
    whole = divide(POOL, {}, asked(test=20, validation=10))
    try:
        part = divide(shuffled, {}, asked(test=20, validation=10, train=train))
    except UserError:  # so few that a class is missing
        assert train < 10
        return
    assert (part.test, part.validation) == (whole.test, whole.validation)
    assert len(part.train) == train
    assert set(part.train.texts) < set(whole.train.texts)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ab")), min_size=30), st.booleans())
def test_no_text_is_on_two_sides_or_twice(cells, own_test):
    rows = Rows("pool.csv", [f"text {n}" for n, _ in cells], [label for _, label in cells])
    own = {"test": Rows("test.csv", ["text 1", "text 2", "text 1"], ["a", "b", "a"])} if own_test else {}
    try:
        splits = divide(rows, own, asked(test="test.csv" if own_test else 3, validation=2))
    except UserError:
        return
    texts = [text for split in splits.named().values() for text in split.texts]
    assert len(texts) == len(set(texts))
    assert sorted(splits.test.texts) == ["text 1", "text 2"] if own_test else len(splits.test) == 3


def test_labels_are_ordered_by_value_and_what_only_looks_like_numbers_as_text():
    rows = Rows("stars.csv", [f"text {i}" for i in range(60)], [str(i % 12) for i in range(60)])
    assert divide(rows, {}, asked(test=1)).labels == tuple(str(i) for i in range(12))
    for odd in ("--1", "1" * 5000, "²"):
        rows = Rows("pool.csv", POOL.texts, [odd if i % 2 else "10" for i in range(100)])
        assert divide(rows, {}, asked(test=20)).labels == tuple(sorted([odd, "10"]))


def test_too_few_texts_or_classes():
    for values in ({"test": 60, "train": 50}, {"test": 100}, {"test": 1, "validation": 99}):
        with pytest.raises(UserError, match=r"pool.csv: test .* needs \d+ texts, but only 100 can be used"):
            divide(POOL, {}, asked(**values))
    rows = Rows("pool.csv", POOL.texts, ["pos"] * 100)
    with pytest.raises(UserError, match="all texts have the label `pos`"):
        divide(rows, {}, asked(test=10))


def test_a_label_that_training_never_sees():
    own = Rows("own.csv", ["new", "newer", "newest"], ["pos", "positive", "positive"])
    for split in ("test", "validation"):
        said = rf"`positive` \(2 texts\) only in {split}, never in train, which has neg, pos"
        with pytest.raises(UserError, match=said):
            divide(POOL, {split: own}, asked(**{"test": 5} | {split: "own.csv"}))
    texts = [f"text {i}" for i in range(200)]
    rows = Rows("pool.csv", texts, ["rare" if random.Random(i).random() < 0.1 else "common" for i in range(200)])
    with pytest.raises(UserError, match="`rare` .* only in test, never in train"):
        divide(rows, {}, asked(test=150, train=1))


def test_texts_that_only_white_space_tells_apart_are_one_text():
    texts = [f"text {i}{end}" for i in range(40) for end in ("", " ", "\t\n")]
    rows = Rows("pool.csv", texts, ["ab"[i % 2] for i in range(40) for _ in range(3)])
    parts = divide(rows, {"test": Rows("test.csv", [" text  1 ", "text 2"], ["b", "a"])}, asked(test="test"))
    assert len(parts.train) == 38 and not {"text 1", "text 2"} & set(parts.train.texts)
    backwards = Rows("pool.csv", texts[::-1], rows.labels[::-1])
    assert divide(backwards, {}, asked(test=10)) == divide(rows, {}, asked(test=10))


def test_a_training_text_keeps_its_partners_and_none_of_them_is_held_out():
    rows = Rows("pool.csv", POOL.texts, POOL.labels, PARTNERS)
    pairs = asked(test=20, validation=10, positive="p", negative="n")
    splits = divide(rows, {}, pairs)
    plain = divide(POOL, {}, asked(test=20, validation=10))
    assert (splits.test, splits.validation) == (plain.test, plain.validation) and splits.test.partners == []
    assert splits.train.partners == [PARTNERS[POOL.texts.index(text)] for text in splits.train.texts]
    held_out = {*splits.test.texts, *splits.validation.texts}
    assert not held_out & {positive for positive, _ in splits.train.partners}
    lost = len(plain.train) - len(splits.train)
    assert splits.row_counts["source"]["partner_held_out"] == lost > 5
    with pytest.raises(UserError, match=rf"100 rows, {lost} whose positive or negative is held out"):
        divide(rows, {}, asked(test=20, validation=10, positive="p", negative="n", train=70))


def test_of_a_text_with_several_pairs_the_first_in_the_alphabet_stays_whatever_the_order():
    texts, partners = [*POOL.texts, "text  1", "text 1"], [*[("z",)] * 100, ("b",), ("a",)]
    for step in (1, -1):
        rows = Rows("pool.csv", texts[::step], [*POOL.labels, "pos", "pos"][::step], partners[::step])
        train = divide(rows, {}, asked(test=1, positive="p")).train
        assert train.partners[train.texts.index("text  1")] == ("a",)


def test_every_row_is_kept_or_dropped_for_one_reason():
    """30 contradicting texts, each twice, 30 repeated rows, and 60 once: 180 rows, of which 88 stay."""
    texts = [f"text {i}" for i in range(120)]
    once = list(zip(texts, ["pos" if i % 2 else "neg" for i in range(120)], strict=True))
    rows = [*once, *once[60:90], *((text, "neg" if label == "pos" else "pos") for text, label in once[:30])]
    pool = Rows("pool.csv", [text for text, _ in rows], [label for _, label in rows])
    own = {
        "test": Rows("test.csv", ["text 30", "text 31", "new", "new"], ["neg", "pos", "neg", "neg"]),
        "validation": Rows("validation.csv", ["text 30", "other", "another"], ["neg", "pos", "neg"]),
    }
    splits = divide(pool, own, asked(test="test.csv", validation="validation.csv"))
    dropped = {name: {why: count for why, count in found.items() if count} for name, found in splits.row_counts.items()}
    assert dropped == {
        "test": {"rows": 4, "repeated": 1},
        "validation": {"rows": 3, "held_out": 1},
        "source": {"rows": 180, "repeated": 30, "contradicting": 60, "held_out": 2},
    }
    assert (len(splits.train), splits.validation.texts) == (88, ["other", "another"])
    assert splits.test.texts == ["text 30", "text 31", "new"]


def divided(measured: int | None = None, pool: Rows = POOL, seed: int | None = None, **values: object) -> Splits:
    return divide(pool, {}, asked(**{"test": 20, "validation": 10, "train": 30} | values), seed, measured=measured)


def drawn(seed: int, pool: Rows = POOL, **values: object) -> Splits:
    """With data.resample each seed draws its own training texts; test and validation are the same for all of them."""
    return divided(None, pool, seed, resample=True, **values)


def test_each_seed_has_its_own_training_texts_and_all_have_one_test():
    splits, plain = [drawn(seed) for seed in range(5)], divided()
    assert {(tuple(each.test.texts), tuple(each.validation.texts)) for each in splits} == {
        (tuple(plain.test.texts), tuple(plain.validation.texts))
    }
    sets = {frozenset(each.train.texts) for each in (*splits, plain)}
    assert len(sets) == 6 and {len(texts) for texts in sets} == {30}
    assert not any(texts & {*plain.test.texts, *plain.validation.texts} for texts in sets)


@given(st.randoms(use_true_random=False), st.integers(10, 69))
def test_a_draw_follows_from_the_seed_and_the_texts_alone(shuffler, train):
    order = list(range(100))
    shuffler.shuffle(order)
    shuffled = Rows("other.csv", [POOL.texts[i] for i in order], [POOL.labels[i] for i in order])
    many, few = drawn(3, train=train), drawn(3, shuffled, train=10)
    assert many.train.texts[:10] == few.train.texts


# More test texts to measure on are the old ones and others that no cell trains on; training stays as it is.
@pytest.mark.parametrize("measured", [20, 21, 45, 60])
def test_the_first_are_the_old_ones_and_nobody_else_moves(measured: int):
    own, more = divided(), divided(measured)
    assert more.test.texts == divided(60, train=10).test.texts[:measured]
    assert more.test.texts[:20] == own.test.texts and len(set(more.test.texts)) == len(more.test) == measured
    assert (more.train, more.validation, more.labels) == (own.train, own.validation, own.labels)
    assert not {*more.test.texts} & {*more.train.texts, *more.validation.texts}
    assert all(POOL.labels[POOL.texts.index(text)] == more.labels[label]
               for text, label in zip(more.test.texts, more.test.labels, strict=True))  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_no_further_text_is_a_partner_of_one_that_trains_in_any_cell(seed: int):
    shuffled = random.Random(seed).sample(POOL.texts, 100)
    partners = [(shuffled[i] if i % 3 == 0 else f"positive {i}",) for i in range(100)]
    rows = Rows("pool.csv", POOL.texts, POOL.labels, partners)
    small, large = (divided(30, rows, positive="p", train=train) for train in (10, 35))
    assert small.test == large.test and large.train == divided(None, rows, positive="p", train=35).train
    for splits in (small, large):
        positives = {positive for (positive,) in splits.train.partners}
        assert not positives & {*splits.test.texts, *splits.validation.texts}
