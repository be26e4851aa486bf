"""Membership is decided by content: no text twice, none on both sides, and one split's size leaves test alone."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.config.cell import Data
from contrastive.data.files import Rows
from contrastive.data.splits import Sifted, divide
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


@pytest.mark.parametrize("held_out", [{"test": 40, "validation": 10}, {"test": 20, "validation": 25}])
def test_training_texts_stay_whatever_the_number_of_held_out_ones(held_out):
    few, many = (divide(POOL, {}, asked(train=30, **sizes)) for sizes in ({"test": 20, "validation": 10}, held_out))
    assert few.train == many.train


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


def test_labels_follow_their_texts_and_counts_are_right():
    splits = divide(POOL, {}, asked(test=20, validation=10))
    assert splits.labels == ("neg", "pos")
    for split in splits.named().values():
        assert [splits.labels[label] for label in split.labels] == [
            POOL.labels[POOL.texts.index(text)] for text in split.texts
        ]
    totals = splits.class_counts()
    assert sum(totals[name]["pos"] for name in totals) == 50
    assert sum(totals["test"].values()) == 20


def test_labels_are_ordered_by_value_and_what_only_looks_like_numbers_as_text():
    rows = Rows("stars.csv", [f"text {i}" for i in range(60)], [str(i % 12) for i in range(60)])
    assert divide(rows, {}, asked(test=1)).labels == tuple(str(i) for i in range(12))
    for odd in ("--1", "1" * 5000, "²"):
        rows = Rows("pool.csv", POOL.texts, [odd if i % 2 else "10" for i in range(100)])
        assert divide(rows, {}, asked(test=20)).labels == tuple(sorted([odd, "10"]))


def test_repeated_and_contradicting_texts_are_dropped_and_noted():
    rows = Rows("pool.csv", [*POOL.texts, "text 1", "text 2"], [*POOL.labels, "pos", "pos"])
    splits = divide(rows, {}, asked(test=20))
    assert sum(len(split) for split in splits.named().values()) == 99
    assert splits.notes == (
        "source: 102 rows, 100 distinct texts",
        "source: 1 repeated rows dropped",
        "source: 1 texts with contradicting labels dropped",
    )


def test_texts_of_an_own_test_file_leave_train_and_validation():
    own = {
        "test": Rows("test.csv", ["text 1", "text 2", "new"], ["pos", "neg", "neg"]),
        "validation": Rows("validation.csv", ["text 3", "new", "other"], ["pos", "neg", "neg"]),
    }
    splits = divide(POOL, own, asked(test="test.csv", validation="validation.csv"))
    assert splits.test.texts == ["text 1", "text 2", "new"]
    assert splits.validation.texts == ["text 3", "other"]
    assert len(splits.train) == 97
    assert "2 texts of test removed from source" in splits.notes
    assert "1 texts of test removed from validation" in splits.notes


def test_too_few_texts_or_classes():
    for values in ({"test": 60, "train": 50}, {"test": 100}, {"test": 1, "validation": 99}):
        with pytest.raises(UserError, match=r"pool.csv: test .* texts are \d+, and there are 100 that can be used"):
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
    assert splits.sifted["source"].kept == len(splits.train) + 30 and splits.sifted["source"].partner_held_out > 5
    lost = len(plain.train) - len(splits.train)
    assert lost > 5 and f"source: {lost} texts removed, of which a positive or negative is held out" in splits.notes
    with pytest.raises(UserError, match="positive or negative is held out"):
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
    assert splits.sifted == {
        "test": Sifted(4, repeated=1),
        "validation": Sifted(3, held_out=1),
        "source": Sifted(180, repeated=30, contradicting=60, held_out=2),
    }
    assert {name: found.kept for name, found in splits.sifted.items()} == {"test": 3, "validation": 2, "source": 88}
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (88, 2, 3)


def test_all_rows_of_a_text_with_several_labels_contradict():
    texts = [f"text {i}" for i in range(90) for _ in range(2)]
    labels = [label for i in range(90) for label in (("ab"[i % 2],) * 2 if i < 60 else ("a", "b"))]
    splits = divide(Rows("pool.csv", texts, labels), {}, asked(test=10))
    assert splits.sifted["source"] == Sifted(180, repeated=60, contradicting=60)
    assert splits.sifted["source"].kept == 60
    assert "source: 30 texts with contradicting labels dropped" in splits.notes
