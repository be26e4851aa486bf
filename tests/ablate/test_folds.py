"""Folds of a cross-validation: which columns have them, and how much wider the intervals are than those of seeds."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_validate

import ablate
from ablate.verdicts import Verdicts
from contrastive.errors import UserError


def folds(repeats: int, folds: int, number: str = "seed") -> pd.DataFrame:
    rng = np.random.default_rng(8)
    lines = [(r, f, m, rng.normal(0.8, 0.01)) for r in range(repeats) for f in range(folds) for m in ("base", "new")]
    return pd.DataFrame(lines, columns=[number, "fold", "model", "acc"])


def single(count: int) -> pd.DataFrame:
    return folds(1, count).drop(columns="seed")


def half_width(found: Verdicts) -> float:
    (score,) = found.comparisons
    return score.comparison.half_width


def judge(frame: pd.DataFrame, **given: object) -> Verdicts:
    return ablate.judge(frame, baseline="base", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_folds_are_those_of_nadeau_and_bengio(paired):
    runs = single(5).rename(columns={"fold": "run"})
    ratio = half_width(judge(single(5), paired=paired)) / half_width(judge(runs, paired=paired))
    assert ratio == pytest.approx(math.sqrt(1 + 5 / 4))
    assert half_width(judge(folds(1, 5), paired=paired)) == half_width(judge(single(5), paired=paired))  # one seed
    assert any("5 folds of a cross-validation" in warning for warning in judge(single(5)).warnings)


def test_repeating_a_cross_validation_narrows_only_what_is_known_of_its_spread():
    found = judge(folds(4, 5))
    assert "paired by seed and fold" in found.columns and [c.seeds for c in found.comparisons] == [20]
    numbered = folds(4, 5).assign(seed=lambda frame: 5 * frame["seed"] + frame["fold"]).drop(columns="fold")
    ratio = half_width(found) / half_width(judge(numbered))
    assert ratio == pytest.approx(math.sqrt(20 * (1 / 5 + 1 / 4)))
    (comparison,) = found.comparisons
    assert comparison.verdict == "undecided" and comparison.comparison.needs is None
    assert "not paired: the column repeat" in judge(folds(4, 5, "repeat")).columns


def test_a_page_says_that_more_seeds_decide_nothing_between_folds(tmp_path):
    judge(folds(4, 5)).report(tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "| more examples |" in page and "more than 64 seeds" not in page
    assert "20 runs (folds)" in page and "deviation over folds" in page


def test_a_fold_that_a_row_lacks_is_told_and_one_that_is_there_twice_is_a_mistake():
    frame = folds(2, 5)
    found = judge(frame[~((frame["model"] == "new") & (frame["fold"] == 3) & (frame["seed"] == 1))])
    assert [c.seeds for c in found.comparisons] == [9]
    with pytest.raises(UserError, match="both are base, seed 0"):
        judge(pd.concat([frame, frame[:1]]))


def test_folds_may_have_a_seed_each():
    frame = folds(1, 5).assign(seed=lambda own: own["fold"])
    assert [c.seeds for c in judge(frame).comparisons] == [5]


def test_the_results_of_a_grid_search_are_paired_by_its_splits():
    texts, labels = load_breast_cancer(return_X_y=True)
    search = GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 1e6]}, cv=4, return_train_score=True).fit(texts, labels)
    found = ablate.judge(pd.DataFrame(search.cv_results_), baseline="0.1")
    assert "paired by fold" in found.columns and "test_score (higher is better)" in found.columns
    (comparison,) = found.comparisons
    means = search.cv_results_["mean_test_score"]
    assert comparison.comparison.difference == pytest.approx(means[1] - means[0])


@pytest.mark.parametrize(("name", "folds"), [("fold", 5), ("Fold #", 5), ("outer_fold", 5), ("split", 5)])
def test_more_folds_than_a_cross_validation_has_are_repeats_or_splits(name, folds):
    frame = single(50).rename(columns={"fold": name})
    found = judge(frame)
    assert found.results.study.folds == folds and f"The 50 values of {name} are taken for" in " ".join(found.warnings)
    assert judge(frame, seed=name).results.study.folds == folds
    assert judge(frame.assign(repeat=0)).results.study.folds == 50  # the folds of one, which users say so


@pytest.mark.parametrize(("run", "fold"), [("rep", "fold"), ("Key_Run", "Key_Fold"), ("trial_seed", "kfold")])
def test_runs_beside_folds_have_many_names(run, fold):
    found = judge(folds(4, 5).rename(columns={"seed": run, "fold": fold}))
    assert found.results.study.folds == 5 and [c.seeds for c in found.comparisons] == [20]
    assert found.results.study.paired == ("seed" in run)


def test_a_number_of_folds_is_no_fold():
    frame = folds(4, 2).rename(columns={"fold": "n_folds"}).replace({"n_folds": {0: 5, 1: 10}})
    assert ablate.judge(frame, baseline="n_folds=5 · base").results.study.folds == 0


def test_what_cross_validate_returns_has_its_folds_in_order():
    texts, labels = load_breast_cancer(return_X_y=True)
    parts = [
        pd.DataFrame(cross_validate(RidgeClassifier(alpha), texts, labels, cv=4)).assign(model=name)
        for name, alpha in (("base", 0.1), ("new", 1e6))
    ]
    found = judge(pd.concat(parts, ignore_index=True), score="test_score")
    assert found.results.study.folds == 4 and [c.seeds for c in found.comparisons] == [4]


@pytest.mark.parametrize("name", ["boot_id", "bootstrap", "bootstrap_seed", "resample"])
def test_resamples_are_not_runs(name):
    with pytest.raises(UserError, match=f"{name} numbers resamples of results.*name the column seed"):
        judge(single(50).rename(columns={"fold": name}))


def test_an_interval_by_bootstrap_and_the_time_of_a_fit_make_no_resamples_and_no_folds():
    frame = folds(5, 1).drop(columns="fold")
    assert judge(frame.assign(bootstrap_se=0.01 * frame["acc"], n_bootstrap=1000), score="acc").comparisons
    seeds = frame.rename(columns={"acc": "test_acc"}).assign(fit_time=frame["acc"])
    found = judge(seeds, score="test_acc")
    assert found.results.study.folds == 0 and "paired by seed" in found.columns
