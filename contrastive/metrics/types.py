"""What a metric gets and gives."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Integer

from contrastive.errors import UserError


@dataclass(frozen=True)
class Inputs:
    """One split of one cell: vectors, labels, and the head's predictions where there is a head."""

    embeddings: Float[np.ndarray, "n d"]
    labels: Integer[np.ndarray, " n"]
    predictions: Integer[np.ndarray, " n"] | None
    folds: int

    def check(self) -> None:
        if len(self.embeddings) == 0:
            raise UserError(
                "there are no embeddings to measure: set data.test, or evaluation.splits, to a split with texts"
            )
        if not np.isfinite(self.embeddings).all():
            bad = int((~np.isfinite(self.embeddings).all(1)).sum())
            raise UserError(f"{bad} of {len(self.embeddings)} embeddings hold NaN or infinity: the training diverged")

    def check_folds(self) -> None:
        counts = np.unique(self.labels, return_counts=True)[1]
        if len(counts) < 2:
            raise UserError(f"all {len(self.labels)} texts are of one class, which nothing can be separated from: "
                            "give the split more texts")  # fmt: skip
        smallest = int(counts.min())
        if smallest < self.folds:
            raise UserError(f"{self.folds} folds need {self.folds} texts a class; the smallest class has {smallest}: "
                            "set evaluation.folds lower, or give the split more texts")  # fmt: skip


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    higher_is_better: bool
    count: int  # examples it rests on
    unit: str = ""
    standard_error: float | None = None


def proportion(name: str, right: Bool[np.ndarray, " n"]) -> Score:
    """The share of right answers, with its standard error √(p(1 − p)/n)."""
    value, count = float(np.mean(right)), len(right)
    return Score(name, value, True, count, standard_error=(value * (1 - value) / count) ** 0.5)
