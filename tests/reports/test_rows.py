"""Rows of further vectors: compared within the same cells, and one where nothing that trains reaches them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrastive.runs.recorded import RecordedSection
from reports.build import write_report
from reports.claims import contradictions
from reports.compare import compare
from reports.findings import same_note
from reports.load import Results
from reports.section_effects import explained, level_means
from tests.reports.made import made, put
from tests.tiers import rest_is_full

NAME, SEEDS = "test.svm_accuracy", 5


def measured() -> tuple[RecordedSection, Results]:
    """Whitened vectors are worse than those that trained, by little, at each seed; layer 1 lies below what trains."""
    random = np.random.default_rng(2)
    values = {}
    for label, mean in (("ce", 0.6), ("new", 0.62), ("other", 0.61)):
        plain = mean + 0.02 * random.normal(size=SEEDS)
        whitened = plain - 0.03 + 0.001 * random.normal(size=SEEDS)
        below = [0.5] * SEEDS
        values[label] = {NAME: list(plain), f"whiten:2/{NAME}": list(whitened), f"layer:1:mean/{NAME}": below}
    part, results = made(values)
    put(part.show.table, values=(NAME,))
    measured_by(results, vectors=("layer:1:mean",), post=("whiten:2",))
    return part, results


def measured_by(results: Results, **settings: Any) -> None:
    experiment = results.grid.experiment
    put(experiment, evaluation=experiment.evaluation.model_copy(update=settings))


def test_further_vectors_are_compared_with_those_that_trained_the_same_cells():
    frame = compare(*measured()).frame.set_index("label")
    assert frame.loc["new · whiten:2", ["against", "verdict"]].tolist() == ["new", "worse"]
    assert frame.loc["ce · whiten:2", "verdict"] == "worse" and frame.loc["new", "verdict"] == "undecided"
    assert frame.loc["new · whiten:2", "difference_half_width"] < frame.loc["new", "difference_half_width"] / 3
    assert not frame.loc[[label for label in frame.index if "whiten" in label], "bold"].any()


def test_which_vectors_are_measured_is_an_axis_that_explains(tmp_path: Path):
    part, results = measured()
    compared = compare(part, results)
    frame = explained(part, compared, results)[NAME]
    assert frame["effect"].tolist() == ["embedding"] and frame["p"].item() < 1e-6
    means = level_means(part, {NAME: frame}, compared, results)[NAME].set_index("level")["mean"]
    plain = results.scores[NAME].mean()
    assert means.to_dict() == {
        "as trained": pytest.approx(plain),
        "layer:1:mean": pytest.approx(0.5),
        "whiten:2": pytest.approx(plain - 0.03, abs=0.002),
    }
    write_report(results, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "embedding explains" in text and contradictions(tmp_path) == []
    (tmp_path / "README.md").write_text(text.replace("embedding explains", "loss explains"))
    assert contradictions(tmp_path)


@pytest.mark.parametrize("draws", rest_is_full([60, 200], [60]))
def test_vectors_that_differ_by_chance_explain_nothing(draws: int):
    """What a seed does to a kind of vectors it does in all configurations, and nothing else is left to see."""
    random, wrong, compared = np.random.default_rng(4), 0, None
    for _ in range(draws):
        of_kind = {kind: 0.02 * random.normal(size=3) for kind in ("", "whiten:2/", "cls/")}
        plain = {label: 0.6 + 0.02 * random.normal(size=3) for label in ("ce", "new", "other")}
        values = {label: {f"{kind}{NAME}": list(plain[label] + of_kind[kind]) for kind in of_kind} for label in plain}
        part, results = made(values)
        put(part.show.table, values=(NAME,))
        measured_by(results, vectors=("cls",), post=("whiten:2",))
        compared = compared or compare(part, results)  # which values are tested, and no number
        wrong += (explained(part, compared, results)[NAME]["p"] <= 0.05).any()
    assert 1 <= wrong <= draws * (0.05 + 3.2 * (0.05 / draws) ** 0.5)  # standard errors


def test_vectors_that_nothing_trained_reaches_are_one_row_and_the_report_says_why(tmp_path: Path):
    part, results = measured()
    compared = compare(part, results)
    labels = compared.frame["label"].tolist()
    assert [label for label in labels if "layer:1:mean" in label] == ["any of them · layer:1:mean"]
    assert "layer:1:mean" in same_note(compared)[0].en
    write_report(results, tmp_path)
    assert contradictions(tmp_path) == []
    results.scores.loc["new-3", f"layer:1:mean/{NAME}"] = 0.51
    other = compare(part, replace(results, scores=results.scores.copy()))
    assert len([label for label in other.frame["label"] if "layer:1:mean" in label]) == 3
