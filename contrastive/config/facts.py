"""Types of the facts that a loss, view or metric declares beyond its signature: of `cls`, the constant `CLS_FACTS`.

Planning reads them from the source (contrastive/config/registry.py), so the values are literals. Code that estimates
cost, shares passes, shards or rejects settings looks at facts, never at the name of a loss, view or metric.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

# How processes split the training state: DeepSpeed's ZeRO stages or PyTorch's FSDP.
Splitting = Literal["zero1", "zero2", "zero3", "fsdp"]


@dataclass(frozen=True)
class Unsplittable:
    """Ways of splitting the training state that do not work, and the reason as a clause such as "it reads …"."""

    ways: tuple[Splitting, ...]
    because: str


@dataclass(frozen=True)
class LossFacts:
    """Facts of a loss. Its first parameter names its input (views, logits, surprise), the others its settings."""

    vectors: int | None = None  # vectors (or predictions, if it reads logits) per text; None: any number
    compares: bool = True  # it compares vectors or predictions, so that the view matters
    needs_batch: bool = True  # it compares the texts of a batch; False: it can train on one text
    supervised: bool = False  # it has weight 1, and `alpha` weighs the other terms against it
    contains: tuple[str, ...] = ()  # further losses that are part of it
    weight: str = "alpha"  # the setting that holds its weight
    usual_view: str | None = None  # its view if none is set; None: the first usual view that fits
    least_texts: str | None = None  # the setting that is the least number of training texts
    positives: Literal["class", "text"] | None = None  # what an InfoNCE pulls together; gives its lower bound
    unsplittable: Unsplittable | None = None


@dataclass(frozen=True)
class ViewFacts:
    """Facts of a view. Its third parameter names a tool (slow, twin, small, head_loss, guess, lexicon, rephrase), the
    others settings."""

    vectors: int | None = None  # vectors per text; None: not fixed
    predictions: int = 1  # predictions of the head per text
    passes: int = 1  # passes of the encoder over the unchanged text
    changed_passes: int = 0  # passes over changed words or embeddings, which no frozen store holds
    slow_passes: int = 0  # passes of the slow copy of the encoder
    partners: bool = False  # it also encodes the partner texts (positives, hard negatives) of the data
    # The blocks whose output it reads: the last, those of the settings `layers` or `middle`, or all.
    looks_into: Literal["last", "layers", "middle", "all"] = "last"
    attention: bool = False  # it recomputes the attention of these blocks
    positions: bool = False  # it changes the position ids
    judged: bool = False  # it follows the gradient of the cross-entropy
    unread: tuple[str, ...] = ()  # settings in its signature that it does not read
    unsplittable: Unsplittable | None = None
    variants: tuple["FactsVariant", ...] = ()  # facts that replace these at certain values of a setting


@dataclass(frozen=True)
class ScoreFacts:
    """Range of a score. One between 0 and 1 that is compared is a share, shown in percent."""

    name: str
    low: float | None = 0.0  # lowest and highest possible value; None: no limit
    high: float | None = 1.0
    compared: bool = True  # False: it describes vectors, or is an alarm; it has no margin
    counted: bool = False  # computed from counts of texts, so that seeds may agree by chance
    guessed: bool = False  # the share of texts that a classifier gets right

    @property
    def limits(self) -> tuple[float, float]:
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    @property
    def width(self) -> float:
        """Difference between the greatest and least value of a score that is compared; infinite if unbounded."""
        low, high = self.limits
        return high - low if self.compared else math.inf


@dataclass(frozen=True)
class MetricFacts:
    """Facts of a metric of embeddings and predictions."""

    scores: tuple[ScoreFacts, ...] = ()  # left out: one of its own name and without limits
    of_classes: bool = False  # it needs texts of at least two classes
    folded: bool = False  # it is cross-validated, so each class needs at least as many texts as folds
    needs_dropout_pairs: bool = False  # it reads vectors of each text under two dropout masks


@dataclass(frozen=True)
class FactsVariant:
    """Facts of a view when `setting` has `value`."""

    setting: str
    value: str
    facts: ViewFacts

    def applies(self, settings: Any) -> bool:
        return bool(getattr(settings, self.setting) == self.value)


def middle(blocks: int) -> int:
    """Return the number of the middle block, where `looks_into` is "middle" and no setting names it."""
    return (blocks - 1) // 2
