"""Means over data sets: what counts once, what is drawn, and how often they err."""

import math

import numpy as np
import pytest
from scipy import stats

from reports.statistics import across
from reports.statistics.across import Setting, means_over_data, pool_residuals
from reports.statistics.decide import Measurements, residuals

THREE = [(1, 0), (2, 0), (3, 0)]


def setting(values: np.ndarray, data: str = "a", pairs: list[tuple[int, int]] = THREE, **more: np.ndarray) -> Setting:
    return Setting(data, Measurements(values, **more), pairs)


def random(k: int, rows: int = 4, seeds: int = 3, seed: int = 0) -> list[Setting]:
    generator = np.random.default_rng(seed)
    pairs = [(row, 0) for row in range(1, rows)]
    return [setting(generator.normal(size=(rows, seeds)), str(n), pairs) for n in range(k)]


def test_each_data_set_counts_once_however_many_settings_it_has():
    level, high, low = np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((4, 3))
    noise = np.random.default_rng(0).normal(size=(4, 3))
    noise -= noise.mean(1, keepdims=True)
    high[1:], low[1:] = 4.0, 2.0
    parts = [setting(level + noise, "a"), setting(high + noise, "b"), setting(low + noise, "b")]
    assert [mean.difference for mean in means_over_data(parts)] == pytest.approx([1.5] * 3)


def test_one_data_set_alike_in_all_rows_has_the_cutoff_of_students_t():
    """Two rows: the pooled variance is the pair's own, with seeds − 1 degrees of freedom."""
    values = np.random.default_rng(1).normal(size=(2, 6))
    (mean,) = means_over_data([setting(values, pairs=[(1, 0)])])
    each = values[1] - values[0]
    exact = stats.t.ppf(0.975, 5) * each.std(ddof=1) / math.sqrt(6)
    assert mean.half_width == pytest.approx(exact, rel=0.04)
    values[1] += 2
    (shifted,) = means_over_data([setting(values, pairs=[(1, 0)])])
    assert shifted.p == pytest.approx(stats.ttest_rel(values[1], values[0]).pvalue, rel=0.3)


def test_many_data_sets_alike_pool_their_degrees_of_freedom():
    (mean,) = means_over_data(random(20, rows=2, seeds=3, seed=3))
    variances = [np.var(each.measured.values[1] - each.measured.values[0], ddof=1) / 3 for each in random(20, 2, 3, 3)]
    exact = stats.t.ppf(0.975, 40) * math.sqrt(sum(variances)) / 20
    assert exact < mean.half_width < 1.15 * exact  # a little wider, as their variances are not known to be alike


def test_another_data_set_is_spoken_of_from_five_on_by_the_t_interval_of_their_differences():
    assert all(math.isnan(mean.general) for mean in means_over_data(random(4)))
    parts = random(6, rows=2)
    (mean,) = means_over_data(parts)
    each = [float((part.measured.values[1] - part.measured.values[0]).mean()) for part in parts]
    low, high = stats.t.interval(0.95, 5, np.mean(each), stats.sem(each))
    assert mean.general == pytest.approx((high - low) / 2)
    assert mean.prediction == pytest.approx(stats.t.ppf(0.975, 5) * np.std(each, ddof=1) * math.sqrt(1 + 1 / 6))
    (alike,) = means_over_data([setting(parts[0].measured.values, str(n), [(1, 0)]) for n in range(5)])
    assert math.isnan(alike.general) and math.isnan(alike.prediction)  # no spread says nothing
    shared = means_over_data(random(6, rows=4))[0].general / means_over_data(random(6, rows=4), 0.05 * 3)[0].general
    assert shared > 1.2  # rows share the level


def test_a_data_set_that_is_there_twice_says_as_much_as_once():
    (once,) = means_over_data(random(1, rows=2))
    values = random(1, rows=2)[0].measured.values
    twice = means_over_data([setting(values, "a", [(1, 0)]), setting(values + 0.0, "a", [(1, 0)])])[0]
    assert twice.half_width == pytest.approx(once.half_width) and twice.p == pytest.approx(once.p)


def test_seeds_that_agree_exactly_give_no_interval_of_width_zero():
    """Scores of 200 texts: two seeds that differ by the same text are no proof."""
    values = [np.array([[0.60, 0.62], [0.605, 0.625]]), np.array([[0.70, 0.71], [0.705, 0.715]])]
    alike = [Setting(name, Measurements(each, None, 200), [(1, 0)]) for name, each in zip("ab", values, strict=True)]
    (mean,) = means_over_data(alike)
    assert mean.half_width > 0.005 and mean.p > 0.05


def test_texts_that_two_settings_share_do_not_average_out():
    generator = np.random.default_rng(0)
    each = np.stack([np.broadcast_to(generator.random(100) < 0.5, (3, 100)) for _ in range(4)])
    noise = generator.random((4, 3, 100)) < 0.02
    each = each ^ noise
    values = each.mean(2)
    apart = [setting(values, name, per_text=each) for name in ("a", "b")]
    same = [setting(values, "a", per_text=each) for _ in range(2)]
    widths = [means_over_data(parts)[0].half_width for parts in (apart, same)]
    assert widths[1] > 1.2 * widths[0]


def test_rows_with_unlike_seeds_leave_the_residuals_that_one_setting_leaves():
    values = np.random.default_rng(2).normal(size=(4, 5))
    values[2:, 3:] = np.nan
    rest, freedom = pool_residuals(values[None], np.isfinite(values))
    expected, freedoms = residuals(values)
    np.testing.assert_allclose(rest[0], expected, atol=1e-12)
    assert freedom == pytest.approx(freedoms.sum())
    whole = np.random.default_rng(2).normal(size=(4, 5))
    np.testing.assert_allclose(pool_residuals(whole[None], np.isfinite(whole))[0][0], residuals(whole)[0], atol=1e-12)


def test_looks_at_added_seeds_widen_and_no_spread_is_no_test():
    parts = random(3)
    fixed, growing = (means_over_data(parts, most_seeds=most) for most in (None, 8))
    assert all(one.half_width < other.half_width for one, other in zip(fixed, growing, strict=True))
    flat = [setting(np.broadcast_to(np.arange(4.0)[:, None], (4, 3)), name) for name in "abc"]
    assert all(math.isnan(mean.half_width) and math.isnan(mean.p) for mean in means_over_data(flat))


CASES = [(3, 2, True), (3, 2, False), (5, 4, True), (5, 4, False), (3, "ragged", True), (3, "noisy row", True)]
STUDIES = 150


@pytest.mark.parametrize(("sets", "seeds", "alike"), CASES)
def test_studies_without_effects_err_at_most_as_often_as_they_say(monkeypatch, sets, seeds, alike):
    """Five per cent, and two and a half standard errors of so few studies; with two seeds, unlike spreads, more seeds
    of some rows, or a row that varies three times as much."""
    monkeypatch.setattr(across, "DRAWS", 6000)
    generator, wrong = np.random.default_rng(11), 0
    for _ in range(STUDIES):
        parts = []
        for number in range(sets):
            spread = 1.0 if alike else math.exp(0.8 * generator.normal())
            values = generator.normal(size=(4, 4 if isinstance(seeds, str) else seeds)) * spread
            if seeds == "ragged":
                values[2:, 2:] = np.nan
            if seeds == "noisy row":
                values[1] *= 3
            parts.append(setting(values + generator.normal(size=(1, values.shape[1])), str(number)))
        wrong += any(abs(mean.difference) > mean.half_width for mean in means_over_data(parts))
    assert wrong / STUDIES <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / STUDIES)
