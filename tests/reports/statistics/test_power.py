import itertools

import numpy as np
import pytest
from scipy import stats

from reports.statistics import Difference, Spread, detectable, pooled, power, smallest_p
from reports.statistics.power import pooled_ratios


@pytest.mark.parametrize("freedom", [1, 2, 4, 30])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 20])
def test_power_is_the_noncentral_ts(freedom, alpha):
    critical = stats.t.isf(alpha / 2, freedom)
    for difference in (0.0, 0.5, 2.0):
        wanted = stats.nct.sf(critical, freedom, difference / 0.5) + stats.nct.cdf(-critical, freedom, difference / 0.5)
        assert power(difference, Spread(0.25, freedom), alpha) == pytest.approx(wanted, abs=3e-3)
        assert power(-difference, Spread(0.25, freedom), alpha) == power(difference, Spread(0.25, freedom), alpha)


def test_of_texts_alone_it_is_the_normal_tests():
    assert power(0.3, Spread(0.0, 2, 0.01), 0.05) == pytest.approx(stats.norm.sf(1.959964 - 3), abs=1e-5)


def test_detectable_is_what_is_found_as_often_as_wanted():
    for spread in (Spread(1e-6, 1), Spread(1.0, 4, 2.0, 99), Spread(0.01, 2, comparisons=5)):
        for alpha in (0.05, 0.05 / 60):
            assert power(detectable(spread, alpha), spread, alpha) == pytest.approx(0.8)
    assert detectable(Spread(1.0, 4), 0.05, 0.9) > detectable(Spread(1.0, 4), 0.05)


def test_an_uncertain_spread_needs_a_greater_difference():
    asked = [detectable(Spread(1.0, 2, comparisons=count), 0.05) for count in (1, 3, 100, 0)]
    assert asked == sorted(asked, reverse=True) and asked[2] > 1.05 * asked[3]


def test_pooled_is_the_mean_of_the_variances_of_comparisons_that_share_a_row():
    def difference(spread: Spread | None) -> Difference:
        return Difference(0.0, spread, None, None, 3, False)

    found = pooled([difference(Spread(1.0, 2, 0.5, 99)), difference(None), difference(Spread(3.0, 2, 0.1, 99))])
    assert found == Spread(2.0, 2, 0.3, 99, comparisons=2)
    assert pooled([difference(None)]) is None


@pytest.mark.parametrize("comparisons", [1, 2, 5])
def test_pooled_variances_vary_as_those_of_rows_that_are_drawn(comparisons):
    values = np.random.default_rng(0).normal(size=(40_000, comparisons + 1, 3))
    ratio = (values[:, 1:] - values[:, :1]).var(2, ddof=1).mean(1) / 2
    quantiles = (np.arange(40) + 0.5) / 40
    assert pooled_ratios(2, comparisons) == pytest.approx(np.quantile(ratio, quantiles), rel=0.06, abs=0.002)


@pytest.mark.parametrize("seeds", [1, 2, 3, 6])
def test_the_smallest_p_is_that_of_turning_all_signs(seeds):
    size = np.arange(1, seeds + 1)
    turned = [abs(np.dot(signs, size)) for signs in itertools.product((-1, 1), repeat=seeds)]
    assert smallest_p(seeds) == np.mean([found >= size.sum() for found in turned])
