"""What a loss, a view or a metric says of itself beside its signature, in its own file as `FACTS = …`.

Planning reads these from the source (contrastive/config/registry.py), so keywords are written as literals. Whoever
prices, shares, splits or refuses something asks the facts, and never for a name.
"""

from dataclasses import dataclass
from typing import Any, Literal

# Ways in which processes split the training state, with DeepSpeed's stages of ZeRO or PyTorch's FSDP.
Splitting = Literal["zero1", "zero2", "zero3", "fsdp"]


@dataclass(frozen=True)
class Unsplittable:
    """Ways of splitting the training state under which it cannot be trained, and why: a clause such as "it reads …"."""

    ways: tuple[Splitting, ...]
    because: str


@dataclass(frozen=True)
class LossFacts:
    """A loss. Its first parameter says what it reads (views, logits, surprise), the others which settings."""

    vectors: int | None = None  # of each text that it compares, or predictions if it reads logits; None: any number
    compares: bool = True  # vectors or predictions, so that the view matters
    needs_batch: bool = True  # it compares the texts of a batch; False: a batch of one text teaches it something, too
    supervised: bool = False  # the term that weighs 1, against which `alpha` weighs the others
    contains: tuple[str, ...] = ()  # losses that its name stands for besides itself
    weight: str = "alpha"  # the setting that weighs it
    usual_view: str | None = None  # the view that it is made for, where the number of vectors does not tell
    least_texts: str | None = None  # the setting that says how many training texts it needs at least
    positives: Literal["class", "text"] | None = None  # whose vectors an InfoNCE draws together; its floor follows
    unsplittable: Unsplittable | None = None


@dataclass(frozen=True)
class ViewFacts:
    """A view. Its third parameter names a tool (slow, twin, judge, guess, lexicon, rephrase), the others settings."""

    vectors: int | None = None  # of each text, where that is fixed
    predictions: int = 1  # of the head, of each text
    passes: int = 1  # of the encoder over a text as it is
    changed_passes: int = 0  # over other words or embeddings of a text, which no store of frozen blocks holds
    slow_passes: int = 0  # of the encoder's slow copy
    partners: bool = False  # it encodes the texts that the data gives each text as partners, too
    # The blocks whose output it reads: the last, those of the setting `layers` or `middle`, any of them.
    looks_into: Literal["last", "layers", "middle", "all"] = "last"
    attention: bool = False  # it computes the attention of these blocks again, with their weights
    positions: bool = False  # it tells the encoder other positions
    judged: bool = False  # it asks the head how wrong it is
    unread: tuple[str, ...] = ()  # settings of its signature that it does not read
    unsplittable: Unsplittable | None = None
    variants: tuple["FactsVariant", ...] = ()  # what it is instead where a setting has a certain value


@dataclass(frozen=True)
class MetricFacts:
    """A metric of embeddings and predictions."""

    scores: tuple[str, ...] = ()  # names of what it gives; left out: one score of its own name
    of_classes: bool = False  # it tells classes apart, of which there must be two
    folded: bool = False  # it is cross-validated, so that each class needs as many texts as there are folds
    drops_twice: bool = False  # it reads vectors of two dropout masks of a text


@dataclass(frozen=True)
class FactsVariant:
    setting: str
    value: str
    facts: ViewFacts

    def applies(self, settings: Any) -> bool:
        return bool(getattr(settings, self.setting) == self.value)
