"""Inputs and Score: what a metric takes and returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer

from contrastive.errors import UserError


class NotMeasurable(UserError):
    """This score is undefined for these texts, whatever their vectors; other scores may exist."""


@dataclass(frozen=True)
class Inputs:
    """One split of one cell: vectors, labels and, for the vectors that were trained, the logits of the head."""

    embeddings: Float[np.ndarray, "n d"]
    labels: Integer[np.ndarray, " n"]
    logits: Float[np.ndarray, "n c"] | None
    folds: int
    twice: Float[np.ndarray, "m 2 d"] | None = None  # some texts, each embedded with two dropout masks

    @property
    def predictions(self) -> Integer[np.ndarray, " n"] | None:
        return None if self.logits is None else self.logits.argmax(1)

    def check(self) -> None:
        if len(self.embeddings) == 0:
            raise UserError("there are no embeddings to measure: set data.test, or choose evaluation.splits with texts")
        for name, array in (
            ("embeddings", self.embeddings),
            ("predictions", self.logits),
            ("embeddings with dropout", self.twice),
        ):
            if array is not None:
                check_finite(array, name)

    def check_folds(self) -> None:
        self.check_classes()
        smallest = int(np.unique(self.labels, return_counts=True)[1].min())
        if smallest < self.folds:
            raise NotMeasurable(
                f"{self.folds} folds need {self.folds} texts per class; the smallest class has {smallest}: "
                "set evaluation.folds lower, or give the split more texts"
            )

    def check_classes(self) -> None:
        if len(np.unique(self.labels)) < 2:
            raise NotMeasurable(
                f"all {len(self.labels)} texts are of one class: this score needs at least two classes; give the split "
                "texts of others"
            )


def check_finite(array: Float[np.ndarray, "n ..."], what: str, of: str = "") -> None:
    """Raise UserError if rows of an array contain NaN or infinity; the message begins with `of`."""
    if bad := int((~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))).sum()):
        raise UserError(
            f"{of}{bad} of {len(array)} {what} contain NaN or infinity: the training diverged; try a lower learning "
            "rate"
        )


@dataclass(frozen=True)
class Score:
    """One score. `higher_is_better` is None for descriptive scores, where neither direction is better."""

    name: str
    value: float
    higher_is_better: bool | None
    count: int  # number of examples it is computed from
    unit: str = ""
    standard_error: float | None = None
    per_example: Any = field(default=None, repr=False, compare=False)  # contribution of each example, for paired tests

    def described(self) -> dict[str, Any]:
        """Return the fields for scores.json; `per_example` goes into examples.npz."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "per_example"}


def proportion(name: str, right: Bool[np.ndarray, " n"]) -> Score:
    """Return the share of right answers, with its standard error √(p(1 − p)/n)."""
    value, count = float(np.mean(right)), len(right)
    return Score(name, value, True, count, "", (value * (1 - value) / count) ** 0.5, right)


def average(name: str, values: Float[np.ndarray, " n"], higher_is_better: bool | None) -> Score:
    """Return the mean over examples, with its standard error s/√n (None for a single example)."""
    count = len(values)
    error = float(values.std(ddof=1)) / count**0.5 if count > 1 else None
    return Score(name, float(values.mean(dtype=np.float64)), higher_is_better, count, "", error, values)
