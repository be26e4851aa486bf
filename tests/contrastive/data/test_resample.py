"""With data.resample each seed draws its own training texts; test and validation are the same for all of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrastive.config.cell import Cell, Data, Encoder, Scratch, Training
from contrastive.config.objective import Objective
from contrastive.data import tokens
from contrastive.data.files import Rows
from contrastive.data.splits import Splits, divide
from contrastive.errors import UserError
from tests.contrastive.data.written import PARTNERS, POOL


def settings(**values: object) -> Data:
    return Data(source="file:pool.csv", **{"test": 20, "validation": 10, "train": 30, "resample": True} | values)


def drawn(seed: int, pool: Rows = POOL, **values: object) -> Splits:
    return divide(pool, {}, settings(**values), seed)


def test_each_seed_has_its_own_training_texts_and_all_have_one_test():
    splits, plain = [drawn(seed) for seed in range(5)], divide(POOL, {}, settings(resample=False))
    assert {(tuple(each.test.texts), tuple(each.validation.texts)) for each in splits} == {
        (tuple(plain.test.texts), tuple(plain.validation.texts))
    }
    sets = {frozenset(each.train.texts) for each in (*splits, plain)}
    assert len(sets) == 6 and {len(texts) for texts in sets} == {30}
    assert not any(texts & {*plain.test.texts, *plain.validation.texts} for texts in sets)


def test_over_many_seeds_every_text_that_is_left_is_drawn_about_as_often():
    left = {*divide(POOL, {}, settings(resample=False, train=None)).train.texts}
    draws = [frozenset(drawn(seed).train.texts) for seed in range(400)]
    often = [sum(text in draw for draw in draws) for text in sorted(left)]
    assert len(left) == 70
    expected, spread = 400 * 30 / 70, (400 * 30 / 70 * 40 / 70) ** 0.5
    assert max(abs(count - expected) for count in often) < 4.5 * spread


@given(st.randoms(use_true_random=False), st.integers(10, 69))
def test_a_draw_follows_from_the_seed_and_the_texts_alone(shuffler, train):
    order = list(range(100))
    shuffler.shuffle(order)
    shuffled = Rows("other.csv", [POOL.texts[i] for i in order], [POOL.labels[i] for i in order])
    many, few = drawn(3, train=train), drawn(3, shuffled, train=10)
    assert many.train.texts[:10] == few.train.texts


def test_partners_of_drawn_texts_are_not_held_out():
    partners = [(positive,) for positive, _ in PARTNERS]
    splits = drawn(1, Rows("pool.csv", POOL.texts, POOL.labels, partners), positive="p")
    assert splits.train.partners == [partners[POOL.texts.index(text)] for text in splits.train.texts]
    assert not {*splits.test.texts, *splits.validation.texts} & {positive for (positive,) in splits.train.partners}


@pytest.mark.parametrize(("train", "wanted"), [(70, "70"), (None, "all")])
def test_where_all_texts_train_none_can_be_drawn(train: int | None, wanted: str):
    with pytest.raises(UserError, match=rf"draws {wanted} training texts anew with each seed, and 70 are left after"):
        drawn(0, train=train)
    assert len(drawn(0, train=69).train) == 69


def cell(source: str, seed: int, **values: object) -> Cell:
    encoder = Encoder(model="scratch:bert", scratch=Scratch(vocabulary=100))
    data = Data(source=source, test=20, train=60, **values)
    return Cell(data=data, encoder=encoder, objective=Objective(loss="ce"), training=Training(), seed=seed)


def test_tokens_and_the_vocabulary_of_a_new_encoder_follow_the_draw(source: str, home: Path):
    folders = []
    for seed in (0, 1):
        drawing = cell(source, seed, resample=True)
        folders.append(tokens.prepare_tokens(drawing.data, drawing.encoder, home, drawing.draw()))
    first, second = map(tokens.open, folders)
    assert first.folder != second.folder
    assert (first.splits["test"].digests == second.splits["test"].digests).all()
    assert set(first.splits["train"].digests.tolist()) != set(second.splits["train"].digests.tolist())
    vocabularies = [folder / "tokenizer" / "tokenizer.json" for folder in folders]
    assert vocabularies[0].read_bytes() != vocabularies[1].read_bytes()
    alike = [cell(source, seed) for seed in (0, 1)]
    assert [each.draw() for each in alike] == [None, None]
    assert len({tokens.token_key(each.data, each.encoder) for each in alike}) == 1
