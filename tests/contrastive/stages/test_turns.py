"""Cells that train in turns are those that train alone, bit for bit, whatever becomes of the others."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from contrastive.cells.identity import cell_id, identity
from contrastive.config.cell import Cell
from contrastive.config.speed import Speed
from contrastive.losses import LOSSES
from contrastive.models import frozen, model
from contrastive.reuse.passes import Passes
from contrastive.runs import claim, stopping, store
from contrastive.stages import stopwatch, turns
from contrastive.stages.request import Asked
from contrastive.stages.train_cell import train_cell
from contrastive.training import train
from tests.contrastive.training.test_train import home, make, numbers, source  # noqa: F401, fixtures

TUNE = {"tune": {"last_blocks": 1}}
SMALL = {"train": 24, "validation": 0, "test": 16}
SPEED = Speed()
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


def pair_of(source: str, loss: str) -> list[Cell]:  # noqa: F811
    """Two cells of one view with unlike objectives: of a loss, or of unlike numbers of tokens."""
    usual = {"loss": loss} if loss in OTHER else {"loss": f"ce+{loss}", "view": "two_stage"}
    usual |= {"projector": 16} if loss in ("barlow", "vicreg", "swav", "byol") else {}
    both = [usual, OTHER.get(loss, usual | {"alpha": 0.3})]
    if loss == "tokens":
        both = [{"loss": "ce+supcon", "view": "topk_tokens", "k": k} for k in (2, 4)]
    return [make(source, encoder=TUNE, data=SMALL, **objective) for objective in both]


def folder_of(cell: Cell) -> Path:
    return store.run_folder(cell_id(identity(cell)))


def asked(cell: Cell, together: int = 1, every: int = 1000) -> Asked:
    return Asked(cell, "a cell", every, speed=SPEED, together=together)


def alone(cells: list[Cell]) -> list[dict[str, object]]:
    """What each gives by itself, in a home of its own, where the cells are then forgotten."""
    for cell in cells:
        train_cell(folder_of(cell), asked(cell))
    found = [numbers(folder_of(cell)) for cell in cells]
    for cell in cells:
        store.remove(folder_of(cell))
    return found


def in_turns(cells: list[Cell], every: int = 1000) -> list[dict | None]:
    """The report of each."""
    reports = turns.train_in_turns({folder_of(cell): asked(cell, len(cells), every) for cell in cells})
    assert reports.keys() == {folder_of(cell).name for cell in cells}
    return [reports[folder_of(cell).name] for cell in cells]


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


@pytest.mark.parametrize("loss", [*LOSSES, "tokens"])
def test_cells_in_turns_are_those_trained_alone_to_the_bit(
    loss: str,
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    passes: list[int],
):
    cells = pair_of(source, loss)
    expected = alone(cells)
    by_one = len(passes)
    assert in_turns(cells) == [None, None]
    assert [numbers(folder_of(cell)) for cell in cells] == expected
    assert len(passes) - by_one == by_one / 2 > 0  # once for both, with dropout


def test_texts_changed_unlike_are_encoded_apart(source: str, home: Path, passes: list[int]):  # noqa: F811
    cells = [make(source, encoder=TUNE, data=SMALL, loss="clear", rate=rate) for rate in (0.1, 0.6)]
    expected = alone(cells)
    by_one = len(passes)
    assert in_turns(cells) == [None, None]
    assert [numbers(folder_of(cell)) for cell in cells] == expected
    assert len(passes) - by_one == by_one


def test_cells_that_are_to_share_nothing_compute_each_pass_and_come_to_the_same(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    undisturbed: list[dict[str, object]],
    passes: list[int],
):
    cells = group_of(source)
    each = {folder_of(cell): replace(asked(cell, 3), speed=Speed(reuse="none")) for cell in cells}
    assert set(turns.train_in_turns(each).values()) == {None}
    assert [numbers(folder_of(cell)) for cell in cells] == undisturbed
    assert len(passes) == 3 * 3 * 2  # cells, steps, passes a step


def test_no_pass_is_remembered_after_its_step(source: str, home: Path, monkeypatch: pytest.MonkeyPatch):  # noqa: F811
    known: list[int] = []
    real = Passes.forget

    def note(self: Passes) -> None:
        known.append(len(self.remembered))
        real(self)
        assert not self.remembered

    monkeypatch.setattr(Passes, "forget", note)
    in_turns(group_of(source))
    assert max(known) == 2  # of two passes a step, whatever the number of cells


def group_of(source: str) -> list[Cell]:  # noqa: F811
    """Three of one view, two passes a step."""
    objectives = [{"loss": "rdrop"}, {"loss": "ce+ntxent", "alpha": 0.3}, {"loss": "simcse"}]
    return [make(source, encoder=TUNE, data=SMALL, view="two_stage", **objective) for objective in objectives]


@pytest.fixture(scope="module")
def undisturbed(source: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:  # noqa: F811
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ABLATE_HOME", str(tmp_path_factory.mktemp("undisturbed")))
        return alone(group_of(source))


@pytest.mark.parametrize("fault", ["diverged", "config", "code"])
def test_one_that_fails_tells_why_and_leaves_the_others_as_they_are(
    fault: str,
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    undisturbed: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
):
    planted = {"loss": "ce+supcon", "view": "two_stage", "alpha": 1e39}  # more than float32 holds
    if fault == "config":
        planted = {"loss": "ce+supcon", "view": "multiview", "middle": 9}
    elif fault == "code":
        planted = {"loss": "barlow"}
        monkeypatch.setattr(LOSSES["barlow"], "forward", lambda *_, **__: 1 / 0)
    failing = make(source, encoder=TUNE, data=SMALL, **planted)
    cells = group_of(source)
    reports = in_turns([cells[0], failing, *cells[1:]])
    report = reports.pop(1)
    assert reports == [None] * 3 and [numbers(folder_of(cell)) for cell in cells] == undisturbed
    assert report is not None and report["kind"] == fault and store.failure(folder_of(failing)) == report
    said = {"diverged": "loss became inf at step 0", "config": "middle is 9", "code": "ZeroDivisionError"}
    assert said[fault] in report["error"] and not (folder_of(failing) / "TRAINED").exists()
    assert not (folder_of(failing) / "claim.json").exists()


def at_step(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Do something where the group's step of this number, counted over all its cells, begins."""
    begun: list[int] = []
    real = train.draw_from

    def draw_from(*given: int) -> None:
        begun.append(1)
        if len(begun) == number:
            act()
        real(*given)

    monkeypatch.setattr(train, "draw_from", draw_from)


def test_cells_that_lose_their_permit_all_stop_and_go_on_in_turns_to_the_same_numbers(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    undisturbed: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
):
    cells = group_of(source)
    monkeypatch.setattr(stopping, "LOOK_AFTER", 0.0)
    with stopping.granted(home) as leave, monkeypatch.context() as patched:
        patched.setenv(stopping.VARIABLE, str(leave))
        at_step(patched, 5, leave.unlink)  # the second step of the second cell
        told = in_turns(cells)
    assert [report["kind"] for report in told if report] == ["stopped"] * 3
    assert not any((folder_of(cell) / name).exists() for cell in cells for name in ("FAILED.json", "TRAINED"))
    assert in_turns(cells) == [None] * 3
    assert [numbers(folder_of(cell)) for cell in cells] == undisturbed
    for cell in cells:
        first, second = claim.attempts(folder_of(cell))
        assert first["outcome"].startswith("Stopped:") and second["outcome"] == "done"


def test_a_group_that_is_killed_goes_on_from_its_checkpoints(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    undisturbed: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
):
    cells = group_of(source)

    def die() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt) as stopped:
        at_step(patched, 8, die)
        in_turns(cells, every=1)
    assert stopped.tb is not None  # whoever keeps the exception keeps no claim with it
    assert not any((folder_of(cell) / "claim.json").exists() for cell in cells)
    steps: list[int] = []
    real = train.draw_from
    monkeypatch.setattr(train, "draw_from", lambda seed, step, process: steps.append(step) or real(seed, step, process))
    assert in_turns(cells) == [None] * 3
    assert [numbers(folder_of(cell)) for cell in cells] == undisturbed
    assert steps == [2, 2]  # nothing was done again: the first cell had ended


def test_one_that_finds_no_room_beside_the_others_is_trained_alone_after_them(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    undisturbed: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
):
    """Whole, since alone it fits: its batch is not encoded in parts."""
    cells = group_of(source)
    real = model.Model.forward

    def crowded(self, batch):
        others = [folder_of(cell) for cell in cells[:2]]
        if self.head is None and not all((folder / "TRAINED").exists() for folder in others):
            raise torch.cuda.OutOfMemoryError("a planted one")
        return real(self, batch)

    monkeypatch.setattr(model.Model, "forward", crowded)
    assert in_turns(cells) == [None] * 3
    assert [numbers(folder_of(cell)) for cell in cells] == undisturbed
    told = [store.read_json(folder_of(cell) / "provenance.json") for cell in cells]
    assert [one["speed"]["together"] for one in told] == [3, 3, 1]
    assert [one["micro_batch"] for one in told] == [None] * 3
    assert not store.failure(folder_of(cells[2]))


def test_one_that_is_too_large_even_alone_is_encoded_in_parts_or_fails(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    undisturbed: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
):
    cells, real, most = group_of(source), model.Model.forward, [4]

    def small(self, batch):
        if self.head is None and self.training and len(batch) > most[0]:
            raise torch.cuda.OutOfMemoryError("a planted one")
        return real(self, batch)

    monkeypatch.setattr(model.Model, "forward", small)
    assert in_turns(cells) == [None] * 3
    assert [numbers(folder_of(cell)) for cell in cells[:2]] == undisturbed[:2]
    assert store.read_json(folder_of(cells[2]) / "provenance.json")["micro_batch"] == 4
    most[0] = 0
    store.remove(folder_of(cells[2]))
    reports = in_turns(cells)
    assert reports[:2] == [None, None] and reports[2] is not None and reports[2]["kind"] == "memory"
    assert store.failure(folder_of(cells[2])) == reports[2]


def test_one_that_was_taken_over_is_left_to_who_took_it_and_the_others_go_on(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    undisturbed: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
):
    """Who took it is gone again, so in the end it is trained here, alone."""
    cells = group_of(source)
    folder = folder_of(cells[1])
    monkeypatch.setattr(claim, "LEASE", 0.06)

    noticed = threading.Event()
    real = claim.Attempt._beat

    def beat(attempt: claim.Attempt) -> None:
        real(attempt)
        if attempt.lost:
            noticed.set()

    monkeypatch.setattr(claim.Attempt, "_beat", beat)

    def take_over() -> None:
        with store.locked(folder / ".claim"):  # else a beat at that moment writes over it
            found = store.read_json(folder / "claim.json")
            store.write_json(folder / "claim.json", found | {"number": 7, "born": "long ago"})
        assert noticed.wait(60)

    at_step(monkeypatch, 5, take_over)
    assert in_turns(cells) == [None] * 3
    assert [numbers(folder_of(cell)) for cell in cells] == undisturbed
    assert [known["outcome"] for known in claim.attempts(folder)] == ["superseded", "done"]
    assert store.read_json(folder / "provenance.json")["speed"]["together"] == 1


def test_a_member_that_is_finished_is_not_trained_again(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    undisturbed: list[dict[str, object]],
):
    cells = group_of(source)
    train_cell(folder_of(cells[1]), asked(cells[1]))
    assert in_turns(cells) == in_turns(cells) == [None] * 3
    assert [numbers(folder_of(cell)) for cell in cells] == undisturbed
    assert [len(claim.attempts(folder_of(cell))) for cell in cells] == [1, 1, 1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that cells are measured by, which pass only where a test adds some."""
    seconds = [0.0]
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))
    return seconds


def test_what_they_share_is_paid_for_in_turns(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
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


def test_the_seconds_of_a_cell_are_those_of_its_own_turns(
    source: str,  # noqa: F811
    home: Path,  # noqa: F811
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
):
    cells, real = group_of(source), model.Model.after_step

    def dawdle(self, progress: float) -> None:
        clock[0] += 0 if self.head is not None else 1
        real(self, progress)

    monkeypatch.setattr(model.Model, "after_step", dawdle)
    in_turns(cells)
    assert [store.read_json(folder_of(cell) / "provenance.json")["wall_seconds"] for cell in cells] == [0, 0, 3]
