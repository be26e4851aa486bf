"""Means of differences over data sets, with simultaneous intervals for the rows of a question.

Two statements are kept apart:
- On these data sets: the mean counts each data set once, and its interval covers what other seeds and other texts of
  them would give. The variance of the mean is estimated from the seeds of all data sets: by the residuals that the rows
  of a data set share, or by the row's own differences, whichever is larger. Data sets need not vary alike, so the
  cut-off is that of a parametric bootstrap: studies without effects are drawn with the spread of each data set. (The
  degrees of freedom by Satterthwaite's formula are too many at two seeds.) As in `decide`, the texts' part has its own
  cut-off.
- For another data set like these: the t interval of the data sets' differences, from FEWEST data sets on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from reports.statistics.cutoffs import Pair, student
from reports.statistics.decide import ALPHA, Family, Measurements, at_level, seeds_part, text_parts

FEWEST = 5  # data sets for a statement about others
ROUNDING = 1e-12  # spread of equal differences
DRAWS, NUMBERS = 20_000, 8_000_000  # most simulated studies, and most random numbers


@dataclass(frozen=True)
class Setting:
    """The rows of a question in one setting. All settings have the same rows."""

    data: str  # identifies the data set; several settings may share one
    measured: Measurements
    pairs: Sequence[Pair]  # each compared row with its baseline, as positions in `measured`


@dataclass(frozen=True)
class Mean:
    """The mean difference of a row over data sets."""

    difference: float
    half_width: float  # on these data sets; simultaneous over the rows; nan if there is no spread
    p: float
    general: float = math.nan  # half-width for another data set like these; nan with fewer than FEWEST
    prediction: float = math.nan  # half-width of the interval for the difference on one other data set


@dataclass(frozen=True)
class Parts:
    """Mean differences of rows, and the parts of their variances."""

    differences: Float[ndarray, "... rows"]
    by_pool: Float[ndarray, "... rows"]
    by_row: Float[ndarray, "... rows"]

    @property
    def from_seeds(self) -> Float[ndarray, "... rows"]:
        return np.maximum(self.by_pool, self.by_row)


def means_over_data(settings: Sequence[Setting], level: float = ALPHA, most_seeds: int | None = None) -> list[Mean]:
    """Return the mean of each row; the rows share `level`. `most_seeds`: of a study that adds seeds, else None."""
    names, rows = [setting.data for setting in settings], len(settings[0].pairs)
    weights = [1 / len({*names}) / names.count(name) for name in names]  # each data set counts once
    parts, spreads = observed(settings, weights)
    texts = text_variance(settings, weights)
    statistics = np.sort(largest_statistics(settings, weights, spreads))
    looks = 1.0 if most_seeds is None else max(factor_of_looks(setting, most_seeds) for setting in settings)

    def reaches(level: float) -> Float[ndarray, " rows"]:
        by_texts = float(student(np.array(level / 2 / rows), math.inf))
        cutoff = looks * float(np.quantile(statistics, 1 - level))
        reach: Float[ndarray, " rows"] = np.sqrt(cutoff**2 * parts.from_seeds + by_texts**2 * texts)
        return reach

    levels = np.geomspace(1 / len(statistics), 1, 200)
    at_levels = np.array([reaches(each) for each in levels])
    by_data = differences_by_data(settings)
    half_widths, count = reaches(level), len(by_data)
    means = []
    for number, difference in enumerate(parts.differences.tolist()):
        tested = parts.from_seeds[number] + texts[number] > 0
        significant = levels[at_levels[:, number] <= abs(difference)]
        general = prediction = math.nan
        spread = float(by_data[:, number].std(ddof=1)) if count >= FEWEST else 0.0
        if spread > ROUNDING:
            general = float(student(np.array(level / 2 / rows), count - 1)) * spread / math.sqrt(count)
            prediction = float(student(np.array(ALPHA / 2), count - 1)) * spread * math.sqrt(1 + 1 / count)
        half_width = float(half_widths[number]) if tested else math.nan
        p = float(significant.min(initial=1.0)) if tested else math.nan
        means.append(Mean(difference, half_width, p, general, prediction))
    return means


def differences_by_data(settings: Sequence[Setting]) -> Float[ndarray, "data rows"]:
    differences = [one_setting(setting.measured.values[None], setting).differences[0] for setting in settings]
    names = np.array([setting.data for setting in settings])
    return np.array([np.mean(np.array(differences)[names == name], axis=0) for name in dict.fromkeys(names.tolist())])


def one_setting(values: Float[ndarray, "n k s"], setting: Setting) -> Parts:
    """Return the mean differences of studies in a setting, and their variances over seeds."""
    measured = setting.measured.measured
    rest, freedoms = pool_residuals(values, measured)
    pool = np.square(rest).sum((1, 2)) / max(freedoms, 1.0)
    differences, by_pool, by_row = [], [], []
    for pair in setting.pairs:
        common = setting.measured.common(pair)
        each = values[:, pair[0]][:, common] - values[:, pair[1]][:, common]
        seeds = each.shape[1]
        differences.append(each.mean(1))
        by_pool.append(2 * pool / seeds)
        by_row.append(each.var(1, ddof=1) / seeds)
    return Parts(np.stack(differences, 1), np.stack(by_pool, 1), np.stack(by_row, 1))


def pool_residuals(values: Float[ndarray, "n k s"], measured: ndarray) -> tuple[ndarray, float]:
    """Return the residuals of rows × seeds of each study (0 where nothing was measured), and their degrees of
    freedom."""
    if measured.all():
        by_seed, by_row = values - values.mean(1, keepdims=True), values.mean(2, keepdims=True)
        return by_seed - by_row + values.mean((1, 2), keepdims=True), float(np.prod(np.array(measured.shape) - 1))
    row_numbers, seed_numbers = np.nonzero(measured)
    x = np.hstack([np.eye(measured.shape[0])[row_numbers], np.eye(measured.shape[1])[seed_numbers]])
    maker = np.eye(len(x)) - x @ np.linalg.pinv(x)
    rest = np.zeros(values.shape)
    rest[:, measured] = values[:, measured] @ maker
    return rest, float(np.trace(maker))


def observed(settings: Sequence[Setting], weights: Sequence[float]) -> tuple[Parts, list[float]]:
    """Return the measured means, and the spread between seeds in each setting. Seeds that agree more closely than one
    text, or than their texts allow, do so by luck."""
    total, spreads = Total(settings, 1), list[float]()
    for setting, weight in zip(settings, weights, strict=True):
        least_parts = np.zeros((2, 1, len(setting.pairs)))
        parts, measured = one_setting(setting.measured.values[None], setting), setting.measured
        for number, pair in enumerate(setting.pairs):
            rows, common = np.array(pair), measured.common(pair)
            values, seeds = measured.values[rows][:, common], int(common.sum())
            each = None if measured.per_text is None else measured.per_text[rows][:, common]
            least = 0.0 if each is None else text_parts(each)[1]
            for place, variance in enumerate((parts.by_pool, parts.by_row)):
                part = seeds_part(values, float(variance[0, number]) * seeds, measured.smallest_step) / seeds
                least_parts[place, 0, number] = max(part, least)
        counts = [int(measured.common(pair).sum()) for pair in setting.pairs]
        spreads.append(math.sqrt(max(least_parts[0, 0] * counts) / 2))
        total.add(setting, weight, Parts(parts.differences, *least_parts))
    mean = total.parts()
    return Parts(mean.differences[0], mean.by_pool[0], mean.by_row[0]), spreads


class Total:
    """The sum of weighted settings of `count` studies. Settings with the same data count as the same seeds: their
    differences may depend on each other, so that their standard errors add up."""

    def __init__(self, settings: Sequence[Setting], count: int) -> None:
        shape = count, len(settings[0].pairs)
        self.differences = np.zeros(shape)
        self.errors = {setting.data: np.zeros((2, *shape)) for setting in settings}

    def add(self, setting: Setting, weight: float, parts: Parts) -> None:
        self.differences += weight * parts.differences
        self.errors[setting.data] += weight * np.sqrt(np.stack([parts.by_pool, parts.by_row]))

    def parts(self) -> Parts:
        by_pool, by_row = np.sum([np.square(errors) for errors in self.errors.values()], 0)
        return Parts(self.differences, by_pool, by_row)


def text_variance(settings: Sequence[Setting], weights: Sequence[float]) -> Float[ndarray, " rows"]:
    """Return the texts' part of the variance of each mean. Parts of settings that share a data set add up, since their
    texts are the same."""
    sizes: dict[str, ndarray] = {}
    for setting, weight in zip(settings, weights, strict=True):
        for number, pair in enumerate(setting.pairs):
            if setting.measured.per_text is None:
                continue
            common = setting.measured.common(pair)
            part = text_parts(setting.measured.per_text[np.array(pair)][:, common])[0]
            sizes.setdefault(setting.data, np.zeros(len(setting.pairs)))[number] += weight * math.sqrt(part)
    total: Float[ndarray, " rows"] = np.zeros(len(settings[0].pairs)) + sum(np.square(size) for size in sizes.values())
    return total


def largest_statistics(
    settings: Sequence[Setting], weights: Sequence[float], spreads: Sequence[float]
) -> Float[ndarray, " n"]:
    """Draw the largest |mean| / √variance of the rows in studies without effects, with the spread of each data set."""
    size = sum(setting.measured.values.size for setting in settings)
    draws = max(1000, min(DRAWS, NUMBERS // size))
    total, names = Total(settings, draws), list(dict.fromkeys(setting.data for setting in settings))
    for setting, weight, spread in zip(settings, weights, spreads, strict=True):
        generator = np.random.default_rng([20261128, names.index(setting.data)])  # settings of one data set draw alike
        drawn = spread * generator.standard_normal((draws, *setting.measured.values.shape))
        total.add(setting, weight, one_setting(drawn, setting))
    parts = total.parts()
    with np.errstate(invalid="ignore", divide="ignore"):
        statistics = np.nan_to_num(np.abs(parts.differences) / np.sqrt(parts.from_seeds))
    largest: Float[ndarray, " n"] = statistics.max(1)
    return largest


def factor_of_looks(setting: Setting, most_seeds: int) -> float:
    """Return how much larger cut-offs are than with a number of seeds that was fixed beforehand."""
    seeds = max(2, min(int(setting.measured.common(pair).sum()) for pair in setting.pairs))
    growing = Family(len(setting.measured.values), tuple(setting.pairs), most_seeds=most_seeds)
    fixed = Family(len(setting.measured.values), tuple(setting.pairs))
    at = [at_level(family.cutoffs(seeds).seeds, ALPHA) for family in (growing, fixed)]
    return max(1.0, at[0] / at[1])
