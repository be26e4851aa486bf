"""Stores of what frozen blocks give, made: once, again where damaged, and only where the disk has room."""

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from contrastive.config.cell import Cell
from contrastive.config.speed import Speed
from contrastive.data.tokens import Tokens
from contrastive.reuse import frozen_store
from contrastive.runs import store
from contrastive.stages.request import Asked
from contrastive.stages.train_cell import train_cell
from contrastive.training import checkpoint
from tests.contrastive.reuse.frozen_cells import FULL, HALF, NONE, cell_of, opened, place
from tests.contrastive.training.trained import folder_of


def stores() -> list[Path]:
    return sorted((store.home() / "cache" / "prefix").glob("*/*/DONE"))


def test_it_is_made_once_for_all_and_by_one_of_those_who_want_it_at_once(
    source: str, bert: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    made: list[str] = []
    real = frozen_store._compute
    monkeypatch.setattr(frozen_store, "_compute", lambda *given: made.append(given[4].name) or real(*given))
    cells = [cell_of(source, bert, loss="simcse_sup", seed=seed) for seed in (0, 1)]
    tokens, ready = opened(cells[0]), threading.Barrier(2)
    found: list[Tokens] = []

    def attach(cell: Cell) -> None:
        ready.wait()
        found.append(frozen_store.with_frozen_part(tokens, cell, FULL))

    threads = [threading.Thread(target=attach, args=(cell,)) for cell in cells]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["train.unfinished"] and len(stores()) == 1
    assert np.array_equal(*(tokens.splits["train"].below for tokens in found))
    for cell in (cells[1], cell_of(source, bert, loss="simcse", alpha=0.3, data={})):
        frozen_store.with_frozen_part(opened(cell), cell, FULL)
    assert len(made) == 1


@pytest.mark.parametrize("damage", ["short", "missing", "changed", "unfinished"])
def test_a_damaged_one_is_made_again(damage: str, source: str, bert: str, home: Path):
    cell = cell_of(source, bert, loss="ce")
    expected = np.array(frozen_store.with_frozen_part(tokens := opened(cell), cell, FULL).splits["train"].below)
    path = place(cell) / "train" / "below.npy"
    if damage == "short":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "missing":
        path.unlink()
    elif damage == "changed":
        content = bytearray(path.read_bytes())
        content[-1] ^= 0xFF
        path.write_bytes(content)
    else:  # as one who was killed leaves it
        path.parent.rename(path.parent.with_suffix(".unfinished"))
    assert np.array_equal(frozen_store.with_frozen_part(tokens, cell, FULL).splits["train"].below, expected)
    assert not path.parent.with_suffix(".unfinished").exists()


def small_disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))


def test_the_room_that_it_takes_is_known_before(source: str, bert: str, home: Path, monkeypatch: pytest.MonkeyPatch):
    """With what belongs to a text: its positive and its negative."""
    cell = cell_of(source, bert, loss="simcse_sup")
    texts = frozen_store.with_frozen_part(tokens := opened(cell), cell, HALF).splits["train"]
    arrays = [part.below for part in (texts, *texts.partners)]
    assert sum(array.nbytes for array in arrays) == frozen_store.bytes_of_store(texts, cell.encoder, HALF)
    needed = frozen_store.bytes_of_store(tokens.splits["train"], cell.encoder, FULL)
    for free, enough in ((2 * needed, False), (2 * needed + 2, True)):
        small_disk(monkeypatch, free)
        assert (frozen_store.make_store(opened(cell), "train", cell, FULL) is not None) == enough


def test_where_the_disk_has_no_room_the_cell_computes_them_and_says_so(
    source: str, bert: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    small_disk(monkeypatch, 1000)
    cell = cell_of(source, bert, loss="ce")
    assert told(cell, FULL) == "none" and not stores() and not list(home.glob("cache/prefix/*/*"))
    small_disk(monkeypatch, 10**9)
    frozen_store.with_frozen_part(opened(cell), cell, FULL)
    small_disk(monkeypatch, 0)  # what is there is read all the same
    assert told(cell, FULL) == "full"


def told(cell: Cell, speed: Speed) -> str:
    """What a cell's provenance says after a new training."""
    folder = folder_of(cell)
    if folder.exists():
        store.remove(folder)
    train_cell(folder, Asked(cell, "a cell", 1000, speed=speed))
    return store.read_json(folder / "provenance.json")["speed"]["reuse"]


def test_provenance_tells_what_was_read(source: str, bert: str, home: Path):
    cell = cell_of(source, bert, loss="ce")
    assert [told(cell, speed) for speed in (NONE, FULL, HALF)] == ["none", "full", "half"]
    for tune in ({"frozen_dropout": True}, {"last_blocks": 3}, {"last_blocks": None, "frozen_dropout": True}):
        assert told(cell_of(source, bert, tune, loss="ce"), FULL) == "none"


def test_room_that_came_while_a_cell_trained_changes_nothing_that_is_told(
    source: str, bert: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    small_disk(monkeypatch, 0)
    real = checkpoint.save_weights

    def make_room(*given) -> None:
        small_disk(monkeypatch, 10**9)
        real(*given)

    monkeypatch.setattr(checkpoint, "save_weights", make_room)
    assert told(cell_of(source, bert, loss="ce"), FULL) == "none"
    assert [path.parent.name for path in stores()] == ["test"]  # to embed, which it changes no bit of
