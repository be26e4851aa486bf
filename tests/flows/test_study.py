"""A study that adds seeds within a budget, and what would decide a comparison: seeds, or test texts."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from contrastive.config.experiment import Speed
from contrastive.grid.estimate import CostEstimator
from contrastive.grid.load import parse_experiment
from contrastive.grid.plan import make_plan
from contrastive.runs.recorded import DataCounts
from flows.study import Study, more_texts
from reports.compare import Comparison
from reports.rows import rows_of
from reports.statistics.power import Needed
from tests.reports.made import made, put

FILE = """\
name: texts
data: {source: "file:d.csv", test: 100, DIVIDED}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 8, heads: 2, vocabulary: 64}}
seeds: [0, 1]
sections: [{title: T, axes: {epochs: [1, 2]}}]
"""
DROPPED = {"repeated": 10, "contradicting": 0, "held_out": 0, "partner_held_out": 0}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(900)))


@pytest.mark.parametrize(
    ("divided", "count", "said"),
    [
        ("train: 200, validation: 90", 591, "591 validation texts (the data has only 590 texts left)"),
        ("train: 200, validation: 90", 590, "590 validation texts (set data.validation; every cell is then"),
        ("train: 200", 690, "690 test texts (`evaluation: {test: 690}`)"),
        ("train: 200", 700, "700 test texts (the data has only 690 texts left)"),
        ("train: 200, validation: 90", 690, "690 test texts (the data has only 600 texts left)"),
        ("train: 200, resample: true", 300, "300 test texts (with data.resample, every text"),
        ("validation: 9", 300, "300 test texts (data.train is left out"),
    ],
)
def test_test_texts_are_offered_where_there_are_any(divided: str, count: int, said: str):
    score = "validation.accuracy" if "validation texts" in said else "test.accuracy"
    plan = make_plan(parse_experiment(FILE.replace("DIVIDED", divided)))
    part, results = made({"ce": {"test.accuracy": [0.5, 0.6]}})
    put(results.study, data=[DataCounts("", False, {"source": {"rows": 900, **DROPPED}}, {}, {})])
    cell = plan.resolved.cells[0]
    (row,) = rows_of(part, ["test.accuracy"], results)
    open_one = Comparison(row, 2, 0.1, False, "undecided", needs=Needed(None, count))
    fit = CostEstimator(plan.experiment.evaluation, Speed())
    ((_, text),) = more_texts(score, open_one, [cell], plan, results, fit)
    assert text.startswith(said)
    assert not list(more_texts(score, replace(open_one, needs=Needed(9, None)), [cell], plan, results, fit))


@pytest.mark.parametrize(("slots", "fits"), [(8, True), (2, False)])
def test_the_budget_counts_the_slots_of_the_engine(slots, fits, monkeypatch):
    monkeypatch.setattr(CostEstimator, "total_seconds", lambda fit, cells: 400.0)
    study = Study(parse_experiment(FILE.replace("DIVIDED", "train: 64")), 4, budget=100.0, records=False)
    engine = SimpleNamespace(parallel_trainings=lambda: slots)
    assert len(study.begin(engine)) == 4
    assert study._fits(0, [4, 4]) == fits
