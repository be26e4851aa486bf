"""A grid that adds seeds within a budget."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from contrastive.grid.estimate import CostEstimator
from contrastive.grid.load import parse_experiment
from flows.until_decided import GrowingGrid

FILE = """\
name: texts
data: {source: "file:d.csv", train: 64, test: 100}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 8, heads: 2, vocabulary: 64}}
seeds: [0, 1]
sections: [{title: T, rows: {one: {}, two: {epochs: 2}}}]
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(900)))


@pytest.mark.parametrize(("slots", "fits"), [(8, True), (2, False)])
def test_the_budget_counts_the_slots_of_the_engine(slots, fits, monkeypatch):
    monkeypatch.setattr(CostEstimator, "total_seconds", lambda fit, cells: 400.0)
    growing = GrowingGrid(parse_experiment(FILE), 4, budget=100.0, records=False)
    engine = SimpleNamespace(parallel_trainings=lambda: slots)
    assert len(growing.begin(engine)) == 4
    assert growing._fits(0, [4, 4]) == fits
