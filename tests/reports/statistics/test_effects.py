"""Effects, and texts' part of a variance, against statsmodels and loops; summaries by hand."""

import itertools
import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.formula.api import ols

from reports.rows import summarise
from reports.statistics.decide import text_parts
from reports.statistics.effects import effects, interaction_of_texts
from tests.reports.statistics import by_hand
from tests.tiers import rest_is_full

FORMULA = "value ~ C(seed) + (C(k) + C(alpha) + C(view)) ** 2"


def grid(seeds: int = 3) -> pd.DataFrame:
    random = np.random.default_rng(0)
    levels_of = {"seed": range(seeds), "k": [30, 60, 90], "alpha": [0.2, 0.5], "view": ["one", "two"]}
    frame = pd.MultiIndex.from_product(levels_of.values(), names=levels_of).to_frame(index=False)
    value = frame["k"] / 300 + (frame["view"] == "two") * frame["alpha"] + random.normal(size=len(frame))
    return frame.assign(value=value)


def table_of(frame: pd.DataFrame, factors: list[str], **how: float) -> pd.DataFrame:
    """Return the effects on `value` by name."""
    found = effects(frame, factors, "value", **how)
    return pd.DataFrame(map(vars, found), index=[" × ".join(each.factors) for each in found])


def tukey_and_kramer(frame: pd.DataFrame, factor: str, others: list[str], levels_of: list) -> float:
    """The smallest p of two levels, their means balanced over the other axes, with the noise that all terms leave."""
    whole = ols(FORMULA, frame).fit()
    fit = ols(f"value ~ 0 + C({factor}) + C(seed) + {' + '.join(f'C({name})' for name in others)}", frame).fit()
    sizes = []
    for first, other in combinations(levels_of, 2):
        contrast = fit.t_test(f"C({factor})[{first}] - C({factor})[{other}] = 0")
        error = float(contrast.sd.item()) * np.sqrt(whole.mse_resid / fit.mse_resid)
        sizes.append(abs(float(contrast.effect.item())) / error)
    return float(stats.studentized_range.sf(np.sqrt(2) * max(sizes), len(levels_of), whole.df_resid))


@pytest.mark.parametrize("dropped", [0, 7])
def test_sizes_of_effects_are_those_of_statsmodels_and_an_axis_counts_where_levels_differ(dropped: int):
    """By Tukey and Kramer."""
    frame = grid().sample(frac=1, random_state=0).iloc[dropped:]
    table = table_of(frame, ["k", "alpha", "view"])
    theirs = sm.stats.anova_lm(ols(FORMULA, frame).fit(), typ=2)
    total = ((frame["value"] - frame["value"].mean()) ** 2).sum()
    names = {"C(k)": "k", "C(k):C(alpha)": "k × alpha", "C(alpha):C(view)": "alpha × view", "C(view)": "view"}
    for name, ours in names.items():
        assert table.loc[ours, ["df", "f"]].tolist() == pytest.approx(theirs.loc[name, ["df", "F"]].tolist())
        assert table.loc[ours, "share"] == pytest.approx(theirs.loc[name, "sum_sq"] / total)
    for name in ("C(k):C(alpha)", "C(alpha):C(view)"):
        assert table.loc[names[name], "p"] == pytest.approx(min(1, 6 * theirs.loc[name, "PR(>F)"]))
    assert len(table) == 6
    for shift in (0.0, 1.0, 2.0):
        moved = frame.assign(value=frame["value"] + shift * (frame["k"] == 60))
        table = table_of(moved, ["k", "alpha", "view"])
        levels_of = {"k": [30, 60, 90], "alpha": [0.2, 0.5], "view": ["one", "two"]}
        for factor, values in levels_of.items():
            others = [name for name in levels_of if name != factor]
            exact = 6 * tukey_and_kramer(moved, factor, others, values)
            assert table.loc[factor, "p"] == pytest.approx(min(1, exact), rel=1e-4, abs=1e-9)


def test_no_effect_where_all_levels_are_equal():
    frame = grid()
    signs = np.where((frame["k"] // 30 + frame["seed"]) % 2 == 0, 1.0, -1.0)  # that no mean of levels shows
    frame["value"] = signs * np.where(frame["view"] == "one", 1, -1) * np.where(frame["alpha"] == 0.2, 1, -1)
    table = table_of(frame, ["k", "alpha", "view"])
    assert table.loc[["alpha", "view"], "p"].tolist() == [1, 1]


@pytest.mark.parametrize("grids", rest_is_full([50, 150], [50]))
def test_where_no_axis_matters_one_grid_of_twenty_shows_one(grids: int):
    random, wrong = np.random.default_rng(0), []
    for _ in range(grids):
        frame = grid(2).query("view == 'one'")
        frame = frame.assign(value=random.normal(size=len(frame)) + random.normal(size=2)[frame["seed"]])
        wrong.append((table_of(frame, ["k", "alpha"])["p"] <= 0.05).any())
    assert np.mean(wrong) <= 0.05 + 2 * np.sqrt(0.05 / grids)


def scores_of_texts(rows: int, seeds: int, texts: int, start: int = 0) -> np.ndarray:
    random = np.random.default_rng(start)
    return random.normal(size=(rows, seeds, texts)) + random.normal(size=(rows, 1, texts))


def test_what_texts_add_is_the_mean_square_of_rows_by_texts():
    """By the analysis of variance of rows × seeds × texts, all interactions of two."""
    each = scores_of_texts(3, 3, 8)
    index = pd.MultiIndex.from_product([range(3), range(3), range(8)], names=["row", "seed", "text"])
    frame = index.to_frame(index=False).assign(value=each.ravel())
    table = sm.stats.anova_lm(ols("value ~ (C(row) + C(seed) + C(text)) ** 2", frame).fit())
    squares = table["sum_sq"] / table["df"]
    exact = max(0.0, squares["C(row):C(text)"] - squares["Residual"]) / 8
    assert interaction_of_texts(each) == pytest.approx(exact) and exact > 0
    # it makes effects smaller
    without, with_it = (table_of(grid(), ["k", "view"], from_texts=part) for part in (0.0, 1.0))
    assert (with_it["f"] < without["f"]).all() and (with_it["p"] >= without["p"]).all()


def test_what_a_seed_does_to_a_text_of_all_rows_is_no_part_of_it_and_one_text_or_row_adds_nothing():
    """With it the part of texts became 0, and half of the grids without any effect showed one (sd 2 beside 1)."""
    each = scores_of_texts(4, 3, 60)
    moved = each + 5 * np.random.default_rng(1).normal(size=(1, 3, 60))
    assert interaction_of_texts(moved) == pytest.approx(interaction_of_texts(each))
    assert interaction_of_texts(scores_of_texts(4, 3, 1)) == interaction_of_texts(scores_of_texts(1, 3, 9)) == 0


def test_levels_that_only_another_axis_tells_apart_are_not_compared():
    """k 90 has a view of its own: the large effect of the view is none of k, whose 30 and 60 are equal."""
    frame = grid()
    frame["view"] = np.where(frame["k"] == 90, "two", "one")
    frame["value"] = np.random.default_rng(1).normal(size=len(frame)) + 10 * (frame["view"] == "two")
    table = table_of(frame, ["k", "view", "alpha"])
    assert table.loc["k", "df"] == 1 and table.loc["k", "p"] > 0.05 and np.isnan(table.loc["view", "p"])


def test_a_missing_value_and_an_axis_of_one_value_are_left_out():
    frame = grid().assign(loss="ce")
    frame.loc[3, "value"] = np.nan
    (effect,) = effects(frame, ["k", "loss"], "value")
    theirs = sm.stats.anova_lm(ols("value ~ C(seed) + C(k)", frame.dropna()).fit(), typ=2)
    assert effect.factors == ("k",) and effect.f == pytest.approx(theirs.loc["C(k)", "F"])
    # an axis that follows from another is not told from it
    frame = grid()
    table = table_of(frame.assign(twin=frame["k"] * 2), ["k", "twin"])
    assert table["df"].tolist() == [0, 0, 0] and table[["f", "p"]].isna().all(axis=None)


def test_without_a_residual_or_an_axis_there_are_no_effects():
    for frame in (
        grid().query("seed == 0 and view == 'one'"),
        grid().assign(value=1.0),
        grid().query("k == 30 and alpha == .2 and view == 'one'"),
        grid().iloc[:0],
    ):
        assert effects(frame, ["k", "alpha", "view"], "value") == []


def texts(rows: int, seeds: int, count: int, start: int = 0) -> np.ndarray:
    """Right or wrong: recipes differ by text, and seeds by recipe."""
    random = np.random.default_rng(start)
    latent = 1 + random.normal(size=(rows, seeds, count)) + random.normal(size=(rows, 1, count))
    return latent + 0.3 * random.normal(size=(rows, seeds, 1)) > 0


def test_what_texts_make_of_the_variance_is_what_loops_say_and_right_on_average():
    for seeds, start in itertools.product((2, 3, 5), range(5)):
        each = texts(2, seeds, 40, start)
        assert text_parts(each)[0] == pytest.approx(by_hand.text_variance(*each), abs=1e-15)
    random = np.random.default_rng(0)
    each = 2 * random.normal(size=(500, 2, 3, 40)) + random.normal(size=(500, 2, 1, 40))
    assert np.mean([text_parts(study)[0] for study in each]) == pytest.approx(2 / 40, rel=0.06)
    # one text, and texts that make no difference
    assert text_parts(texts(2, 3, 1))[0] == text_parts(texts(1, 3, 40).repeat(2, axis=0))[0] == 0


def test_the_deviation_is_that_of_a_sample_one_seed_has_none_and_no_value_no_summary():
    assert summarise(np.array([0.1, math.nan, 0.2, 0.3])) == pytest.approx((3, 0.2, 0.1))
    assert summarise(np.array([0.1, 0.1, 0.1]))[2] == 0  # numpy's is 1.7e-17
    assert summarise(np.array([0.5, math.nan])) == pytest.approx((1, 0.5, math.nan), nan_ok=True)
    assert summarise(np.array([math.nan])) == pytest.approx((0, math.nan, math.nan), nan_ok=True)
