"""The guard sees a row that varies otherwise than the rest, and seldom one that does not."""

import sys

import numpy as np
import pytest
from scipy import stats

from reports.statistics import Measurements, decide
from reports.statistics.unequal import LEAVE_OUT, SUSPECT, unequal_rows
from tests.reports.statistics.by_hand import star
from tests.tiers import rest_is_full


def studies(count: int, rows: int, seeds: int) -> np.ndarray:
    return np.random.default_rng(rows * seeds).standard_normal((count, rows, seeds))


@pytest.mark.parametrize(
    ("rows", "seeds", "count"), rest_is_full([(6, 3, 1300), (3, 2, 4000), (6, 3, 4000), (6, 6, 4000)], [(6, 3, 1300)])
)
def test_equal_rows_are_suspected_in_two_studies_of_a_hundred(rows: int, seeds: int, count: int):
    suspected = np.mean([bool(unequal_rows(values)) for values in studies(count, rows, seeds)])
    assert suspected == pytest.approx(SUSPECT, abs=4 * np.sqrt(SUSPECT / count))


@pytest.mark.parametrize("noisy", [0, 3])
def test_a_row_that_varies_five_times_as_much_is_seen_at_six_seeds(noisy: int):
    seen = []
    for values in studies(200, 6, 6):
        values[noisy] *= 5
        seen.append(unequal_rows(values)[:1] == [noisy])
    assert np.mean(seen) > 0.9


def test_two_of_them_are_seen_together():
    seen = []
    for values in studies(200, 8, 10):
        values[[2, 5]] *= 6
        seen.append({2, 5} <= set(unequal_rows(values)))
    assert np.mean(seen) > 0.9


def test_of_two_rows_nobody_can_tell_which_varies_more():
    values = studies(1, 2, 10)[0]
    values[0] *= 1000
    assert unequal_rows(values) == []


def test_rows_without_spread_and_seeds_without_all_rows_are_no_reason():
    assert unequal_rows(np.tile(np.arange(4.0), (5, 1))) == []
    values = studies(1, 4, 3)[0]
    values[0, 1:] = np.nan
    assert unequal_rows(values) == []


def test_its_pairs_are_tested_by_their_own_variance_and_the_others_by_the_pool_without_it():
    values = studies(1, 6, 8)[0]
    values[2] *= 50
    lines = decide(Measurements(values), star(6))
    assert [line.unequal for line in lines] == [False, True, False, False, False]
    exact = stats.ttest_rel(values[2], values[0])
    assert lines[1].from_seeds == pytest.approx((values[2] - values[0]).var(ddof=1) / 8)
    assert lines[1].p == pytest.approx(min(1, 5 * exact.pvalue), rel=0.02)
    without = decide(Measurements(values[[0, 1, 3, 4, 5]]), star(5))
    assert lines[0].from_seeds == pytest.approx(without[0].from_seeds)
    assert without[0].half_width < lines[0].half_width < 1.3 * without[0].half_width


def test_a_suspicion_alone_makes_no_interval_shorter(monkeypatch: pytest.MonkeyPatch):
    """Where it did, two of three studies with a false suspicion erred (three rows, two seeds)."""
    drawn = studies(4000, 3, 2)
    suspected = [values for values in drawn if unequal_rows(values) and not unequal_rows(values, LEAVE_OUT)]
    with_guard = [[line.half_width for line in decide(Measurements(values), star(3))] for values in suspected]
    monkeypatch.setattr(sys.modules["reports.statistics.decide"], "unequal_rows", lambda *_: [])
    without = [[line.half_width for line in decide(Measurements(values), star(3))] for values in suspected]
    assert len(suspected) > 30 and (np.array(with_guard) >= np.array(without)).all()
    assert (np.array(with_guard) > np.array(without)).any()
