"""Studies drawn from the seed bank, what they conclude in several ways, and which of that the whole bank confirms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy import stats

from benchmarks.seed_bank import Bank
from benchmarks.simulation import up_to
from reports.statistics.cutoffs import Pair, looks_up_to
from reports.statistics.decide import ALPHA, DECIDED, Decided, Measurements, decide, text_parts, verdict
from reports.statistics.futility import FUTILE, chance_of_deciding

MARGIN = 0.01
TEXTS = 2000  # of a study


@dataclass(frozen=True)
class Truth:
    """What the whole bank says of each recipe beside the first, and how well it knows that."""

    differences: Float[ndarray, " comparisons"]
    errors: Float[ndarray, " comparisons"]

    @property
    def beyond(self) -> Bool[ndarray, " comparisons"]:
        return np.asarray(np.abs(self.differences) >= MARGIN)


@dataclass(frozen=True)
class Conclusions:
    """Of many studies by the same design."""

    verdicts: ndarray  # studies × comparisons, of words
    seeds: Int[ndarray, "studies rows"]

    @property
    def undecided(self) -> Float[ndarray, " studies"]:
        return np.sum(~np.isin(self.verdicts, DECIDED), axis=1, dtype=float)

    @property
    def cells(self) -> Float[ndarray, " studies"]:
        return self.seeds.sum(1).astype(float)

    def minutes(self, bank: Bank) -> Float[ndarray, " studies"]:
        return self.seeds @ bank.seconds / 60

    def right(self, truth: Truth) -> Bool[ndarray, "studies comparisons"]:
        """A right sign, or equivalent where the truth is within the margin."""
        return np.asarray(np.isin(self.verdicts, DECIDED) & ~self.wrong(truth))

    def true(self, truth: Truth) -> Float[ndarray, " studies"]:
        """How many conclusions of each study are."""
        return self.right(truth).sum(1, dtype=float)

    def any_false(self, truth: Truth, errors: float = 0.0) -> Bool[ndarray, " studies"]:
        """Whether any is; `errors`: that many standard errors of the truth are allowed for."""
        return np.asarray(self.wrong(truth, errors).any(1))

    def wrong(self, truth: Truth, errors: float = 0.0) -> Bool[ndarray, "studies comparisons"]:
        low, high = truth.differences - errors * truth.errors, truth.differences + errors * truth.errors
        beyond = (low >= MARGIN) | (high <= -MARGIN)
        said = self.verdicts
        wrong_sign = ((said == "better") & (high <= 0)) | ((said == "worse") & (low >= 0))
        return np.asarray(wrong_sign | ((said == "equivalent") & beyond))


def together(studies: Sequence[Conclusions]) -> Conclusions:
    return Conclusions(np.concatenate([s.verdicts for s in studies]), np.concatenate([s.seeds for s in studies]))


def truth_of(bank: Bank) -> Truth:
    """Each difference, and its error over seeds and texts: of this pair alone, without pool or floor."""
    values = bank.right.mean(2)
    apart = values[1:] - values[0]
    of_texts = [text_parts(bank.right[[row, 0]])[0] for row in range(1, len(values))]
    return Truth(apart.mean(1), np.sqrt(apart.var(1, ddof=1) / apart.shape[1] + np.array(of_texts)))


def pairs_with_first(rows: int) -> tuple[Pair, ...]:
    return tuple((row, 0) for row in range(1, rows))


def called(lines: Sequence[Decided], margin: float | None = MARGIN) -> ndarray:
    """The verdict of each comparison of a study."""
    return np.array([verdict(line.difference, line.half_width, True, margin, line.seeds) for line in lines])


def measured(each: Bool[ndarray, "rows seeds texts"], over_texts: bool = True) -> Measurements:
    """Of these texts and no others, where not `over_texts`."""
    return Measurements(each.mean(2), each if over_texts else None, each.shape[2])


def fixed(study: Measurements, seeds: int) -> Conclusions:
    """A study of so many seeds."""
    rows = len(study.values)
    of_each = np.full(rows, seeds)
    return Conclusions(called(decide(up_to(study, of_each), pairs_with_first(rows)))[None], of_each[None])


def stopping(study: Measurements, most: int, gives_up: bool = True) -> Conclusions:
    verdicts, seeds, _ = looked_at(study, most, gives_up)
    return Conclusions(verdicts[None], seeds[None])


def looked_at(
    study: Measurements, most: int, gives_up: bool = True, margin: float | None = MARGIN
) -> tuple[ndarray, Int[ndarray, " rows"], list[Decided]]:
    """At each look, the rows that are undecided and the baseline go on, with `gives_up` only those that may be decided;
    what is decided stands. Return the verdicts, the seeds, and each comparison as it was when its row stopped."""
    rows = len(study.values)
    seeds, goes_on = np.zeros(rows, int), np.ones(rows, bool)
    verdicts, last = np.full(rows - 1, "not yet looked at"), list[Decided]()
    for look in looks_up_to(most):
        seeds[goes_on] = look
        lines = decide(up_to(study, seeds), pairs_with_first(rows), most_seeds=most)
        verdicts = np.where(goes_on[1:], called(lines, margin), verdicts)
        last = [new if goes else old for new, old, goes in zip(lines, last or lines, goes_on[1:], strict=True)]
        goes_on[1:] &= ~np.isin(verdicts, DECIDED)
        for row in np.flatnonzero(goes_on[1:]) if gives_up and look < most else ():
            chance = chance_of_deciding(lines[row], pairs_with_first(rows), rows, margin, 1.0, most)
            goes_on[1 + row] = chance >= FUTILE
        if not goes_on[1:].any():
            break
    return verdicts, seeds, last


def by_t_and_holm(values: Float[ndarray, "studies rows most"], seeds: int) -> Conclusions:
    """Paired t-tests over so many seeds, Holm over the comparisons of a study; they never say equivalent."""
    apart = values[:, 1:, :seeds] - values[:, :1, :seeds]
    means, errors = apart.mean(2), apart.std(2, ddof=1) / np.sqrt(seeds)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.nan_to_num(2 * stats.t.sf(np.abs(means) / errors, seeds - 1), nan=1.0)
    said = np.where(holm(p) > ALPHA, "undecided", np.where(means > 0, "better", "worse"))
    return Conclusions(said, np.full(values.shape[:2], seeds))


def holm(p: Float[ndarray, "studies comparisons"]) -> Float[ndarray, "studies comparisons"]:
    """Adjusted over the comparisons of each study (Holm, 1979)."""
    order = np.argsort(p, axis=1)
    steps = np.take_along_axis(p, order, 1) * np.arange(p.shape[1], 0, -1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(steps, axis=1), 1)
    return adjusted


def drawn(bank: Bank, seeds: int, generator: np.random.Generator) -> Bool[ndarray, "recipes seeds texts"]:
    """A study of all recipes at seeds of the bank, each at most once, on texts of its own."""
    columns = generator.choice(len(bank.seeds), seeds, replace=False)
    texts = np.sort(generator.choice(bank.right.shape[2], TEXTS, replace=False))
    return bank.right[:, columns[:, None], texts]


def against_itself(
    bank: Bank, recipe: int, rows: int, seeds: int, generator: np.random.Generator
) -> Bool[ndarray, "rows seeds texts"]:
    """A study whose rows are all of the same recipe, each with seeds that no other row has."""
    columns = generator.choice(len(bank.seeds), rows * seeds, replace=False).reshape(rows, seeds)
    texts = np.sort(generator.choice(bank.right.shape[2], TEXTS, replace=False))
    return bank.right[recipe][columns[:, :, None], texts]
