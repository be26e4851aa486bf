"""How often test and interval err, without drawing: over the whole distribution of an estimated variance."""

import numpy as np
import pytest
from reports.statistics.spread import Spread, half_width, reach, significance
from scipy import stats

SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 1.0)
LIKELY = (np.arange(2000) + 0.5) / 2000


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("level", [0.05, 0.005, 0.0005])
def test_the_test_never_errs_more_often_than_its_level(seeds, level):
    for share in SHARES:
        estimated = share * stats.chi2.ppf(LIKELY, seeds - 1) / (seeds - 1)
        error = 2 * stats.norm.sf(reach(level, estimated, seeds - 1, np.array(1 - share), np.inf)).mean()
        assert error <= level * 1.02, share  # 2 %: the steps


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_interval_covers_93_to_97_percent(seeds):
    for share in SHARES:
        estimated = share * stats.chi2.ppf(LIKELY, seeds - 1) / (seeds - 1)
        widths = np.array([half_width(Spread(part, seeds - 1, 1 - share)) for part in estimated])
        assert 0.93 < 1 - 2 * stats.norm.sf(widths).mean() < 0.97, share


def test_the_p_is_the_level_that_is_just_reached():
    parts = np.array([1.0, 0.0, 0.3]), 2, np.array([0.0, 1.0, 0.7]), 50
    for level in (0.9, 0.05, 1e-9, 1e-40):
        assert significance(reach(level, *parts), *parts) == pytest.approx(level, rel=1e-5)
    assert np.isnan(significance(np.array([1.0]), np.zeros(1), 2, np.zeros(1), 50)).all()
