"""Rules of other packages (extra `comparators`), and two that need texts or seeds as drawn."""

import warnings
from typing import Any

import numpy as np
from numpy import ndarray

from benchmarks.comparator_rules import (
    BETTER,
    OPEN,
    WORSE,
    Rule,
    Said,
    Studies,
    by_limits,
    fixed,
    of_each,
    significant,
    weights,
)
from benchmarks.resampled_studies import holm
from reports.statistics.cutoffs import student
from reports.statistics.decide import ALPHA

RLIABLE_DRAWS = 500  # its loop is in Python
SHARE = 0.95  # of the posterior that a ROPE test asks for
ADASTOP = {8: (4, 2), 15: (5, 3)}  # most runs: runs added at a look, and looks


def rliable_limits(studies: Studies, runs: int) -> Said:
    """rliable's stratified bootstrap (percentile, 95 % for each comparison) of the mean difference; one task."""
    from rliable.library import get_interval_estimates

    np.random.seed(0)  # it draws from numpy's global generator

    def one(_: int, values: ndarray) -> tuple[Any, Any, Any, Any]:
        limits = []
        for row in values[1:, :runs]:
            first = values[0, :runs]
            if studies.paired:
                scores, of = {"apart": (row - first)[:, None]}, lambda apart: np.array([apart.mean()])
            else:
                scores = {"apart": (row[:, None], first[:, None])}
                of = lambda own, other: np.array([own.mean() - other.mean()])  # noqa: E731
            _, estimated = get_interval_estimates(scores, of, reps=RLIABLE_DRAWS)
            limits.append(estimated["apart"][:, 0])
        low, high = np.array(limits).T
        return np.where(low > 0, BETTER, np.where(high < 0, WORSE, OPEN)), low, high, np.full(len(values), runs)

    return of_each(studies, one)


def rope(studies: Studies, runs: int) -> Said:
    """baycomp's posterior of the mean difference of runs, without its correction for folds of cross-validation:
    better where 95 % of it is beyond the region of practical equivalence; 95 % intervals."""
    from baycomp.single import Posterior

    apart = studies.apart(runs)
    means, variances = apart.mean(2), np.maximum(apart.var(2, ddof=1), 1e-300) / runs
    said = [
        [Posterior(mean, variance, runs - 1, studies.rope).probs() for mean, variance in zip(*both, strict=True)]
        for both in zip(means, variances, strict=True)
    ]
    worse, same, better = np.moveaxis(np.array(said), 2, 0)
    signs = np.select([better > SHARE, worse > SHARE, same > SHARE], [BETTER, WORSE, 2], OPEN)
    return fixed(studies, runs, signs, means, float(student(np.array(ALPHA / 2), runs - 1)) * variances**0.5)


def adastop_of(patched: bool) -> Rule:
    """AdaStop (arXiv 2306.10882), level .05. As shipped it compares |difference| with the distribution of signed
    differences of permutations; patched, with that of their sizes."""

    def rule(studies: Studies, most: int) -> Said:
        from adastop.compare_agents import MultipleAgentsComparator

        class Patched(MultipleAgentsComparator):
            def compute_mean_diffs(self, k: int, Z: Any) -> Any:
                return {pair: np.abs(signed) for pair, signed in super().compute_mean_diffs(k, Z).items()}

        added, looks = ADASTOP.get(most, (most // 2, 2))
        words = {"larger": BETTER, "smaller": WORSE}

        def one(number: int, values: ndarray) -> tuple[Any, Any, Any, Any]:
            pairs = np.array([(row, 0) for row in range(1, len(values))])
            kind = Patched if patched else MultipleAgentsComparator
            judge = kind(n=added, K=looks, comparisons=pairs, alpha=ALPHA, seed=number)
            seeds, goes_on = np.zeros(len(values), int), np.ones(len(values), bool)
            for look in range(1, looks + 1):
                seeds[goes_on] = look * added
                judge.partial_compare({str(row): own[: look * added] for row, own in enumerate(values)}, verbose=False)
                goes_on[1:] = [judge.decisions[str(pair)] == "continue" for pair in pairs]
                if judge.is_finished:
                    break
            signs = [words.get(judge.decisions[str(pair)], OPEN) for pair in pairs]
            none = np.full(len(pairs), np.nan)
            return signs, none, none, seeds

        return of_each(studies, one)

    return rule


def crossed_bootstrap(studies: Studies, runs: int) -> Said:
    """Percentile limits of the mean difference, seeds and texts both drawn again (Owen, 2007), Bonferroni's level."""
    assert studies.texts is not None
    seeds, drawn = weights(runs, 0), weights(studies.texts[0].shape[2], 1).astype(np.float32)
    tail, limits = ALPHA / 2 / studies.comparisons, []
    for each in studies.texts:
        by_texts = each[:, :runs].astype(np.float32) @ drawn  # rows × runs × draws
        means = ((by_texts[1:] - by_texts[0]) * seeds).sum(1)
        limits.append(np.quantile(means, (tail, 1 - tail), axis=1))
    low, high = np.moveaxis(np.array(limits), 1, 0)
    return by_limits(studies, runs, low, high)


def mixed_model(studies: Studies, runs: int) -> Said:
    """statsmodels' MixedLM, score by row with a random effect of the seed; Wald's z with Holm, Bonferroni intervals."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    rows = studies.values.shape[1]
    design = np.repeat(np.eye(rows), runs, axis=0)
    design[:, 0] = 1.0
    p, means, errors = [], [], []
    for values in studies.values[:, :, :runs]:
        scale = values.std() or 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a seed that moves nothing is at the bound of its variance
            fit = MixedLM((values / scale).ravel(), design, np.tile(np.arange(runs), rows)).fit(method=["lbfgs"])
        p.append(fit.pvalues[1:rows])
        means.append(fit.fe_params[1:] * scale)
        errors.append(fit.bse_fe[1:] * scale)
    middle, half = np.array(means), float(student(np.array(ALPHA / 2 / (rows - 1)), 1e9)) * np.array(errors)
    return fixed(studies, runs, significant(holm(np.nan_to_num(np.array(p), nan=1.0)), middle), middle, half)
