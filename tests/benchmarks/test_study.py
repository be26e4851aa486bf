"""The page of the study: differences put together as by hand, coverage, and the committed page from its reports."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import fixed_design, study
from contrastive.grid.load import load_experiment
from tests.reports.made import content

ROOT = Path(__file__).parents[2]


def by_hand(differences, errors) -> tuple[float, float]:
    """Paule and Mandel by bisection; Hartung, Knapp, Sidik and Jonkman with a floor of 1."""

    def at(tau: float) -> tuple[list[float], float, float]:
        weights = [1 / (error**2 + tau) for error in errors]
        mean = sum(w * d for w, d in zip(weights, differences, strict=True)) / sum(weights)
        return weights, mean, sum(w * (d - mean) ** 2 for w, d in zip(weights, differences, strict=True))

    low, high, free = 0.0, 1.0, len(differences) - 1
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[2] > free else (low, middle)
    weights, mean, spread = at(high)
    scale = max(1.0, spread / free)
    return mean, stats.t.ppf(0.975, free) * (scale / sum(weights)) ** 0.5


@pytest.mark.parametrize("differences", [(0.02, 0.01, 0.015, 0.03), (0.05, -0.04, 0.0, 0.02), (0.01, 0.0101, 0.0099)])
def test_settings_are_put_together_as_by_hand(differences):
    errors = (0.004, 0.01, 0.006, 0.008)[: len(differences)]
    pooled = study.pool(np.array(differences), np.array(errors))
    assert (pooled.mean, pooled.half_width) == pytest.approx(by_hand(differences, errors), rel=2e-3)


def test_two_settings_have_no_interval():
    pooled = study.pool(np.array([0.02, 0.04]), np.array([0.004, 0.004]))
    assert pooled.mean == pytest.approx(0.03) and math.isnan(pooled.half_width) and pooled.verdict(0.01) == "open"


def test_an_interval_over_settings_covers_the_mean_of_all_settings():
    generator, covered = np.random.default_rng(0), 0
    for _ in range(600):
        errors = generator.uniform(0.003, 0.01, 4)
        pooled = study.pool(generator.normal(0.01, 0.01, 4) + errors * generator.standard_normal(4), errors)
        covered += abs(pooled.mean - 0.01) <= pooled.half_width
    assert covered / 600 > 0.93


@pytest.mark.parametrize(
    "mean, half, verdict",
    [(0.02, 0.01, "better"), (-0.02, 0.01, "worse"), (0.004, 0.005, "mean within 1 point"),
     (0.004, 0.007, "open"), (0.02, math.nan, "open")],
)  # fmt: skip
def test_verdicts_over_settings(mean, half, verdict):
    assert study.Pooled(mean, half, 0.0).verdict(0.01) == verdict


def test_an_open_mean_names_the_settings_that_would_decide_it():
    """Spread of 1 point: the interval of 6 settings is ± 2.571 / 6 ** 0.5 = 1.05 points, that of 5 ± 1.24."""
    half = 0.01 * stats.t.ppf(0.975, 2) / 3**0.5
    assert study.Pooled(0.011, half, 0.0).settings(3, 0.01) == 6
    assert study.Pooled(0.0, half, 0.0).settings(3, 0.01) == 7  # ± 0.92: no difference that matters
    assert study.Pooled(0.01, half, 0.0).settings(3, 0.0101) == 7  # ± 0.92 < 1
    assert study.Pooled(0.001, 0.5, 0.0).settings(3, 0.01) == study.MOST + 1
    assert study.Pooled(0.03, half, 0.0).settings(3, 0.01) is None  # better already


def test_the_cost_of_a_file_stands_beside_what_was_predicted(tmp_path):
    pd.DataFrame({"cell": ["a", "a", "b"], "seconds": [1800, 1800, 900]}).to_csv(tmp_path / "results.csv")
    (tmp_path / "README.md").write_text("*Predicted: 40 min for 2 cells; measured: 45 min; median 1.10)*\n")
    assert study.cost(tmp_path) == "2 | 0.8 | 40 min for 2 of them | 45 min | 1.10"
    (tmp_path / "README.md").write_text("")
    assert study.cost(tmp_path) == "2 | 0.8 | – | – | –"


def test_rows_of_all_settings_of_a_question_stand_together():
    experiment = load_experiment(ROOT / "configs/study/recipes.yaml").experiment
    titles = [section.title for section in experiment.sections][:3]
    lines = [
        {"section": title, "row": 1, "label": f"rdrop · encoder_lr=0.{number} · twice", "against": "ce",
         "value": "test.accuracy", "higher": True, "difference": 0.01 * number,
         "standard_error": 0.004, "difference_half_width": 0.01,
         "margin": 0.01, "verdict": "undecided", "common": 4}
        for number, title in zip((1, 2, 1.5), titles, strict=True)
    ]  # fmt: skip
    again = pd.Series({"difference": -0.003, "difference_half_width": 0.01, "verdict": "equivalent", "common": 6})
    fresh = {(titles[1], str(lines[1]["label"]), "test.accuracy"): again}
    asked, *others = study.questions(experiment, pd.DataFrame(lines), fresh)
    assert asked.title == "Do R-Drop and contrast help?" and "95.06" in asked.claim
    assert [(each.row, list(each.lines.setting)) for each in asked.answers] == [
        ("rdrop · twice", ["tweets, MiniLM", "definitions, MiniLM", "Chinese reviews, BERT from scratch"])
    ]
    assert asked.answers[0].pooled.mean == pytest.approx(0.015) and not any(each.answers for each in others)
    assert "+1.5 ± 1.2" in study.table(asked)
    assert "+2.0 ± 1.0 undecided (4); at fresh seeds −0.3 ± 1.0 equivalent (6)" in study.table(asked)
    assert asked.answers[0].size.endswith("(not at fresh seeds: definitions, MiniLM)")
    line = study.summary([asked]).splitlines()[2]
    assert line.startswith("| [Do R-Drop and contrast help?](#do-r-drop-and-contrast-help) | R-Drop 95.06, ")
    assert "is 0.14) | against ce: **better**: rdrop · twice +1.5 ± 1.2 (not at fresh seeds" in line


def test_what_all_settings_agree_on_is_said_with_its_range():
    lines = pd.DataFrame({"section": ["Q? (a)", "Q? (b)"], "label": "rdrop", "against": "ce", "higher": True,
        "difference": [0.02, 0.05], "standard_error": 0.004, "margin": 0.01, "verdict": "better",
        "again": None})  # fmt: skip
    answers = [study.answer("test.accuracy", lines, "test.accuracy")]
    assert study.in_words(answers) == "against ce: **better in both settings**: rdrop +2.0 to +5.0"
    others = [study.answer("test.accuracy", lines.assign(label=f"row {i}", verdict="worse"), "") for i in range(5)]
    assert study.in_words([*others, *answers]) == (
        "against ce: **better in both settings**: rdrop +2.0 to +5.0. "
        "**worse in both settings**: 5 of 6 rows, means +3.5 to +3.5"
    )


def test_a_verdict_names_the_settings_without_which_it_is_open():
    lines = pd.DataFrame({"setting": ["a", "b", "c", "d"], "label": "rdrop", "against": "ce", "higher": True,
        "standard_error": 0.004, "margin": 0.01, "verdict": ["better", "better", "undecided", "better"]})  # fmt: skip
    for differences, words in (
        ([0.02, 0.021, 0.019, 0.02], ""),
        ([0.013, 0.013, 0.001, 0.014], " (not without any one of 3 of the 4 settings)"),
        ([0.02, 0.02, 0.02, 0.005], " (not without any one of 2 of the 4 settings)"),
        ([0.03, -0.02, 0.0, 0.04], ""),  # open in any case
    ):
        found = study.answer("test.accuracy", lines.assign(difference=differences), "test.accuracy")
        assert found.fragile == words, (differences, found.verdict)


def test_names_of_options_are_words_on_the_page():
    assert study.readable("ce+supcon · encoder_lr=0.003 · frozen head") == "ce+supcon · frozen head"
    assert study.readable("encoder_lr=0.003 · frozen head") == "rate 0.003 · frozen head"
    assert study.readable("layer_decay=1") == "no decay" and study.readable("layer_decay=0.95") == "decay 0.95"
    assert study.readable("cluster · clusters=4") == "4 clusters" and study.readable("k=2 · α=0.5") == "K=2 · α=0.5"


def test_a_fixed_design_finds_what_is_there_and_corrects_by_holm():
    noise = np.array([0.001, -0.002, 0.0, 0.002, -0.001])
    lines = fixed_design.judged({"same": noise, "gain": noise + 0.02, "loss": noise - 0.01})
    assert [line["verdict"] for line in lines] == ["not significant", "better", "worse"]
    plain = [stats.ttest_1samp(noise + by, 0).pvalue for by in (0.02, -0.01)]
    assert [line["p"] for line in lines[1:]] == pytest.approx([3 * min(plain), 2 * max(plain)], abs=1e-5)


def test_a_fixed_design_stands_beside_the_verdicts_in_the_primary_score(tmp_path, monkeypatch):
    section = "Do R-Drop and contrast help? (tweets, MiniLM)"
    monkeypatch.setattr(fixed_design, "FILE", tmp_path / "fixed.json")
    assert study.beside_fixed() == "Not run yet."
    line = {"section": section, "label": "R-Drop", "difference_half_width": 0.03, "verdict": "undecided", "common": 4}
    lines = [
        line | {"value": "test.accuracy", "difference": 0.01},
        line | {"value": "test.macro_f1", "difference": 0.5},
    ]
    pd.DataFrame(lines).to_csv(tmp_path / "comparisons.csv")
    pd.DataFrame({"cell": ["a", "a", "b", "c"], "seconds": [1, 1, 2, None]}).to_csv(tmp_path / "results.csv")
    fixed = {"file": "recipes.yaml", "seeds": 5, "cells": 10, "seconds": 90, "processor": "p", "verdicts": [
        {"section": section, "row": "R-Drop", "difference": 0.02, "p": 0.01, "verdict": "better"}],
        "adaptive": {"seconds": 60} | fixed_design.of_report(tmp_path, "test.accuracy")}  # fmt: skip
    fixed_design.FILE.write_text(json.dumps(fixed))
    shown = study.beside_fixed()
    assert "2 minutes for 5 seeds of every row, 10 trainings" in shown and "1 minutes for the 2 trainings" in shown
    assert shown.endswith("| +2.0 better (p = 0.010) | +1.0 ± 3.0 undecided (4) |")


def test_verdicts_of_both_designs_are_counted():
    pairs = [("better", "better"), ("better", "worse"), ("worse", "undecided"), ("not significant", "worse"),
             ("not significant", "equivalent"), ("not significant", "undecided")]  # fmt: skip
    said = study.agreement(pairs)
    assert said.startswith("Of 6 comparisons, both call 2 better or worse, 1 of them in opposite directions;")
    assert "the fixed design alone 1, the adaptive run alone 1. The adaptive run calls 1 equivalent" in said


def test_verdicts_in_the_primary_score_are_drawn_and_stand_beside_those_of_fresh_seeds(tmp_path, monkeypatch):
    def report(name: str, *lines: dict[str, object]) -> None:
        (tmp_path / name).mkdir()
        pd.DataFrame(lines).to_csv(tmp_path / name / "comparisons.csv")

    line = {"section": "S (tweets, MiniLM)", "against": "ce", "value": "test.accuracy", "difference_half_width": 0.01,
            "common": 2}  # fmt: skip
    gain = line | {"label": "gain", "difference": 0.02, "verdict": "better"}
    other = gain | {"value": "test.macro_f1", "difference": 0.5}
    report("study-recipes", gain, other, line | {"label": "same", "difference": 0.001, "verdict": "undecided"})
    assert study.drawn_for_replication(tmp_path) == [("recipes.yaml", "S (tweets, MiniLM)", "gain")]
    assert study.replicated(tmp_path) == "Not run yet."
    report(study.REPLICATION, gain | {"difference": -0.003, "verdict": "equivalent"})
    named = load_experiment(study.STUDY / "recipes.yaml").experiment
    monkeypatch.setattr(study, "experiments", lambda: {
        study.STUDY / "recipes.yaml": named,
        study.STUDY / "replication.yaml": named.model_copy(update={"name": study.REPLICATION})})  # fmt: skip
    assert study.drawn_for_replication(tmp_path) == [("recipes.yaml", "S (tweets, MiniLM)", "gain")]
    shown = "| S (tweets, MiniLM) gain − ce | test.accuracy | +2.0 ± 1.0 better (2) | −0.3 ± 1.0 equivalent (2) |"
    assert study.replicated(tmp_path).splitlines()[2:] == [shown]


def test_the_committed_page_is_that_of_the_committed_reports(tmp_path):
    study.write(ROOT / "reports/output", tmp_path)
    committed = ROOT / "reports/output/study"
    assert content(tmp_path) == content(committed)
