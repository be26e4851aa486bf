"""Rules of others and ours, each by the same studies: what it says of each row beside the first, and its interval.

A rule takes studies and a number of runs a row: for a fixed design that number, for one that stops the most. What is a
few lines is written here; rules of packages (extra `bench`) are left out where these are missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import comb

import numpy as np
from numpy import ndarray
from scipy import special

from benchmarks.resampled_studies import MARGIN, holm
from reports.statistics.cutoffs import student
from reports.statistics.decide import ALPHA

BETTER, WORSE, EQUIVALENT, OPEN = 1, -1, 2, 0
DRAWS, PERMUTATIONS = 5000, 2000  # of a bootstrap, and the most
BOARDS = 0.25  # the level that boards ask for, if any


@dataclass(frozen=True)
class Studies:
    """Runs of a first row and others, and what is true of each other row minus the first."""

    values: ndarray  # studies × rows × runs
    truth: ndarray  # studies × comparisons
    sigma: float  # the bank's deviation of a difference of two runs
    paired: bool  # run k of each row has the same seed
    margin: float | None = None
    smallest: float = MARGIN  # the difference that a GSPRT looks for
    rope: float = MARGIN  # half the region of practical equivalence
    texts: list[ndarray] | None = None  # of each study rows × runs × texts
    within: ndarray | None = None  # what is true on each study's own texts

    @property
    def comparisons(self) -> int:
        return self.values.shape[1] - 1

    def first(self, count: int) -> "Studies":
        within = None if self.within is None else self.within[:count]
        texts = None if self.texts is None else self.texts[:count]
        return replace(self, values=self.values[:count], truth=self.truth[:count], texts=texts, within=within)

    def apart(self, runs: int) -> ndarray:
        return self.values[:, 1:, :runs] - self.values[:, :1, :runs]


@dataclass(frozen=True)
class Said:
    """Of each study and comparison; `low`, `high`: nan where the rule gives no interval."""

    signs: ndarray
    low: ndarray
    high: ndarray
    runs: ndarray  # studies × rows


Rule = Callable[[Studies, int], Said]


def fixed(studies: Studies, runs: int, signs: ndarray, middle: ndarray, half: ndarray | float = np.nan) -> Said:
    return Said(signs, middle - half, middle + half, np.full(studies.values.shape[:2], runs))


def significant(p: ndarray, means: ndarray, level: float = ALPHA) -> ndarray:
    return np.where(p <= level, np.sign(means), OPEN).astype(int)


def spread(studies: Studies, runs: int) -> tuple[ndarray, ndarray, ndarray]:
    """Mean difference, its standard error and degrees of freedom: of pairs, or of two samples by Welch."""
    apart = studies.apart(runs)
    if studies.paired:
        return apart.mean(2), apart.std(2, ddof=1) / runs**0.5, np.full(apart.shape[:2], runs - 1.0)
    parts = studies.values[:, :, :runs].var(2, ddof=1) / runs
    own, first = parts[:, 1:], parts[:, :1]
    freedom = (own + first) ** 2 / np.maximum((own**2 + first**2) / (runs - 1), 1e-300)
    return apart.mean(2), np.sqrt(own + first), np.maximum(freedom, 1.0)


def t_of(studies: Studies, runs: int) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    means, errors, freedom = spread(studies, runs)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.nan_to_num(2 * special.stdtr(freedom, -np.abs(means) / errors), nan=1.0)
    return p, means, errors, freedom


def t_and_holm(studies: Studies, runs: int) -> Said:
    """Paired t or Welch's (1947) with Holm (1979); the intervals are Bonferroni's."""
    p, means, errors, freedom = t_of(studies, runs)
    half = student(np.array(ALPHA / 2 / studies.comparisons), freedom) * errors
    return fixed(studies, runs, significant(holm(p), means), means, half)


def t_as_boards(studies: Studies, runs: int) -> Said:
    """Each comparison alone at p < .25; the intervals hold 75 % each."""
    p, means, errors, freedom = t_of(studies, runs)
    return fixed(studies, runs, significant(p, means, BOARDS), means, student(np.array(BOARDS / 2), freedom) * errors)


def t_until_significant(studies: Studies, most: int) -> Said:
    """The same t looked at after every added run, at the level of one look: a misuse."""

    def look(runs: int) -> Said:
        p, means, errors, freedom = t_of(studies, runs)
        half = student(np.array(ALPHA / 2 / studies.comparisons), freedom) * errors
        return fixed(studies, runs, significant(p * studies.comparisons, means), means, half)

    return until(look, range(2, most + 1))


def until(look: Callable[[int], Said], looks: range) -> Said:
    """Each row runs until it is called; the first as long as any other."""
    said = [look(runs) for runs in looks]
    signs = np.array([one.signs for one in said])
    stop = np.where((signs != OPEN).any(0), (signs != OPEN).argmax(0), len(said) - 1)
    signs, low, high = (
        np.take_along_axis(array, stop[None], 0)[0]
        for array in (signs, np.array([one.low for one in said]), np.array([one.high for one in said]))
    )
    rows = np.array(looks)[stop]
    return Said(signs, low, high, np.hstack([rows.max(1, keepdims=True), rows]))


def z_known(studies: Studies, runs: int, factor: float = 1.0) -> Said:
    """z with the bank's own pooled deviation (or `factor` of it), Holm."""
    means, error = studies.apart(runs).mean(2), factor * studies.sigma / runs**0.5
    half = float(student(np.array(ALPHA / 2 / studies.comparisons), 1e9)) * error
    return fixed(studies, runs, significant(holm(2 * special.ndtr(-np.abs(means) / error)), means), means, half)


def mixed_model(studies: Studies, runs: int) -> Said:
    """Score by row with a random effect of the seed: REML of the balanced design, Wald's z with Holm."""
    values = studies.values[:, :, :runs] - studies.values[:, :, :runs].mean(2, keepdims=True)
    rows, free = values.shape[1], runs - 1
    of_seeds = rows * np.square(values.mean(1)).sum(1)
    rest = np.square(values).sum((1, 2)) - of_seeds
    within = rest / free / (rows - 1)
    within = np.where(of_seeds / free > within, within, (rest + of_seeds) / free / rows)  # no variance is below 0
    means, error = studies.apart(runs).mean(2), np.sqrt(2 * within / runs)[:, None]
    half = float(student(np.array(ALPHA / 2 / studies.comparisons), 1e9)) * error
    return fixed(studies, runs, significant(holm(2 * special.ndtr(-np.abs(means) / error)), means), means, half)


def z_half(studies: Studies, runs: int) -> Said:
    return z_known(studies, runs, 0.5)


def all_seeds(studies: Studies, runs: int) -> Said:
    """Better at every seed; without pairs, each run better than each of the first row."""
    own, first = studies.values[:, 1:, :runs], studies.values[:, :1, :runs]
    if studies.paired:
        signs = np.where((own > first).all(2), BETTER, np.where((own < first).all(2), WORSE, OPEN))
    else:
        above, below = own.min(2) > first.max(2), own.max(2) < first.min(2)
        signs = np.where(above, BETTER, np.where(below, WORSE, OPEN))
    return fixed(studies, runs, signs, studies.apart(runs).mean(2))


def weights(runs: int, seed: int, draws: int = DRAWS) -> ndarray:
    """How often each of so many runs is in each bootstrap sample, as shares."""
    return np.random.default_rng(seed).multinomial(runs, np.full(runs, 1 / runs), draws).T / runs


def resampled(studies: Studies, runs: int) -> tuple[ndarray, ndarray, ndarray]:
    """Mean differences, sorted ones of bootstrap samples, and each run's pull: of pairs, or each row by itself."""
    values, apart = studies.values[:, :, :runs], studies.apart(runs)
    means = apart.mean(2)
    if studies.paired:
        return means, np.sort(apart @ weights(runs, 0), axis=2), apart - means[:, :, None]
    drawn = values[:, 1:] @ weights(runs, 0) - values[:, :1] @ weights(runs, 1)
    centred = values - values.mean(2, keepdims=True)
    pulls = np.concatenate([centred[:, 1:], np.broadcast_to(-centred[:, :1], centred[:, 1:].shape)], 2)
    return means, np.sort(drawn, axis=2), pulls


def at_shares(drawn: ndarray, shares: ndarray) -> ndarray:
    place = np.clip(shares * drawn.shape[2], 0, drawn.shape[2] - 1).astype(int)
    return np.asarray(np.take_along_axis(drawn, place[..., None], 2)[..., 0])


def bca_limits(studies: Studies, runs: int, level: float) -> tuple[ndarray, ndarray, ndarray]:
    """Mean differences with their BCa limits (Efron, 1987)."""
    means, drawn, pulls = resampled(studies, runs)
    below = (drawn < means[..., None]).mean(2) + (drawn == means[..., None]).mean(2) / 2
    shift = special.ndtri(np.clip(below, 1 / DRAWS, 1 - 1 / DRAWS))
    skew = (pulls**3).sum(2) / 6 / np.maximum((pulls**2).sum(2), 1e-300) ** 1.5
    moved = [shift + special.ndtri(tail) for tail in (level / 2, 1 - level / 2)]
    low, high = (at_shares(drawn, special.ndtr(shift + by / (1 - skew * by))) for by in moved)
    return means, low, high


def percentile(studies: Studies, runs: int) -> Said:
    """Percentile limits, 95 % for each comparison: rliable's stratified bootstrap (arXiv 2108.13264) with one task."""
    means, drawn, _ = resampled(studies, runs)
    low, high = (at_shares(drawn, np.full(means.shape, tail)) for tail in (ALPHA / 2, 1 - ALPHA / 2))
    return by_limits(studies, runs, low, high)


def rope(studies: Studies, runs: int) -> Said:
    """Better where 95 % of the posterior of the mean difference of runs is beyond the region of practical equivalence:
    the Bayesian t-test (Benavoli and others, 2017) without its correction for folds of a cross-validation."""
    apart = studies.apart(runs)
    means, errors = apart.mean(2), np.maximum(apart.std(2, ddof=1), 1e-300) / runs**0.5
    worse, not_better = (special.stdtr(runs - 1, (edge - means) / errors) for edge in (-studies.rope, studies.rope))
    sure = [share > 1 - ALPHA for share in (1 - not_better, worse, not_better - worse)]
    half = student(np.array(ALPHA / 2), runs - 1) * errors
    return fixed(studies, runs, np.select(sure, [BETTER, WORSE, EQUIVALENT], OPEN), means, half)


def by_limits(studies: Studies, runs: int, low: ndarray, high: ndarray) -> Said:
    signs = np.where(low > 0, BETTER, np.where(high < 0, WORSE, OPEN))
    return Said(signs, low, high, np.full(studies.values.shape[:2], runs))


def bca(studies: Studies, runs: int) -> Said:
    """BCa intervals at Bonferroni's level."""
    return by_limits(studies, runs, *bca_limits(studies, runs, ALPHA / studies.comparisons)[1:])


def permutation_p(studies: Studies, runs: int) -> ndarray:
    """Sign flips of pairs, or exchanged runs of two rows: all of them, or 2000 drawn."""
    if studies.paired:
        signs = np.array(list(product((1, -1), repeat=runs))).T / runs
        pooled = studies.apart(runs)
    else:
        size, generator = 2 * runs, np.random.default_rng(0)
        chosen = (
            np.array(list(combinations(range(size), runs)))
            if comb(size, runs) <= PERMUTATIONS
            else np.array([np.arange(runs), *(generator.permutation(size)[:runs] for _ in range(PERMUTATIONS - 1))])
        )
        signs = np.full((size, len(chosen)), -1.0 / runs)
        np.put_along_axis(signs, chosen.T, 1.0 / runs, 0)
        own = studies.values[:, 1:, :runs]
        pooled = np.concatenate([own, np.broadcast_to(studies.values[:, :1, :runs], own.shape)], 2)
    sizes = np.abs(pooled @ signs)
    return (sizes >= np.abs(studies.apart(runs).mean(2))[..., None] * (1 - 1e-9)).mean(2)


def permutation(studies: Studies, runs: int) -> Said:
    """Permutation test of the mean difference (Fisher, 1935), Holm."""
    means = studies.apart(runs).mean(2)
    return fixed(studies, runs, significant(holm(permutation_p(studies, runs)), means), means)


def bca_and_flips(studies: Studies, runs: int) -> Said:
    """A 95 % BCa interval without 0 and p < .05 by permutation, each comparison alone (arXiv 2511.19794)."""
    means, low, high = bca_limits(studies, runs, ALPHA)
    both = significant(permutation_p(studies, runs), means) * ((low > 0) | (high < 0))
    return Said(both, low, high, np.full(studies.values.shape[:2], runs))


def gsprt(studies: Studies, most: int, fewest: int = 2) -> Said:
    """GSPRT of differences of runs: no difference against one of `smallest`, by fishtest's approximation `LLR_alt`,
    n/2 · log(mean x² / mean (x − d)²), for each sign; bounds ± log 19 = ± 2.94; looks from `fewest` runs on."""
    bound, step = np.log(19), studies.smallest

    def look(runs: int) -> Said:
        apart = studies.apart(runs)
        squares = [np.maximum(np.square(apart - shift).mean(2), 1e-300) for shift in (0.0, step, -step)]
        up, down = (runs / 2 * np.log(squares[0] / square) for square in squares[1:])
        signs = np.where(up >= bound, BETTER, np.where(down >= bound, WORSE, OPEN))
        nothing = (up <= -bound) & (down <= -bound)
        return fixed(studies, runs, np.where(nothing, EQUIVALENT, signs), apart.mean(2))

    return until(look, range(min(fewest, most), most + 1))


def e_process(studies: Studies, most: int) -> Said:
    """A mixture e-process: the Bayes factor of a t-test of differences of runs, with a standard normal prior on the
    difference in its deviations (Wang and Ramdas, arXiv 2310.03722), at Bonferroni's level; its confidence sequence."""
    wanted = studies.comparisons / ALPHA

    def look(runs: int) -> Said:
        apart = studies.apart(runs)
        means, errors, free = apart.mean(2), apart.std(2, ddof=1) / runs**0.5, runs - 1
        ratio = (wanted * (1 + runs) ** 0.5) ** (2 / runs)  # what (1 + t²/ν) / (1 + t²/(ν (1 + n))) must reach
        reached = ratio < 1 + runs
        t = np.sqrt(free * (ratio - 1) / (1 - ratio / (1 + runs))) if reached else np.nan
        half = t * errors if reached else np.full(errors.shape, np.inf)
        return fixed(studies, runs, np.where(np.abs(means) >= half, np.sign(means), OPEN).astype(int), means, half)

    return until(look, range(2, most + 1))
