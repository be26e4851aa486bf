"""Of cells in turns one fails, is too large, was taken over or has ended: the others are those trained alone."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from contrastive.losses import LOSSES
from contrastive.models import model
from contrastive.runs import claim, stopping, store
from contrastive.stages.train_cell import train_cell
from contrastive.training import train
from tests.contrastive.stages.in_turns import SMALL, TUNE, asked, folder_of, group_of, in_turns
from tests.contrastive.training.trained import make, numbers
from tests.tiers import rest_is_full


@pytest.mark.parametrize("fault", rest_is_full(["diverged", "config", "code"], ["diverged"]))
def test_one_that_fails_tells_why_and_leaves_the_others_as_they_are(
    fault: str, source: str, home: Path, undisturbed: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.full
def test_cells_that_lose_their_permit_all_stop_and_go_on_in_turns_to_the_same_numbers(
    source: str, home: Path, undisturbed: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
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
    source: str, home: Path, undisturbed: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
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
    source: str, home: Path, undisturbed: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
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
    source: str, home: Path, undisturbed: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
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
    source: str, home: Path, undisturbed: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
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


def test_a_member_that_is_finished_is_not_trained_again(source: str, home: Path, undisturbed: list[dict[str, object]]):
    cells = group_of(source)
    train_cell(folder_of(cells[1]), asked(cells[1]))
    assert in_turns(cells) == in_turns(cells) == [None] * 3
    assert [numbers(folder_of(cell)) for cell in cells] == undisturbed
    assert [len(claim.attempts(folder_of(cell))) for cell in cells] == [1, 1, 1]
