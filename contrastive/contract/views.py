"""Checks of a view, on a tiny encoder with random weights."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from contrastive.config import registry
from contrastive.config.cell import Encoder, Scratch
from contrastive.config.facts import ViewFacts
from contrastive.contract import Broken, Checks, demand, examples_of
from contrastive.models import encoder as encoders
from contrastive.views import VIEWS
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, Encoded, Hidden, View

CLS, SEP, PAD = 2, 3, 0
WIDTH = 16
SETTINGS = {"k": 4, "clusters": 2, "layers": (0, 2), "level": "sentence", "middle": None}
SETTINGS |= {"rate": 0.3, "change": "feature_cutoff"}
UNKNOWN_TOOLS = {"lexicon", "rephrase", "small"}  # they need a tokenizer, translators or images
Make: TypeAlias = Callable[..., View]


class Case(NamedTuple):
    """A view, and settings that make a variant of it; what it says of itself with them."""

    name: str
    settings: dict[str, str]
    facts: ViewFacts

    def __str__(self) -> str:
        return "-".join([self.name, *self.settings.values()])


def cases_of(name: str) -> list[Case]:
    facts = registry.views()[name].facts
    variants = [Case(name, {variant.setting: variant.value}, variant.facts) for variant in facts.variants]
    return [Case(name, {}, facts), *variants]


def checks_of_file(name: str, copy: str) -> Checks:
    """Return the checks of a view; none if it needs a tool that cannot be made here."""
    if UNKNOWN_TOOLS & set(registry.views()[name].tools):
        return {}
    return {
        " ".join([title, *(f"with {value}" for value in case.settings.values())]): partial(
            check, case, partial(made, case, tiny_encoder(), {})
        )
        for case in cases_of(name)
        for title, check in CHECKS.items()
    }


def tiny_encoder(kind: str = "bert") -> Encode:
    """Return a pass through three blocks in training mode, with dropout."""
    torch.manual_seed(0)
    sizes = Scratch(layers=3, hidden=WIDTH, heads=2, vocabulary=64)
    backbone = encoders.load_encoder(Encoder.model_validate({"model": f"scratch:{kind}", "scratch": sizes}), 64, PAD)
    return partial(encode_with, backbone.train(), nn.Dropout(0.5))


def encode_with(backbone: nn.Module, dropout: nn.Module, batch: Batch, **changes: Any) -> Encoded:
    return encoders.encode(backbone, batch, "cls", dropout, **changes)


def batch_of(*lengths: int) -> Batch:
    """Return texts of so many words between CLS and SEP, padded."""
    longest = max(lengths) + 2
    ids = torch.full((len(lengths), longest), PAD)
    for row, words in zip(ids, lengths, strict=True):
        row[: words + 2] = torch.tensor([CLS, *range(5 + words, 5, -1), SEP])
    mask = ids != PAD
    return Batch(ids, mask, ~mask | (ids == CLS) | (ids == SEP), torch.arange(len(lengths)) % 2)


@dataclass
class Seen:
    """Record of what a view asked of the encoder, its copies and its head: texts encoded, and how."""

    plain: int = 0
    changed: int = 0
    slow: int = 0
    changes: set[str] = field(default_factory=set)
    inputs: set[int] = field(default_factory=set)  # blocks of which it looked at what went in
    blocks: int = 0


class WatchedHidden(Hidden):
    def __init__(self, hidden: Hidden, seen: Seen):
        super().__init__(hidden.states, hidden.first)
        self.seen, seen.blocks = seen, len(hidden)

    def into(self, block: int) -> Tensor:
        self.seen.inputs.add(block)
        return super().into(block)


def watched(encode: Encode, seen: Seen, texts: set[tuple[int, ...]], slow: bool = False) -> Encode:
    """Return the encoder, noting what it is given; `texts` are those of the data."""

    def note(batch: Batch, **changes: Any) -> Encoded:
        as_they_are = not changes and set(rows_of(batch)) <= texts
        seen.changes |= set(changes)
        seen.slow += len(batch) * slow
        seen.plain += len(batch) * (as_they_are and not slow)
        seen.changed += len(batch) * (not as_they_are and not slow)
        encoded = encode(batch, **changes)
        hidden = encoded.hidden if slow else WatchedHidden(encoded.hidden, seen)

        def attend(of: Encoded, block: int) -> Tensor:
            seen.changes.add("attention")
            return encoded.attention_row(of, block)

        return replace(encoded, hidden=hidden, attention_row=attend)

    return note


def rows_of(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(ids[kept].tolist()) for ids, kept in zip(batch.input_ids, batch.attention_mask, strict=True)]


def made(
    case: Case,
    encode: Encode,
    more: dict[str, Any],
    lengths: tuple[int, ...] = (6, 2, 5),
    seed: int = 1,
    seen: Seen | None = None,
) -> View:
    """Call a view on texts of these lengths. `more`: tools and settings besides those that are made here."""
    torch.manual_seed(seed)
    seen = seen or Seen()
    positive, negative = batch_of(*lengths[::-1]), batch_of(*(1 + length for length in lengths))
    batch = replace(batch_of(*lengths), partners=(positive, negative))
    texts = {row for each in (batch, positive, negative) for row in rows_of(each)}

    def head_loss(encoded: Encoded) -> Tensor:
        seen.changes.add("head_loss")
        return encoded.pooled().square().sum()

    available: dict[str, Any] = {
        "slow": watched(encode, seen, texts, slow=True),
        "twin": watched(encode, seen, texts),
        "head_loss": head_loss,
        "guess": lambda given, asked: replace(given, input_ids=given.input_ids.masked_fill(asked, 7)),
    }
    available |= SETTINGS | examples_of(registry.views()[case.name]) | more | case.settings
    wanted = [parameter for parameter in inspect.signature(VIEWS[case.name]).parameters if parameter in available]
    return VIEWS[case.name](watched(encode, seen, texts), batch, **{name: available[name] for name in wanted})


def has_shapes_and_masks(case: Case, make: Make) -> None:
    view, facts = make(), case.facts
    shape = (3, facts.predictions, WIDTH)
    demand(view.sentences.shape == shape, f"its sentences are {tuple(view.sentences.shape)}, and should be {shape}")
    demand(view.groups, "it has no group of vectors")
    for group in view.groups:
        arrived = tuple(group.vectors.shape)
        demand(arrived[::2] == (3, WIDTH), f"vectors of 3 texts are {arrived}: make them texts × vectors × dimensions")
        demand(group.mask.shape == arrived[:2], f"its mask is {tuple(group.mask.shape)} for vectors {arrived}")
        demand(group.mask.any(1).all(), "a text has no vector that the mask keeps")
        demand(group.vectors.isfinite().all(), "vectors are not finite")
        demand(facts.vectors in (None, arrived[1]), f"its facts say {facts.vectors} vectors, and it makes {arrived[1]}")
        slow = "slow" in registry.views()[case.name].tools
        demand((group.targets is not None) == slow, "it has targets without the tool `slow`, or this without targets")
        demand(
            (group.negatives is not None) == facts.partners, "its facts say `partners` if it has negatives, only then"
        )


def reaches_the_encoder(case: Case, make: Make) -> None:
    """Through each text's vectors; what the mask leaves out is not in the sum."""
    view = make()
    parts = [*(group.vectors[group.mask] for group in view.groups), view.sentences]
    parts += [group.negatives for group in view.groups if group.negatives is not None]
    for tensor in parts:
        demand(tensor.requires_grad, "its vectors have no gradient: something detaches them")
        (slope,) = torch.autograd.grad(tensor.square().sum(), leaf_of(tensor), retain_graph=True)
        demand(slope.isfinite().all() and slope.abs().max() > 0, "the gradient to the encoder is 0 or not finite")


def leaf_of(tensor: Tensor) -> Tensor:
    """Return a weight of the encoder that the tensor was computed with."""
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        weight = getattr(node, "variable", None)
        if weight is not None and weight.ndim == 2:
            return weight
        waiting += [following for following, _ in node.next_functions]
    raise Broken("no way back to a weight of the encoder: something detaches the vectors")


def asks_what_it_says(case: Case, make: Make, whole: tuple[int, int, int] | None = None) -> None:
    """`whole`: the passes, if parts of texts count as other texts."""
    seen, texts, facts = Seen(), 3, case.facts
    make(lengths=(12, 11, 12), seen=seen)
    passes = (facts.passes + (2 if facts.partners else 0), facts.changed_passes, facts.slow_passes)
    found = tuple(number / texts for number in (seen.plain, seen.changed, seen.slow))
    names = "passes, changed_passes, slow_passes"
    demand(found == (whole or passes), f"({names}) are {found} a text, and its facts say {passes}: correct them")
    said = {"attention": facts.attention, "positions": facts.positions, "head_loss": facts.judged}
    asked = {change: change in seen.changes for change in said}
    demand(asked == said, f"it uses {asked}, and its facts (attention, positions, judged) say {said}")
    lowest = {"last": seen.blocks - 1, "middle": (seen.blocks - 1) // 2, "layers": 0, "all": -1}[facts.looks_into]
    fits = min(seen.inputs, default=seen.blocks) >= lowest + (not facts.attention)
    demand(fits, f'it looks into a lower block than looks_into="{facts.looks_into}" says')


def same_seed_same_views(case: Case, make: Make) -> None:
    first, again, other = make(), make(), make(seed=2)
    for one, two, three in zip(first.groups, again.groups, other.groups, strict=True):
        same = torch.equal(one.vectors, two.vectors) and torch.equal(one.mask, two.mask)
        demand(same, "the same seed gives other vectors: draw random numbers with torch alone")
        demand(not torch.equal(one.vectors, three.vectors), "another seed gives the same vectors, in spite of dropout")


def one_word_has_views(case: Case, make: Make) -> None:
    for group in make(lengths=(1, 6)).groups:
        demand(group.mask[0].any(), "a text of one word has no vector that the mask keeps")
        demand(group.vectors[group.mask].isfinite().all(), "vectors of a text of one word are not finite")


CHECKS: dict[str, Callable[[Case, Make], None]] = {
    "it has shapes and masks": has_shapes_and_masks,
    "gradients reach the encoder": reaches_the_encoder,
    "it asks of the encoder what its facts say": asks_what_it_says,
    "the same seed gives the same views": same_seed_same_views,
    "a text of one word has views": one_word_has_views,
}
