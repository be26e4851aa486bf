"""Numbers of a simulation that are kept in the user's cache: simulated once, and again after any damage."""

from pathlib import Path

import numpy as np
import pytest

from reports.statistics.cutoffs import Design, cutoffs
from reports.statistics.kept import kept


class Simulation:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> np.ndarray:
        self.count += 1
        return np.array([[0.1, np.inf], [np.pi, -1e-300]])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_each_question_is_simulated_once(cache: Path) -> None:
    simulate = Simulation()
    for _ in range(3):
        assert kept(simulate, 5, "rows").tolist() == [0.1, np.inf, np.pi, -1e-300]
    kept(simulate, 6, "rows")
    assert simulate.count == 2


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-8], lambda data: b"\0" * 64])
def test_a_damaged_file_is_simulated_again_and_replaced(cache: Path, damage) -> None:
    simulate = Simulation()
    right = kept(simulate, 1)
    (file,) = (path for path in cache.rglob("*") if path.is_file())
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert (kept(simulate, 1) == right).all()
    assert simulate.count == 2 and file.read_bytes() == whole


def test_without_a_folder_that_can_be_written_nothing_is_kept(cache: Path) -> None:
    cache.write_text("a file")
    simulate = Simulation()
    assert kept(simulate, 1).tolist() == kept(simulate, 1).tolist()
    assert simulate.count == 2


def test_cut_offs_from_the_cache_are_those_that_were_simulated(cache: Path) -> None:
    design = Design(3, ((1, 0), (2, 0)), (2, 3), 2000)
    simulated, read = cutoffs.__wrapped__(design), cutoffs.__wrapped__(design)
    for first, again in zip(simulated, read, strict=True):
        for name in vars(first):
            assert np.array_equal(getattr(first, name), getattr(again, name)), name
