"""A study that adds seeds: whether a section with more seeds fits in the budget depends on where its cells run."""

from types import SimpleNamespace

import pytest

from contrastive.grid.estimate import CostEstimator
from contrastive.grid.load import parse_experiment
from flows.study import Study

FILE = """\
name: texts
data: {source: "file:d.csv", train: 64, test: 100}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 8, heads: 2, vocabulary: 64}}
seeds: [0, 1]
sections: [{title: T, axes: {epochs: [1, 2]}}]
"""


@pytest.mark.parametrize(("slots", "on_gpu", "fits"), [(8, True, True), (2, True, False), (8, False, False)])
def test_the_budget_counts_the_slots_and_devices_of_the_engine(slots, on_gpu, fits, tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(300)))
    monkeypatch.setattr(CostEstimator, "total_seconds", lambda fit, cells: 400.0 if fit.on_gpu else 4000.0)
    study = Study(parse_experiment(FILE), 4, budget=100.0, records=False)
    engine = SimpleNamespace(parallel_trainings=lambda: slots, on_gpu=on_gpu)
    assert len(study.begin(engine)) == 4
    assert study._fits(0, [4, 4]) == fits
