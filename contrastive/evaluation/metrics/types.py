"""What a measure gets and gives."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer

from contrastive.errors import UserError


class NotMeasurable(UserError):
    """These texts cannot have this score, whatever their vectors are; they may have others."""


@dataclass(frozen=True)
class Inputs:
    """One split of one cell: vectors, labels, and, beside the vectors that it trained, what its head says of them."""

    embeddings: Float[np.ndarray, "n d"]
    labels: Integer[np.ndarray, " n"]
    logits: Float[np.ndarray, "n c"] | None
    folds: int
    twice: Float[np.ndarray, "m 2 d"] | None = None  # some of the texts through two dropout masks each

    @property
    def predictions(self) -> Integer[np.ndarray, " n"] | None:
        return None if self.logits is None else self.logits.argmax(1)

    def check(self) -> None:
        if len(self.embeddings) == 0:
            raise UserError(
                "there are no embeddings to measure: set data.test, or evaluation.splits, to a split with texts"
            )
        for name, numbers in (("embeddings", self.embeddings), ("predictions", self.logits), ("dropped", self.twice)):
            if numbers is not None and not np.isfinite(numbers).all():
                bad = int((~np.isfinite(numbers).reshape(len(numbers), -1).all(1)).sum())
                raise UserError(f"{bad} of {len(numbers)} {name} hold NaN or infinity: the training diverged")

    def check_folds(self) -> None:
        self.check_classes()
        smallest = int(np.unique(self.labels, return_counts=True)[1].min())
        if smallest < self.folds:
            raise NotMeasurable(too_few(self.folds, smallest))

    def check_classes(self) -> None:
        if len(np.unique(self.labels)) < 2:
            raise NotMeasurable(one_class(len(self.labels)))


def one_class(count: int) -> str:
    return f"all {count} texts are of one class, which can be told from no other: give the split texts of others"


def too_few(folds: int, smallest: int) -> str:
    return (
        f"{folds} folds need {folds} texts a class; the smallest class has {smallest}: "
        "set evaluation.folds lower, or give the split more texts"
    )


@dataclass(frozen=True)
class Score:
    """One number of a measure. One that describes, and by which nothing is better or worse, has no direction."""

    name: str
    value: float
    higher_is_better: bool | None
    count: int  # examples it rests on
    unit: str = ""
    standard_error: float | None = None
    each: Any = field(default=None, repr=False, compare=False)  # what each example adds to it, for paired tests

    def described(self) -> dict[str, Any]:
        """What scores.json keeps of it; `each` has a file of its own."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "each"}


def proportion(name: str, right: Bool[np.ndarray, " n"]) -> Score:
    """The share of right answers, with its standard error √(p(1 − p)/n)."""
    value, count = float(np.mean(right)), len(right)
    return Score(name, value, True, count, "", (value * (1 - value) / count) ** 0.5, right)


def average(name: str, values: Float[np.ndarray, " n"], higher_is_better: bool | None, unit: str = "") -> Score:
    """The mean of a number that each example has, with its standard error s/√n; of one example there is none."""
    count = len(values)
    error = float(values.std(ddof=1)) / count**0.5 if count > 1 else None
    return Score(name, float(values.mean(dtype=np.float64)), higher_is_better, count, unit, error, values)
