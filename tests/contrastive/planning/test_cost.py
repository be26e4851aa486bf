"""The formulas against what real models compute and hold, and what the batches of real texts are."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.models import encoder
from contrastive.planning import cost
from contrastive.views.batches import order

TEXTS, LENGTH = 8, 32
MADE = cost.Batches(1, TEXTS * LENGTH, TEXTS * LENGTH**2, TEXTS * LENGTH, LENGTH)
SIZES = {"layers": 3, "hidden": 64, "heads": 2, "vocabulary": 400}


def cell(model: str = "scratch:bert", tune: Any = "full", *, training: Any = None, **objective: Any) -> Cell:
    data = {"source": "file:texts.csv", "train": 100, "validation": 10, "test": 40, "max_length": LENGTH}
    how = {"model": model, "scratch": SIZES, "tune": tune}
    return Cell(data=data, encoder=how, objective=objective, training=training or {}, seed=0)


def built(of: Cell) -> torch.nn.Module:
    return encoder.load_encoder(of.encoder, SIZES["vocabulary"], 0)


def counted(of: Cell, *, backward: bool) -> float:
    """GFLOP of one pass, as torch counts the products."""
    model, ids = built(of), torch.randint(5, 400, (TEXTS, LENGTH))
    with FlopCounterMode(display=False) as counter:
        given = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.sum()
        if backward:
            given.backward()
    return counter.get_total_flops() / 1e9


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
@pytest.mark.parametrize("tune", ["full", {"last_blocks": 1}, {"last_blocks": 2}])
def test_products_are_those_that_torch_counts(model: str, tune: Any):
    one = cell(model, tune)
    found = cost.training_work(one, MADE, looks=0.0)
    # the lowest block that trains does not ask for the gradient of what went in, which is a part of its third
    assert found.forward + found.trained == pytest.approx(counted(one, backward=True), rel=0.1)
    size = cost.sizes(one.encoder)
    assert size.blocks * size.flops(MADE.tokens, MADE.squares, 1.0) / 1e9 == pytest.approx(
        counted(one, backward=False), rel=0.03
    )


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
@pytest.mark.parametrize("tune", ["full", {"last_blocks": 2}, {"lora": {"r": 4}}])
def test_parameters_are_those_of_the_model(model: str, tune: Any):
    one = cell(model, tune)
    parameters = list(built(one).parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    assert cost.trained_parameters(one) == pytest.approx(trained, rel=0.02)
    found = cost.memory_of_cell(one, MADE)
    assert found.shared == pytest.approx(4 * frozen, rel=0.03, abs=100)
    assert found.own - found.batch == pytest.approx(16 * trained, rel=0.02)


@pytest.mark.parametrize("bucket", [1, 10])
def test_batches_are_those_that_training_makes(bucket: int):
    lengths = np.random.default_rng(1).integers(4, 40, 1003)
    made = cost.predicted_batches(lengths, 16, bucket)
    real = order(lengths, 16, bucket, seed=5, epoch=2)
    assert made.number == len(real)
    assert made.tokens == pytest.approx(sum(len(batch) * lengths[batch].max() for batch in real), rel=0.02)
    assert made.squares == pytest.approx(sum(len(batch) * lengths[batch].max() ** 2 for batch in real), rel=0.03)
    assert made.length == 39 and made.longest == 16 * 39


def test_batches_filled_by_tokens_are_as_many():
    lengths = np.random.default_rng(1).integers(4, 40, 1003)
    made = cost.predicted_batches(lengths, 16, 10, 512)
    real = order(lengths, 16, 10, seed=5, epoch=2, budget=512)
    assert made.number == pytest.approx(len(real), abs=2) and made.longest <= 512
    assert made.tokens == pytest.approx(sum(len(batch) * lengths[batch].max() for batch in real), rel=0.03)


def test_time_grows_with_passes_epochs_and_blocks_and_a_store_takes_the_frozen_ones():
    known = cost.Texts({"train": np.full(100, 32), "validation": np.full(10, 32), "test": np.full(40, 32)}, True)
    made = cost.predicted_batches(known.splits["train"], 16, 10)

    def work(of: Cell) -> cost.Work:
        return cost.work(of, known, made, Evaluation())

    plain = work(cell(tune={"last_blocks": 1}))
    twice = work(cell(tune={"last_blocks": 1}, loss="rdrop", view="two_stage"))
    embedded = 3 * cost.gflop(cost.sizes(cell().encoder), np.full(50, 32))
    assert twice.forward - embedded == pytest.approx(2 * (plain.forward - embedded))
    longer = work(cell(tune={"last_blocks": 1}, training={"epochs": 6}))
    assert longer.calls == 2 * plain.calls and longer.moved == pytest.approx(2 * plain.moved)
    assert work(cell()).forward == pytest.approx(embedded) and work(cell()).trained > 2.5 * plain.trained
    assert cost.training_work(cell(tune={"last_blocks": 1}), made, 0.0, stored=True).forward == 0.0
    assert work(cell(loss="ce+mlm")).trained > 2 * work(cell()).trained


def test_a_hub_encoder_that_is_not_here_is_taken_for_one_of_the_usual_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    absent = cell().encoder.model_copy(update={"model": f"hf:nobody/nothing@{'0' * 40}", "scratch": None})
    assert cost.sizes(absent) == cost.BASE


def test_a_micro_batch_takes_less_memory():
    made = cost.predicted_batches(np.full(100, 32), 16, 10)
    whole, part = (cost.memory_of_cell(cell(training={"micro_batch": size}), made) for size in (None, 4))
    assert part.batch == pytest.approx(whole.batch / 4, rel=0.01) and part.shared == whole.shared
