"""Cells in turns in one process are those trained alone, bit for bit, whatever becomes of the others."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from contrastive.config.cell import Cell
from contrastive.losses import LOSSES
from contrastive.models import frozen, model
from contrastive.models.frozen import PassCache
from contrastive.runs import claim, stopping, store
from contrastive.training import checkpoint, train, train_cell, turns
from contrastive.training.request import TrainRequest
from tests.contrastive.training.trained import LAST_BLOCK, folder_of, make, numbers, run
from tests.tiers import rest_is_full

Found = list[dict[str, object]]
SMALL = {"encoder": LAST_BLOCK, "data": {"train": 24, "validation": 0, "test": 16}}
TWO_STAGE, SIZED = {"view": "two_stage"}, {"projector": 8, "projection": 4}
PAIRS = {  # two cells of one view with unlike objectives
    "simcse": [{"loss": "ce+simcse"} | TWO_STAGE, {"loss": "ce+simcse", "alpha": 0.3} | TWO_STAGE],
    "swav": [{"loss": "ce+swav", **TWO_STAGE, "projector": 16}, {"loss": "ce+swav", "alpha": 0.3} | TWO_STAGE],
    "simcse_sup": [{"loss": "simcse_sup"}, {"loss": "simcse_sup", "temperature": 0.5}],
    "tokens": [{"loss": "ce+supcon", "view": "topk_tokens", "k": k} for k in (2, 4)],
    "moco": [{"loss": "moco"}, {"loss": "byol"} | SIZED],
    "sccl": [{"loss": "sccl"}, {"loss": "sccl", "clusters": 3}],
    "mlm": [{"loss": "mlm"}, {"loss": "mlm+supcon", "view": "cls"}],
    "clear": [{"loss": "clear", "rate": rate} for rate in (0.1, 0.6)],
}


def alone(cells: list[Cell]) -> Found:
    """What each gives by itself, in a home where the cells are then forgotten."""
    found = [numbers(run(cell)) for cell in cells]
    for cell in cells:
        store.remove(folder_of(cell))
    return found


def in_turns(cells: list[Cell], every: int = 1000) -> list[dict | None]:
    """The report of each."""
    asked = {folder_of(cell): TrainRequest(cell, "a cell", every, together=len(cells)) for cell in cells}
    reports = turns.train_interleaved(asked)
    assert reports.keys() == {folder.name for folder in asked}
    return [reports[folder.name] for folder in asked]


def group_of(source: str) -> list[Cell]:
    """Three of one view, two passes a step."""
    objectives = [{"loss": "rdrop"}, {"loss": "ce+ntxent", "alpha": 0.3}, {"loss": "simcse"}]
    return [make(source, **SMALL, **TWO_STAGE, **objective) for objective in objectives]


@pytest.fixture
def group(source: str, home: Path) -> list[Cell]:
    return group_of(source)


@pytest.fixture(scope="module")
def undisturbed(source: str, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the cells of the group give where nothing happens to any of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ABLATE_HOME", str(tmp_path_factory.mktemp("undisturbed")))
        return alone(group_of(source))


def found_of(cells: list[Cell]) -> Found:
    return [numbers(folder_of(cell)) for cell in cells]


def provenance(cell: Cell) -> dict:
    return store.read_json(folder_of(cell) / "provenance.json")


@pytest.mark.parametrize("name", rest_is_full(PAIRS, ["moco", "clear"]))
def test_cells_in_turns_are_those_trained_alone_to_the_bit(
    name: str, source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    passes: list[int] = []  # through the frozen blocks, really computed in training mode
    real = frozen.outputs_below

    def count(backbone, batch, blocks):
        passes.extend([blocks] if backbone.training else [])
        return real(backbone, batch, blocks)

    monkeypatch.setattr(frozen, "outputs_below", count)
    cells = [make(source, **SMALL, **objective) for objective in PAIRS[name]]
    expected = alone(cells)
    by_one = len(passes)
    assert in_turns(cells) == [None, None]
    assert found_of(cells) == expected
    shared = 1 if name == "clear" else 2  # once for both, with dropout; texts that are changed unlike each by itself
    assert len(passes) - by_one == by_one / shared > 0


def test_no_pass_is_remembered_after_its_step(group: list[Cell], monkeypatch: pytest.MonkeyPatch):
    known: list[int] = []
    real = PassCache.forget

    def note(self: PassCache) -> None:
        known.append(len(self.remembered))
        real(self)
        assert not self.remembered

    monkeypatch.setattr(PassCache, "forget", note)
    in_turns(group)
    assert max(known) == 2  # of two passes a step, whatever the number of cells


def test_what_they_share_is_paid_for_in_turns_and_the_rest_by_whose_it_is(
    group: list[Cell], monkeypatch: pytest.MonkeyPatch
):
    """Else the first of them would seem to cost several times what the others do."""
    now, shared, after = [0.0], frozen.outputs_below, model.Model.after_step
    monkeypatch.setattr(train_cell, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def dawdle_below(backbone, batch, blocks):
        now[0] += 1 if backbone.training else 0
        return shared(backbone, batch, blocks)

    def dawdle_after(self, progress: float) -> None:
        now[0] += 0 if self.head is not None else 100
        after(self, progress)

    monkeypatch.setattr(frozen, "outputs_below", dawdle_below)
    monkeypatch.setattr(model.Model, "after_step", dawdle_after)
    assert in_turns(group) == [None] * 3
    assert [provenance(cell)["wall_seconds"] for cell in group] == [2, 2, 302]  # two passes in each of three steps


FAULTS = [  # the first: more than float32 holds
    ("diverged", {"loss": "ce+supcon", "view": "two_stage", "alpha": 1e39}, "loss became inf at step 0"),
    ("config", {"loss": "ce+supcon", "view": "multiview", "middle": 9}, "middle is 9"),
    ("code", {"loss": "barlow"}, "ZeroDivisionError"),
]


@pytest.mark.parametrize(("fault", "planted", "said"), rest_is_full(FAULTS, FAULTS[:1]))
def test_one_that_fails_tells_why_and_leaves_the_others_as_they_are(
    fault: str, planted: dict, said: str, source: str, group: list, undisturbed: Found, monkeypatch: pytest.MonkeyPatch
):
    if fault == "code":
        monkeypatch.setattr(LOSSES["barlow"], "forward", lambda *_, **__: 1 / 0)
    failing = make(source, **SMALL, **planted)
    folder, reports = folder_of(failing), in_turns([group[0], failing, *group[1:]])
    report = reports.pop(1)
    assert reports == [None] * 3 and found_of(group) == undisturbed
    assert report is not None and report["kind"] == fault and store.failure(folder) == report
    assert (
        said in report["error"]
        and not any((folder / name).exists() for name in ("TRAINED",))
        and not claim.is_held(folder)
    )


def at_step(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Do something where the group's step of this number, counted over all its cells, begins."""
    begun: list[int] = []
    real = train.seed_step

    def draw_from(*given: int) -> None:
        begun.append(1)
        if len(begun) == number:
            act()
        real(*given)

    monkeypatch.setattr(train, "seed_step", draw_from)


@pytest.mark.full
def test_cells_that_lose_their_permit_all_stop_and_go_on_in_turns_to_the_same_numbers(
    group: list[Cell], home: Path, undisturbed: Found, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stopping, "CHECK_INTERVAL", 0.0)
    with stopping.work_permit(home) as leave, monkeypatch.context() as patched:
        patched.setenv(stopping.VARIABLE, str(leave))
        at_step(patched, 5, leave.unlink)  # the second step of the second cell
        told = in_turns(group)
    assert [report["kind"] for report in told if report] == ["stopped"] * 3
    assert not any((folder_of(cell) / name).exists() for cell in group for name in ("FAILED.json", "TRAINED"))
    assert in_turns(group) == [None] * 3 and found_of(group) == undisturbed
    for cell in group:
        first, second = claim.attempts(folder_of(cell))
        assert first["outcome"].startswith("Stopped:") and second["outcome"] == "done"


def remove_permit(permit: Path, patch: pytest.MonkeyPatch) -> None:
    """Remove the permit and let the next look see it; no later one comes in time."""
    permit.unlink()
    patch.setattr(stopping, "_last_check", -math.inf)


def test_after_one_cell_has_seen_the_stop_the_others_save_without_another_step(
    group: list[Cell], home: Path, monkeypatch: pytest.MonkeyPatch
):
    steps, saves, save = list[int](), list[Path](), checkpoint.save_checkpoint
    monkeypatch.setattr(stopping, "CHECK_INTERVAL", 1e9)
    monkeypatch.setattr(
        checkpoint, "save_checkpoint", lambda folder, *rest: saves.append(folder) or save(folder, *rest)
    )
    with stopping.work_permit(home) as permit:
        monkeypatch.setenv(stopping.VARIABLE, str(permit))
        at_step(monkeypatch, 5, lambda: remove_permit(permit, monkeypatch))
        counted = train.seed_step
        monkeypatch.setattr(train, "seed_step", lambda *given: steps.append(1) or counted(*given))
        reports = in_turns(group)
    assert [report["kind"] for report in reports if report] == ["stopped"] * 3
    assert len(steps) == 5 and len(saves) == 3


def test_no_cell_begins_once_the_work_is_stopped_also_none_that_was_to_train_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    begun = list[str]()
    folders = [home / f"cell{number}" for number in range(12)]

    def steps(folder: Path, request: object, passes: object) -> Iterator[None]:
        begun.append(folder.name)
        if len(begun) == 1:
            raise MemoryError
        remove_permit(permit, monkeypatch)
        yield

    monkeypatch.setattr(stopping, "CHECK_INTERVAL", 1e9)
    monkeypatch.setattr(turns, "training_steps", steps)
    monkeypatch.setattr(turns, "train_cell", lambda folder, request: begun.append("alone"))
    asked = {folder: TrainRequest(Cell.model_construct(), "a cell", 1000, together=12) for folder in folders}
    with stopping.work_permit(home) as permit:
        monkeypatch.setenv(stopping.VARIABLE, str(permit))
        reports = turns.train_interleaved(asked)
    assert begun == ["cell0", "cell1"]
    kinds = Counter(report and report["kind"] for report in reports.values())
    assert kinds == {"stopped": 11, None: 1}  # the made-up steps of cell1 end by themselves


def test_a_group_that_is_killed_goes_on_from_its_checkpoints(
    group: list[Cell], undisturbed: Found, monkeypatch: pytest.MonkeyPatch
):
    def die() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt) as stopped:
        at_step(patched, 8, die)
        in_turns(group, every=1)
    assert stopped.tb is not None  # whoever keeps the exception keeps no claim with it
    assert not any(claim.is_held(folder_of(cell)) for cell in group)
    steps: list[int] = []
    real = train.seed_step
    monkeypatch.setattr(train, "seed_step", lambda seed, step, process: steps.append(step) or real(seed, step, process))
    assert in_turns(group) == [None] * 3 and found_of(group) == undisturbed
    assert steps == [2, 2]  # nothing was done again: the first cell had ended


def test_one_that_finds_no_room_beside_the_others_is_trained_alone_after_them(
    group: list[Cell], undisturbed: Found, monkeypatch: pytest.MonkeyPatch
):
    """Whole, since alone it fits: its batch is not encoded in parts."""
    real = model.Model.forward

    def crowded(self, batch):
        if self.head is None and not all((folder_of(cell) / "TRAINED").exists() for cell in group[:2]):
            raise torch.cuda.OutOfMemoryError("a planted one")
        return real(self, batch)

    monkeypatch.setattr(model.Model, "forward", crowded)
    assert in_turns(group) == [None] * 3 and found_of(group) == undisturbed
    told = [(provenance(cell)["speed"]["together"], provenance(cell)["micro_batch"]) for cell in group]
    assert told == [(3, None), (3, None), (1, None)] and not store.failure(folder_of(group[2]))


def test_one_that_is_too_large_even_alone_is_encoded_in_parts_or_fails(
    group: list[Cell], undisturbed: Found, monkeypatch: pytest.MonkeyPatch
):
    real, most = model.Model.forward, [4]

    def small(self, batch):
        if self.head is None and self.training and len(batch) > most[0]:
            raise torch.cuda.OutOfMemoryError("a planted one")
        return real(self, batch)

    monkeypatch.setattr(model.Model, "forward", small)
    assert in_turns(group) == [None] * 3 and found_of(group[:2]) == undisturbed[:2]
    assert provenance(group[2])["micro_batch"] == 4
    most[0] = 0
    store.remove(folder_of(group[2]))
    *others, report = in_turns(group)
    assert others == [None, None] and report is not None and report["kind"] == "memory"
    assert store.failure(folder_of(group[2])) == report


def test_a_member_that_is_finished_is_not_trained_again(group: list[Cell], undisturbed: Found):
    run(group[1])
    assert in_turns(group) == in_turns(group) == [None] * 3 and found_of(group) == undisturbed
    assert [len(claim.attempts(folder_of(cell))) for cell in group] == [1, 1, 1]
