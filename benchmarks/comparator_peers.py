"""Rules that take one study at a time: ours, those of packages (extra `bench`), and one that draws texts too."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from benchmarks.comparator_rules import BETTER, EQUIVALENT, OPEN, WORSE, Rule, Said, Studies, by_limits, weights
from benchmarks.resampled_studies import called, looked_at, measured, pairs_with_first
from benchmarks.simulation import up_to
from reports.statistics.decide import ALPHA, Decided, Measurements, compare_samples, decide

CROSSED_DRAWS = 2000
WORDS = {"better": BETTER, "worse": WORSE, "equivalent": EQUIVALENT}
ADASTOP = {8: (4, 2), 15: (5, 3)}  # most runs: runs added at a look, and looks


def of_lines(lines: list[Decided], margin: float | None) -> tuple[list[int], list[float], list[float]]:
    signs = [WORDS.get(word, OPEN) for word in called(lines, margin)]
    return signs, [line.low for line in lines], [line.high for line in lines]


def of_each(studies: Studies, one: Callable[[int, ndarray], tuple[Any, Any, Any, Any]]) -> Said:
    """A rule that takes one study at a time."""
    return Said(*(np.array(part) for part in zip(*(one(*study) for study in enumerate(studies.values)), strict=True)))


def study_of(studies: Studies, number: int, over_texts: bool) -> Measurements:
    if studies.texts is None:
        return Measurements(studies.values[number])
    return measured(studies.texts[number], over_texts)


def ours(studies: Studies, runs: int, over_texts: bool = True) -> Said:
    def one(number: int, values: ndarray) -> tuple[Any, Any, Any, Any]:
        seeds = np.full(len(values), runs)
        lines = decide(up_to(study_of(studies, number, over_texts), seeds), pairs_with_first(len(values)))
        return *of_lines(lines, studies.margin), seeds

    return of_each(studies, one)


def ours_stopping(studies: Studies, most: int, over_texts: bool = True) -> Said:
    def one(number: int, values: ndarray) -> tuple[Any, Any, Any, Any]:
        _, seeds, lines = looked_at(study_of(studies, number, over_texts), most, margin=studies.margin)
        return *of_lines(lines, studies.margin), seeds

    return of_each(studies, one)


def ours_unpaired(studies: Studies, runs: int) -> Said:
    def one(_: int, values: ndarray) -> tuple[Any, Any, Any, Any]:
        first, *others = [(float(row.mean()), float(row.std(ddof=1)), runs) for row in values[:, :runs]]
        lines = [compare_samples(other, first, len(others), 1.0) for other in others]
        return *of_lines(lines, studies.margin), np.full(len(values), runs)

    return of_each(studies, one)


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
    seeds, drawn = (
        weights(runs, 0, CROSSED_DRAWS),
        weights(studies.texts[0].shape[2], 1, CROSSED_DRAWS).astype(np.float32),
    )
    tail, limits = ALPHA / 2 / studies.comparisons, []
    for each in studies.texts:
        by_texts = each[:, :runs].astype(np.float32) @ drawn  # rows × runs × draws
        means = ((by_texts[1:] - by_texts[0]) * seeds).sum(1)
        limits.append(np.quantile(means, (tail, 1 - tail), axis=1))
    low, high = np.moveaxis(np.array(limits), 1, 0)
    return by_limits(studies, runs, low, high)
