"""Cut-offs against Student's, Dunnett's and Tukey's, and against studies that are drawn by another generator."""

from functools import cache

import numpy as np
import pytest
from scipy import optimize, stats

from reports.statistics.cutoffs import Cutoffs, Design, all_pairs_of, cutoffs, looks_up_to
from reports.statistics.decide import at_level, cutoffs_for
from tests.reports.statistics.by_hand import star, variances
from tests.tiers import rest_is_full


@cache
def at(rows: int, seeds: int, pairs: tuple[tuple[int, int], ...]) -> Cutoffs:
    return cutoffs(Design(rows, pairs, (seeds,)))[0]


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_that_of_two_rows_is_students_and_goes_on_so_beyond_what_is_drawn(seeds: int):
    """The variance of two rows is 1.5 times their own one: 3 times what a row leaves, which is half of it."""
    for level in (0.05, 0.01, 0.002, 1e-4, 1e-6, 1e-8):
        reach, exact = at_level(at(2, seeds, star(2)).seeds, level) * np.sqrt(1.5), stats.t.isf(level / 2, seeds - 1)
        error = 4 * np.sqrt(1 / level / 100_000)  # of the level that was drawn; at two seeds a cut-off is as uncertain
        assert 0.7 < reach / exact < 1.6 if level < 0.002 else reach == pytest.approx(exact, rel=error)


def dunnett(rows: int, level: float) -> float:
    """Of many seeds: differences to one baseline correlate by a half."""
    count = rows - 1
    points, weights = np.polynomial.hermite_e.hermegauss(80)

    def holds(size: float) -> float:
        inside = stats.norm.cdf(points + size * np.sqrt(2)) - stats.norm.cdf(points - size * np.sqrt(2))
        return float(weights @ inside**count / weights.sum())

    return float(optimize.brentq(lambda size: 1 - holds(size) - level, 0.5, 6))


@pytest.mark.parametrize("rows", [3, 6, 13])
def test_that_of_texts_is_dunnetts_or_tukeys_of_a_known_variance(rows: int):
    for level in (0.05, 0.01):
        assert at_level(at(rows, 3, star(rows)).texts, level) == pytest.approx(dunnett(rows, level), rel=0.02)
        tukey = stats.studentized_range.isf(level, rows, np.inf) / np.sqrt(2)
        assert at_level(at(rows, 3, all_pairs_of(rows)).texts, level) == pytest.approx(tukey, rel=0.02)


@pytest.mark.parametrize("rows", [3, 6])
def test_with_many_seeds_those_of_seeds_become_the_same(rows: int):
    """There the variance is three times that of a row, in the place of twice, and somewhat more: it is the larger."""
    tukey = stats.studentized_range.isf(0.05, rows, np.inf) / np.sqrt(2)
    for pairs, exact in ((star(rows), dunnett(rows, 0.05)), (all_pairs_of(rows), tukey)):
        bounds = at(rows, 300, pairs)
        assert at_level(bounds.seeds, 0.05) * np.sqrt(bounds.ratios.mean()) == pytest.approx(exact, rel=0.03)
        assert bounds.ratios.mean() == pytest.approx(1.5, rel=0.08)


def test_the_same_design_has_the_same_bytes_and_cutoffs_grow_with_pairs_and_fall_with_seeds_and_level():
    design = Design(4, star(4), (2, 3, 5))
    for first, again in zip(cutoffs.__wrapped__(design), cutoffs(design), strict=True):
        assert first.seeds.tobytes() == again.seeds.tobytes() and first.texts.tobytes() == again.texts.tobytes()
        assert (np.diff(first.seeds) >= 0).all() and (np.diff(first.texts) >= 0).all()
        assert first.seeds[0] == first.texts[0] == 0
    for level in (0.05, 0.001):
        of_seeds = [at_level(at(4, seeds, star(4)).seeds, level) for seeds in (2, 3, 5, 10)]
        assert of_seeds == sorted(of_seeds, reverse=True)
        families = (((1, 0),), star(4), all_pairs_of(4))
        of_pairs = [at_level(at(4, 3, pairs).seeds, level) for pairs in families]
        assert of_pairs == sorted(of_pairs) and of_pairs[0] < of_pairs[2]


def crossings(rows: int, looks: tuple[int, ...], of_text: float, studies: int) -> np.ndarray:
    """Of studies in which nothing differs, the share that first crosses at each look."""
    generator = np.random.Generator(np.random.Philox(7))
    values = generator.standard_normal((studies, rows, looks[-1]))
    values += np.sqrt(of_text) * generator.standard_normal((studies, rows, 1))
    crossed, shares = np.zeros(studies, bool), []
    for seeds, bounds in zip(looks, cutoffs(Design(rows, star(rows), looks)), strict=True):
        part = values[:, :, :seeds]
        apart = part[:, 1:].mean(2) - part[:, :1].mean(2)
        of_seeds, of_texts = at_level(bounds.seeds, 0.05), at_level(bounds.texts, 0.05)
        reach = np.sqrt(of_seeds**2 * variances(part) / seeds + of_texts**2 * 2 * of_text)
        now = (np.abs(apart) > reach).any(1)
        shares.append((now & ~crossed).mean())
        crossed |= now
    return np.array(shares)


@pytest.mark.parametrize("studies", rest_is_full([20_000, 60_000], [20_000]))
def test_each_look_spends_its_part_of_the_level(studies: int):
    looks = (2, 3, 5, 8)
    spent = 0.05 * np.diff([0, *looks]) / looks[-1]
    assert crossings(4, looks, 0.0, studies) == pytest.approx(spent, abs=4 * np.sqrt(0.02 / studies))


@pytest.mark.parametrize(
    ("of_text", "studies"), rest_is_full([(1.0, 4_000), (0.3, 12_000), (1.0, 12_000)], [(1.0, 4_000)])
)
def test_all_looks_together_err_no_more_often_where_texts_take_part(of_text: float, studies: int):
    """With the whole level of texts at each look it was 6.5 % (of_text = 1)."""
    assert crossings(6, looks_up_to(20), of_text, studies).sum() <= 0.05 + 3 * np.sqrt(0.05 / studies)


def test_one_look_is_a_study_of_fixed_seeds_and_between_two_looks_the_last_one_counts():
    pairs = star(3)
    assert looks_up_to(2) == (2,) and looks_up_to(7) == (2, 3, 4, 5, 6, 7)
    assert cutoffs_for(3, pairs, 2, most_seeds=2) is cutoffs_for(3, pairs, 2, most_seeds=None)
    assert cutoffs_for(3, pairs, 7, most_seeds=8) is cutoffs_for(3, pairs, 6, most_seeds=8)


def test_fewer_degrees_of_freedom_never_give_a_smaller_cutoff():
    bounds = at(6, 3, star(6))
    wider = bounds.at_freedom(bounds.freedom / 2)
    assert (wider >= bounds.seeds).all() and at_level(wider, 0.05) > 1.1 * at_level(bounds.seeds, 0.05)
    assert bounds.at_freedom(bounds.freedom + 3) is bounds.seeds
    # a pair by its own variance has Student's by Bonferroni
    assert at_level(bounds.alone(2), 0.05) == pytest.approx(stats.t.isf(0.05 / 2 / 5, 2), rel=5e-3)  # between levels
