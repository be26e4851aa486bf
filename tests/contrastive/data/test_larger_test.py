"""More test texts to measure on are the old ones and others that no cell trains on; training stays as it is."""

import random

import pytest

from contrastive.config.cell import Data
from contrastive.data.files import Rows
from contrastive.data.splits import Splits, divide
from contrastive.errors import UserError
from tests.contrastive.data.written import POOL


def divided(measured: int | None = None, pool: Rows = POOL, **values: object) -> Splits:
    data = Data(source="file:pool.csv", **{"test": 20, "validation": 10, "train": 30} | values)
    return divide(pool, {}, data, measured=measured)


@pytest.mark.parametrize("measured", [20, 21, 45, 60])
def test_the_first_are_the_old_ones_and_nobody_else_moves(measured: int):
    own, more = divided(), divided(measured)
    assert more.test.texts[:20] == own.test.texts and len(set(more.test.texts)) == len(more.test) == measured
    assert (more.train, more.validation, more.labels) == (own.train, own.validation, own.labels)
    assert not {*more.test.texts} & {*more.train.texts, *more.validation.texts}
    assert all(POOL.labels[POOL.texts.index(text)] == more.labels[label]
               for text, label in zip(more.test.texts, more.test.labels, strict=True))  # fmt: skip


def test_fewer_are_the_beginning_of_more():
    texts = [divided(measured).test.texts for measured in (25, 40, 60)]
    assert texts[0] == texts[2][:25] and texts[1] == texts[2][:40]


def test_without_validation_they_are_those_of_a_larger_data_test():
    assert divided(55, validation=0) == divided(test=55, validation=0)


def test_cells_with_other_numbers_of_training_texts_are_measured_on_the_same():
    assert divided(50, train=10).test == divided(50, train=40).test


def test_too_few_texts_are_told_with_what_there_is():
    message = (
        "evaluation.test is 61, and there are 60 texts .* 20 of data.test and 40 that no cell trains on, .* at 30 "
    )
    with pytest.raises(UserError, match=message):
        divided(61)


@pytest.mark.parametrize("seed", range(3))
def test_no_further_text_is_a_partner_of_one_that_trains_in_any_cell(seed: int):
    """Every third positive is another text of the pool."""
    shuffled = random.Random(seed).sample(POOL.texts, 100)
    partners = [(shuffled[i] if i % 3 == 0 else f"positive {i}",) for i in range(100)]
    rows = Rows("pool.csv", POOL.texts, POOL.labels, partners)
    small, large = (divided(30, rows, positive="p", train=train) for train in (10, 35))
    assert small.test == large.test and large.train == divided(None, rows, positive="p", train=35).train
    for splits in (small, large):
        positives = {positive for (positive,) in splits.train.partners}
        assert not positives & {*splits.test.texts, *splits.validation.texts}
