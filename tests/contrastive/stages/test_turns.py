"""Cells that train in turns are those that train alone, bit for bit, whatever becomes of the others."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from contrastive.config.cell import Cell
from contrastive.config.speed import Speed
from contrastive.losses import LOSSES
from contrastive.models import frozen, model
from contrastive.reuse.passes import Passes
from contrastive.runs import store
from contrastive.stages import stopwatch, turns
from tests.contrastive.stages.in_turns import SMALL, TUNE, alone, asked, folder_of, group_of, in_turns
from tests.contrastive.training.trained import make, numbers
from tests.tiers import rest_is_full

OTHER = {  # a second cell of the same view, with another objective
    "ce": {"loss": "supcon", "view": "cls"},
    "rdrop": {"loss": "ce+simcse", "view": "two_stage", "temperature": 0.2},
    "mlm": {"loss": "mlm+supcon", "view": "cls"},
    "moco": {"loss": "byol", "projector": 8, "projection": 4},
    "byol": {"loss": "moco", "queue": 16},
    "simcse_sup": {"loss": "simcse_sup", "temperature": 0.5},
    "bert_ct": {"loss": "ce+bert_ct"},
    "declutr": {"loss": "ce+declutr", "alpha": 0.3},
    "clear": {"loss": "ce+clear", "alpha": 0.3},
    "sccl": {"loss": "sccl", "clusters": 3},
}


def pair_of(source: str, loss: str) -> list[Cell]:
    """Two cells of one view with unlike objectives: of a loss, or of unlike numbers of tokens."""
    usual = {"loss": loss} if loss in OTHER else {"loss": f"ce+{loss}", "view": "two_stage"}
    usual |= {"projector": 16} if loss in ("barlow", "vicreg", "swav", "byol") else {}
    both = [usual, OTHER.get(loss, usual | {"alpha": 0.3})]
    if loss == "tokens":
        both = [{"loss": "ce+supcon", "view": "topk_tokens", "k": k} for k in (2, 4)]
    return [make(source, encoder=TUNE, data=SMALL, **objective) for objective in both]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each pass through the frozen blocks that is really computed in training mode."""
    counted: list[int] = []
    real = frozen.outputs_below

    def count(backbone, batch, blocks):
        counted.extend([blocks] if backbone.training else [])
        return real(backbone, batch, blocks)

    monkeypatch.setattr(frozen, "outputs_below", count)
    return counted


@pytest.mark.parametrize("loss", rest_is_full([*LOSSES, "tokens"], ["simcse", "moco", "sccl", "tokens"]))
def test_cells_in_turns_are_those_trained_alone_to_the_bit(loss: str, source: str, home: Path, passes: list[int]):
    cells = pair_of(source, loss)
    expected = alone(cells)
    by_one = len(passes)
    assert in_turns(cells) == [None, None]
    assert [numbers(folder_of(cell)) for cell in cells] == expected
    assert len(passes) - by_one == by_one / 2 > 0  # once for both, with dropout


def test_texts_changed_unlike_are_encoded_apart(source: str, home: Path, passes: list[int]):
    cells = [make(source, encoder=TUNE, data=SMALL, loss="clear", rate=rate) for rate in (0.1, 0.6)]
    expected = alone(cells)
    by_one = len(passes)
    assert in_turns(cells) == [None, None]
    assert [numbers(folder_of(cell)) for cell in cells] == expected
    assert len(passes) - by_one == by_one


@pytest.mark.full
def test_cells_that_are_to_share_nothing_compute_each_pass_and_come_to_the_same(
    source: str, home: Path, undisturbed: list[dict[str, object]], passes: list[int]
):
    cells = group_of(source)
    each = {folder_of(cell): replace(asked(cell, 3), speed=Speed(reuse="none")) for cell in cells}
    assert set(turns.train_in_turns(each).values()) == {None}
    assert [numbers(folder_of(cell)) for cell in cells] == undisturbed
    assert len(passes) == 3 * 3 * 2  # cells, steps, passes a step


def test_no_pass_is_remembered_after_its_step(source: str, home: Path, monkeypatch: pytest.MonkeyPatch):
    known: list[int] = []
    real = Passes.forget

    def note(self: Passes) -> None:
        known.append(len(self.remembered))
        real(self)
        assert not self.remembered

    monkeypatch.setattr(Passes, "forget", note)
    in_turns(group_of(source))
    assert max(known) == 2  # of two passes a step, whatever the number of cells


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that cells are measured by, which pass only where a test adds some."""
    seconds = [0.0]
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))
    return seconds


def test_what_they_share_is_paid_for_in_turns(
    source: str, home: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
):
    """Else the first of them would seem to cost several times what the others do."""
    cells, real, computed = pair_of(source, "simcse"), frozen.outputs_below, []

    def dawdle(backbone, batch, blocks):
        if backbone.training:
            computed.append(blocks)
            clock[0] += 1
        return real(backbone, batch, blocks)

    monkeypatch.setattr(frozen, "outputs_below", dawdle)
    assert in_turns(cells) == [None, None]
    seconds = [store.read_json(folder_of(cell) / "provenance.json")["wall_seconds"] for cell in cells]
    assert len(computed) == 6 and sorted(seconds) == [2, 4]  # one of the three steps, and two; not three


@pytest.mark.full
def test_the_seconds_of_a_cell_are_those_of_its_own_turns(
    source: str, home: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
):
    cells, real = group_of(source), model.Model.after_step

    def dawdle(self, progress: float) -> None:
        clock[0] += 0 if self.head is not None else 1
        real(self, progress)

    monkeypatch.setattr(model.Model, "after_step", dawdle)
    in_turns(cells)
    assert [store.read_json(folder_of(cell) / "provenance.json")["wall_seconds"] for cell in cells] == [0, 0, 3]
