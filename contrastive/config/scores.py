"""Ranges and usual margins of scores: from the facts of their metric, or by name for other programs' scores."""

import math
import re
from collections.abc import Mapping
from functools import cache

from contrastive.config import registry
from contrastive.config.facts import ScoreFacts

USUAL_MARGIN = 0.01
CORRELATIONS = ("spearman", "pearson")
# Scores of transfer data (contrastive/evaluation/transfer.py), and "transfer.mean", their mean
TRANSFER = (
    *(ScoreFacts(f"{kind}_all", low=-1.0) for kind in CORRELATIONS),
    *(ScoreFacts(f"{kind}_10") for kind in ("ndcg", "mrr", "recall")),
    ScoreFacts("f1"),
    ScoreFacts("matthews", low=-1.0),
)
# Names of other programs' scores: shares, and scores between −1 and 1
SHARES = re.compile(
    r"(.*accuracy|(.*[_ -])?acc|.*f1([_ -]score)?|nmi|ece|recall|precision(_at_\d+)?|map_at_r|au(ro)?c|exact[_ ]match)"
    r"(?: ?\(?%\)?)?",
    re.IGNORECASE,
)
SIGNED = re.compile(rf"(ari|silhouette|matthews|mean|({'|'.join(CORRELATIONS)})(_.*)?)(?: ?\(?%\)?)?", re.IGNORECASE)


@cache
def score_facts(score: str) -> ScoreFacts:
    """Return the facts of a score by its name, such as whiten:64/test.svm_accuracy; without limits if unknown."""
    name = metric_of(score)
    known = {facts.name: facts for entry in registry.metrics().values() for facts in entry.facts.scores}
    known |= {facts.name: facts for facts in TRANSFER}
    if name in known:
        return known[name]
    if SHARES.fullmatch(name):
        return ScoreFacts(name)
    return ScoreFacts(name, low=-1.0) if SIGNED.fullmatch(name) else ScoreFacts(name, low=None, high=None)


def margin_of(score: str, declared: Mapping[str, float]) -> float | None:
    """Look up the margin of equivalence by score, then by metric, then the default; None for an unbounded score."""
    bare = score.rpartition("/")[2]
    if bare in declared or metric_of(score) in declared:
        return declared.get(bare, declared.get(metric_of(score)))
    return USUAL_MARGIN if math.isfinite(score_facts(score).width) else None


def title_of(score: str) -> str:
    """Return the name of a score for readers: without our variant, and without the split if it is that of the test."""
    bare = re.fullmatch(r"(?:.+/)?(?:test|transfer)\.(.+)", score)
    return bare[1] if bare else score


def metric_of(score: str) -> str:
    """Return the metric in the name of a score: `svm_accuracy` for whiten:64/test.svm_accuracy."""
    return score.rpartition("/")[2].rpartition(".")[2]
