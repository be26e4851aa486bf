"""Type II against statsmodels, with cells missing; levels against the parameters of a sum-to-zero model."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.formula.api import ols

from reports.statistics import effects, holm, levels

FORMULA = "value ~ C(seed) + (C(k) + C(alpha) + C(view)) ** 2"


def grid(seeds: int = 3) -> pd.DataFrame:
    random = np.random.default_rng(0)
    index = pd.MultiIndex.from_product(
        [range(seeds), [30, 60, 90], [0.2, 0.5], ["one", "two"]], names=["seed", "k", "alpha", "view"]
    )
    frame = index.to_frame(index=False)
    return frame.assign(
        value=frame["k"] / 300 + (frame["view"] == "two") * frame["alpha"] + random.normal(size=len(frame))
    )


@pytest.mark.parametrize("dropped", [0, 7])
def test_effects_are_those_of_statsmodels(dropped):
    frame = grid().sample(frac=1, random_state=0).iloc[dropped:]
    found = effects(frame, ["k", "alpha", "view"], "value").set_index("effect")
    wanted = sm.stats.anova_lm(ols(FORMULA, frame).fit(), typ=2)
    names = {"C(k)": "k", "C(k):C(alpha)": "k × alpha", "C(alpha):C(view)": "alpha × view", "C(view)": "view"}
    for theirs, ours in names.items():
        assert found.loc[ours, ["df", "F", "p"]].tolist() == pytest.approx(
            wanted.loc[theirs, ["df", "F", "PR(>F)"]].tolist()
        )
        total = ((frame["value"] - frame["value"].mean()) ** 2).sum()
        assert found.loc[ours, "share"] == pytest.approx(wanted.loc[theirs, "sum_sq"] / total)
    assert len(found) == 6 and found["p_holm"].to_numpy() == pytest.approx(holm(found["p"].to_numpy()))


def test_a_missing_value_and_an_axis_of_one_value_are_left_out():
    frame = grid().assign(loss="ce")
    frame.loc[3, "value"] = np.nan
    found = effects(frame, ["k", "loss"], "value")
    assert found["effect"].tolist() == ["k"]
    wanted = sm.stats.anova_lm(ols("value ~ C(seed) + C(k)", frame.dropna()).fit(), typ=2)
    assert found["F"][0] == pytest.approx(wanted.loc["C(k)", "F"])


def test_an_axis_that_follows_from_another_is_not_told_from_it():
    frame = grid()
    found = effects(frame.assign(twin=frame["k"] * 2), ["k", "twin"], "value").set_index("effect")
    assert found["df"].tolist() == [0, 0, 0] and found[["F", "p", "p_holm"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (grid().query("seed == 0 and view == 'one'"), "none is left"),
        (grid().assign(value=1.0), "none is left"),
        (grid().query("k == 30 and alpha == .2 and view == 'one'"), "no axis"),
        (grid().iloc[:0], "no axis"),
    ],
)
def test_without_a_residual_there_is_a_reason_in_the_place_of_effects(frame, reason):
    found = effects(frame, ["k", "alpha", "view"], "value")
    assert found.empty and reason in found.attrs["reason"].en and "p_holm" in found.columns


def test_levels_deviate_as_in_a_sum_to_zero_model():
    frame = grid()
    found = levels(frame, ["k", "alpha", "view"], "k", "value").set_index("level")
    fit = ols(FORMULA.replace(")", ", Sum)", 4).replace(", Sum) ** 2", ") ** 2"), frame).fit()
    interval = fit.conf_int().loc["C(k, Sum)[S.30]"]
    assert found.loc["30", "half_width"] == pytest.approx((interval[1] - interval[0]) / 2)
    assert found["mean"].tolist() == pytest.approx(frame.groupby("k")["value"].mean().tolist())
    assert found["n"].tolist() == [12, 12, 12]


def test_levels_are_balanced_over_the_other_axes():
    frame = grid()
    frame["value"] = (frame["k"] == 30) + 10.0 * (frame["view"] == "two")
    found = levels(frame.query("k != 30 or view == 'one'"), ["k", "view"], "k", "value")
    assert found["mean"].diff().tolist()[1:] == pytest.approx([-1, 0]) and found["n"].tolist() == [6, 12, 12]


def test_levels_without_a_residual_have_no_interval():
    found = levels(grid().query("seed == 0 and view == 'one'"), ["k", "alpha"], "k", "value")
    assert found["half_width"].isna().all() and found["mean"].notna().all()
