"""Differences against loops over seeds and texts, scipy and statsmodels; and where two seeds agree by luck."""

import math
import time
import warnings

import numpy as np
import pytest
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels

from reports.statistics import Difference, all_pairs, improvement, mcnemar, paired


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def texts(rows: int, seeds: int, count: int, start: int = 0) -> np.ndarray:
    """Right or wrong: recipes differ by text, and seeds by recipe."""
    random = np.random.default_rng(start)
    latent = 1 + random.normal(size=(rows, seeds, count)) + random.normal(size=(rows, 1, count))
    return latent + 0.3 * random.normal(size=(rows, seeds, 1)) > 0


def by_loops(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """The parts of the variance of the mean difference, as METHODS of crossed seeds and texts have them."""
    difference = ours.astype(float) - theirs
    seeds, count = difference.shape
    mean, by_seed, by_text = difference.mean(), difference.mean(1), difference.mean(0)
    rest = sum((difference[s, t] - by_seed[s] - by_text[t] + mean) ** 2 for s in range(seeds) for t in range(count)) / (
        (seeds - 1) * (count - 1)
    )
    from_seeds = sum((value - mean) ** 2 for value in by_seed) / (seeds - 1) / seeds
    from_texts = sum((value - mean) ** 2 for value in by_text) / (count - 1) / count
    from_seeds = max(from_seeds, (1 / seeds / count) ** 2)  # one text at one seed
    return from_seeds, max(0.0, from_texts - rest / (count * seeds))


def p_by_search(difference: float, from_seeds: float, from_texts: float, freedom: int, texts_freedom: int) -> float:
    def too_much(level: float) -> float:
        most, least = stats.t.isf(level / 2, [freedom, texts_freedom])
        return difference**2 - most**2 * from_seeds - least**2 * from_texts

    return optimize.brentq(too_much, 1e-12, 1)


def test_without_texts_it_is_the_paired_t_test():
    random = np.random.default_rng(0)
    for seeds in (2, 3, 8):
        ours, theirs = random.normal(size=(2, seeds))
        found, wanted = paired(ours, theirs), stats.ttest_rel(ours, theirs)
        interval = wanted.confidence_interval(0.95)
        assert found.p == pytest.approx(wanted.pvalue, rel=1e-4) and found.mean == pytest.approx(np.mean(ours - theirs))
        assert found.mean - found.half_width == pytest.approx(interval.low)
        assert (found.seeds, found.over_texts, found.reason) == (seeds, False, None)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_each_pair_is_what_loops_over_seeds_and_texts_say(seeds):
    each = texts(4, seeds, 40)
    values = each.mean(2)
    pairs = all_pairs(values, each)
    for i in range(4):
        for j in set(range(4)) - {i}:
            from_seeds, from_texts = by_loops(each[i], each[j])
            difference = values[i].mean() - values[j].mean()
            p = p_by_search(difference, from_seeds, from_texts, seeds - 1, 39)
            assert pairs.mean[i, j] == pytest.approx(difference) and pairs.p[i, j] == pytest.approx(p, rel=1e-4)
            assert (pairs.seeds[i, j], pairs.texts[i, j]) == pytest.approx((from_seeds, from_texts))
            one = paired(values[i], values[j], each[i], each[j])
            assert one.p == pytest.approx(p, rel=1e-4) and one.over_texts
            assert one.standard_error == pytest.approx(math.sqrt(from_seeds + from_texts))
    assert np.isnan(np.diag(pairs.p)).all()


@pytest.mark.slow
def test_sixty_rows_of_25000_texts_take_seconds():
    each = texts(2, 5, 25_000)[np.random.default_rng(0).integers(2, size=60)]
    begin = time.process_time()
    all_pairs(each.mean(2), each)
    assert time.process_time() - begin < 10


def test_one_seed_tells_nothing_of_recipes():
    each = texts(2, 1, 50)
    found = paired(*each.mean(2), *each)
    assert found.p is found.half_width is found.spread is found.standard_error is None
    assert "one seed" in found.reason.en and found.seeds == 1


def test_equal_differences_at_two_seeds_are_no_proof():
    found = paired(np.array([0.91, 0.93]), np.array([0.90, 0.92]))
    assert found.p is None and "same at every seed" in found.reason.en and found.half_width is None


def test_rounding_is_no_spread():
    theirs = np.random.default_rng(0).random((50, 3))
    assert np.isnan([all_pairs(np.stack([row + 0.1, row])).p[0, 1] for row in theirs]).all()


def test_equal_counts_at_two_seeds_are_a_tie_by_luck():
    """Ours has 3 texts more right at both seeds, but not the same ones."""
    ours, theirs = np.ones((2, 100), bool), np.ones((2, 100), bool)
    theirs[0, :3] = theirs[1, 50:53] = False
    found = paired(ours.mean(1), theirs.mean(1), ours, theirs)
    assert found.mean == pytest.approx(0.03) and found.spread.seeds == pytest.approx((1 / 200) ** 2)
    assert 0.05 < found.p < 0.2


def test_scores_that_count_texts_know_no_less_than_one():
    """Macro-F1 of the same number of right texts hardly differs: 30 % of tables had a wrong finding at two seeds."""
    ours, theirs = np.array([0.80001, 0.82]), np.array([0.77, 0.79])
    assert paired(ours, theirs).p < 0.001 and paired(ours, theirs, texts=100).p > 0.05
    assert paired(ours, theirs, texts=100_000_000) == paired(ours, theirs)
    assert paired(ours, ours, texts=100).p is None


def test_seeds_that_change_nothing_at_any_text_leave_the_texts():
    ours = np.repeat(texts(1, 1, 200), 2, axis=1)[0]
    theirs = np.repeat(texts(1, 1, 200, start=1), 2, axis=1)[0]
    found, difference = paired(ours.mean(1), theirs.mean(1), ours, theirs), ours[0].astype(float) - theirs[0]
    assert found.p == pytest.approx(stats.ttest_1samp(difference, 0).pvalue, rel=1e-4) and found.spread.seeds == 0


def test_two_identical_models_differ_by_nothing():
    each = texts(1, 3, 60)[0]
    assert paired(each.mean(1), each.mean(1), each, each).p is None
    found = paired(each.mean(1), each.mean(1))
    assert found == Difference(0.0, None, None, None, 3, False)
    pairs = all_pairs(np.stack([each.mean(1)] * 3), np.stack([each] * 3))
    assert np.isnan(pairs.p).all() and (pairs.mean == 0).all()


def test_a_seed_that_one_of_them_lacks_is_left_out():
    ours, theirs = np.array([0.9, 0.8, math.nan, 0.85]), np.array([0.7, 0.75, 0.6, 0.7])
    found = paired(ours, theirs)
    assert found.seeds == 3 and found.p == pytest.approx(
        stats.ttest_rel(ours[[0, 1, 3]], theirs[[0, 1, 3]]).pvalue, rel=1e-4
    )
    assert paired(theirs, ours).p == found.p
    nobody = paired(np.full(2, math.nan), theirs[:2])
    assert nobody.seeds == 0 and math.isnan(nobody.mean) and nobody.p is None


def test_what_a_score_is_not_the_mean_of_is_not_its_texts():
    each, values = texts(2, 3, 50), np.array([[0.1, 0.2, 0.4], [0.3, 0.1, 0.1]])
    assert paired(*values, *each) == paired(*values)


def test_mcnemar_is_that_of_statsmodels():
    for start in range(5):
        ours, theirs = texts(2, 1, 80, start)[:, 0]
        table = [[(ours & theirs).sum(), (ours & ~theirs).sum()], [(theirs & ~ours).sum(), (~ours & ~theirs).sum()]]
        found = mcnemar(ours, theirs)
        assert found == (table[0][1], table[1][0], pytest.approx(mcnemar_of_statsmodels(table, exact=True).pvalue))
    assert mcnemar(ours, ours) == (0, 0, 1.0)


def test_the_probability_of_improvement_is_mann_and_whitneys():
    random = np.random.default_rng(0)
    ours, theirs = random.integers(8, size=5) / 10, random.integers(2, 8, size=4) / 10
    assert improvement(ours, theirs) == pytest.approx(stats.mannwhitneyu(ours, theirs).statistic / 20)
    assert improvement(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1.0
