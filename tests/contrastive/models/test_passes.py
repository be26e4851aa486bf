"""What is computed once for several cells: passes through frozen blocks, and what some losses begin from."""

import pytest
import torch
from torch import Tensor

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.data import tokens as token_store
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.losses.projected import Sccl
from contrastive.models import frozen_store
from contrastive.models import model as models
from contrastive.runs import store
from contrastive.training import train
from tests.contrastive.training.trained import LAST_BLOCK, make, numbers, run

SPEED = Speed()
STILL = {"tune": {"last_blocks": 1, "frozen_dropout": False}, "scratch": {"layers": 3, "hidden": 32}}


def sccl(source: str, **settings) -> Cell:
    data = {"train": 24, "validation": 0, "test": 16} | settings.pop("data", {})
    return make(source, data=data, **{"encoder": LAST_BLOCK, "loss": "sccl", **settings})


def trained(cell: Cell, speed: Speed = SPEED) -> dict[str, object]:
    return numbers(run(cell, speed=speed))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    found: list[Tensor] = []
    real = Sccl.begin
    monkeypatch.setattr(Sccl, "begin", lambda self, given: found.append(given) or real(self, given))
    return found


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each time that all texts are encoded for it."""
    counted: list[int] = []
    real = frozen_store.untrained_embeddings
    monkeypatch.setattr(
        frozen_store, "untrained_embeddings", lambda *given: real(*given[:3], lambda: counted.append(1) or given[3]())
    )
    return counted


def test_cells_that_begin_from_the_same_compute_it_once_and_no_bit_differs(source, home, shown, computed, monkeypatch):
    cells = [sccl(source), sccl(source, clusters=3, temperature=0.2), sccl(source, loss="ce+sccl", alpha=0.3)]
    first = [trained(cell) for cell in cells]
    assert len(computed) == 1 and len(shown) == 3
    monkeypatch.setenv("ABLATE_HOME", str(home / "again"))
    for cell in reversed(cells):
        store.remove(store.home() / "cache" / "untrained")
        assert trained(cell) == first[cells.index(cell)]
    assert len(computed) == 4 and len(shown) == 6
    assert all(torch.equal(embeddings, shown[0]) for embeddings in shown)


def test_it_is_the_embedding_of_each_training_text_by_the_encoder_as_it_is(source, home, shown):
    cell = sccl(source, encoder=LAST_BLOCK | {"pooling": "mean"})
    trained(cell)
    tokens = token_store.open_tokens(prepare_cell_tokens(cell))
    train.start_accelerator(cell)
    model, texts = models.Model(cell, tokens).eval(), tokens.splits["train"]
    one_by_one = [
        model.predict(train.collate(texts, train.np.array([i]), tokens.pad_id, tokens.special_ids)).embedding
        for i in range(len(texts))
    ]
    torch.testing.assert_close(shown[0], torch.cat(one_by_one), atol=1e-5, rtol=1e-5)


def test_what_was_read_from_a_store_decides_it_too(source, home, shown, monkeypatch):
    """Two views that have unlike numbers of blocks computed apart, so that other numbers were rounded on the way."""
    speed = Speed(reuse="half")
    high = sccl(source, encoder=STILL, view="two_stage")
    low = sccl(source, encoder=STILL, view="layers", layers=(0, 2))
    assert models.separable_blocks(high) != models.separable_blocks(low)
    for cell in (high, low):
        trained(cell, speed)
    monkeypatch.setenv("ABLATE_HOME", str(home / "again"))
    for cell in (low, high):
        trained(cell, speed)
    assert torch.equal(shown[0], shown[3]) and torch.equal(shown[1], shown[2])
    assert not torch.equal(shown[0], shown[1])
