"""The estimated time comes from finished cells of the same encoder, and is not invented without any."""

from pathlib import Path

import pytest

from contrastive import estimate, store
from contrastive.config import Cell


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    return tmp_path


def cell(train: int, epochs: int = 1, model: str = "scratch:bert", **objective: object) -> Cell:
    data = {"source": "file:texts.csv", "train": train, "test": 10}
    return Cell(data=data, encoder={"model": model}, objective=objective, training={"epochs": epochs}, seed=0)


def finish(name: str, done: Cell, seconds: float) -> None:
    folder = store.run_folder(name)
    store.write_json(folder / "config.json", {"cell": done.model_dump(mode="json")})
    store.write_json(folder / "provenance.json", {"wall_seconds": seconds})
    (folder / "DONE").write_text("")


def test_nothing_is_known_at_first():
    assert estimate.seconds([cell(100)]) is None
    assert estimate.seconds([]) == 0


def test_time_grows_with_texts_epochs_and_passes():
    for name, seconds in (("one", 10.0), ("two", 12.0), ("three", 90.0)):
        finish(name, cell(100), seconds)
    assert estimate.seconds([cell(100)]) == pytest.approx(12)
    assert estimate.seconds([cell(200), cell(100, epochs=3)]) == pytest.approx(24 + 36)
    assert estimate.seconds([cell(100, loss="rdrop", view="two_stage")]) == pytest.approx(24)


def test_another_encoder_is_not_comparable():
    finish("one", cell(100), 10)
    assert estimate.seconds([cell(100), cell(100, model="scratch:deberta-v2")]) is None


def test_a_folder_that_cannot_be_read_is_left_out(home: Path):
    finish("one", cell(100), 10)
    finish("broken", cell(100), 10)
    (home / "runs" / "broken" / "config.json").write_text("{")
    assert estimate.seconds([cell(100)]) == pytest.approx(10)


def test_cells_alike_are_known_best_and_the_longest_begin_first():
    supcon, plain = cell(100, loss="ce+supcon"), cell(100)
    finish("plain", plain, 10.0)
    finish("supcon", supcon, 30.0)
    finish("other", cell(100, epochs=2), 100.0)
    assert estimate.seconds([supcon]) == pytest.approx(30)
    assert estimate.seconds([cell(50, loss="ce+supcon")]) == pytest.approx(15)  # of its objective
    assert estimate.seconds([cell(100, loss="ce+swav")]) == pytest.approx(30)  # of its encoder alone
    unknown, small = cell(10, model="scratch:deberta-v2"), cell(5, model="scratch:deberta-v2")
    assert estimate.longest_first([plain, small, supcon, unknown]) == [unknown, small, supcon, plain]
