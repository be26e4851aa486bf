"""What of a difference is too small to matter: declared by an experiment file, or usual for a kind of score."""

import math
import re
from collections.abc import Mapping

USUAL = 0.01
# the last part of a score's name, and what lies between its least and its greatest value
WIDTHS = (
    (re.compile(r".*accuracy|.*f1|nmi|ece|precision_at_\d+|map_at_r"), 1.0),
    (re.compile(r"ari|silhouette|matthews|mean|(spearman|pearson)(_.*)?"), 2.0),
)


def score_width(score: str) -> float:
    """From the least to the greatest value that a score can have; infinite where it has no bounds, or none is known."""
    return next((size for kind, size in WIDTHS if kind.fullmatch(metric(score))), math.inf)


def margin(score: str, declared: Mapping[str, float]) -> float | None:
    """By its full name, its metric's, or what is usual; None of a score without bounds that nothing was declared of."""
    bare = score.rpartition("/")[2]
    if bare in declared or metric(score) in declared:
        return declared.get(bare, declared.get(metric(score)))
    return USUAL if math.isfinite(score_width(score)) else None


def metric(score: str) -> str:
    """`svm_accuracy` of whiten:64/test.svm_accuracy."""
    return score.rpartition("/")[2].partition(".")[2].rpartition(".")[2]
