"""A grid that adds seeds within a budget."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("budget", "adds"), [(None, True), (100.0, True), (0.0, False)])
def test_after_the_budget_no_seeds_are_added_that_have_to_run(budget: float | None, adds: bool):
    growing = GrowingGrid(parse_experiment(FILE), 4, budget, records=False)
    assert len(growing.next_cells()) == 4
    assert growing._may_add(0, [4, 4]) == adds and growing._may_add(0, [2, 2])
