"""What every entry of VIEWS keeps, on a real encoder: a new view meets this contract without a test of its own."""

import inspect
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from contrastive.config import registry
from contrastive.config.facts import ViewFacts
from contrastive.views import VIEWS
from contrastive.views.batches import Batch
from contrastive.views.lexicon import Lexicon
from contrastive.views.translation import Rephrase
from contrastive.views.types import Encode, Encoded, Hidden, View
from tests.contrastive.views.conftest import batch_of

SETTINGS = {"k": 4, "clusters": 2, "layers": (0, 2), "level": "sentence", "middle": None}
SETTINGS |= {"rate": 0.3, "change": "feature_cutoff"}


class Case(NamedTuple):
    """A view, and settings that make a variant of it; what it says of itself with them."""

    name: str
    settings: dict[str, str]
    facts: ViewFacts

    def __str__(self) -> str:
        return "-".join([self.name, *self.settings.values()])


CASES = [
    case
    for name, line in registry.views().items()
    if "small" not in line.tools  # it cuts images: test_augment.py
    for case in (
        Case(name, {}, line.facts),
        *(Case(name, {variant.setting: variant.value}, variant.facts) for variant in line.facts.variants),
    )
]
WHOLE = {"span": (1, 6, 0)}  # each of its six is a part of a text
# All with bert; with deberta-v2 the first of each kind by what it asks of an encoder, but for changed positions, which
# deberta-v2, that only knows distances, has not.
FIRST = {(f.looks_into, f.attention, f.judged, f.changed_passes > 0): case for case in reversed(CASES)
         if not (f := case.facts).positions}  # fmt: skip
MET = [*((case, "bert") for case in CASES), *((case, "deberta-v2") for case in FIRST.values())]
every_view = pytest.mark.parametrize(("case", "encode"), MET, ids=str, indirect=["encode"])


@dataclass
class Seen:
    """What a view asked of the encoder, its copies and its head: texts encoded, and how."""

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
    """The encoder, noting what it is given; `texts` are those of the data."""

    def note(batch: Batch, **changes: object) -> Encoded:
        rows = [tuple(ids[kept].tolist()) for ids, kept in zip(batch.input_ids, batch.attention_mask, strict=True)]
        as_they_are = not changes and set(rows) <= texts
        seen.changes |= set(changes)
        seen.slow += len(rows) * slow
        seen.plain += len(rows) * (as_they_are and not slow)
        seen.changed += len(rows) * (not as_they_are and not slow)
        encoded = encode(batch, **changes)
        hidden = encoded.hidden if slow else WatchedHidden(encoded.hidden, seen)

        def attend(of: Encoded, block: int) -> Tensor:
            seen.changes.add("attention")
            return encoded.attention_row(of, block)

        return replace(encoded, hidden=hidden, attention_row=attend)

    return note


@pytest.fixture
def make(lexicon: Lexicon, rephrase: Rephrase, talkative: tuple[str, str]) -> partial[View]:
    return partial(made, {"lexicon": lexicon, "rephrase": rephrase}, {"translators": talkative})


def made(
    models: dict[str, object],
    named: dict[str, object],
    case: Case,
    encode: Encode,
    lengths: tuple[int, ...] = (6, 2, 5),
    seed: int = 1,
    seen: Seen | None = None,
) -> View:
    torch.manual_seed(seed)
    seen = seen or Seen()
    batch, positive = batch_of(*lengths), batch_of(*lengths[::-1])
    negative = batch_of(*(1 + length for length in lengths))
    given = (batch, positive, negative)
    texts = {
        tuple(ids[kept].tolist())
        for each in given
        for ids, kept in zip(each.input_ids, each.attention_mask, strict=True)
    }

    def head_loss(encoded: Encoded) -> Tensor:
        seen.changes.add("head_loss")
        return encoded.pooled().square().sum()

    tools = models | {
        "slow": watched(encode, seen, texts, slow=True),
        "twin": watched(encode, seen, texts),
        "head_loss": head_loss,
        "guess": lambda given, asked: replace(given, input_ids=given.input_ids.masked_fill(asked, 7)),
    }
    parameters = inspect.signature(VIEWS[case.name]).parameters.values()
    available = SETTINGS | named | case.settings
    settings = {p.name: available[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    settings |= {p.name: tools[p.name] for p in parameters if p.name in tools}
    return VIEWS[case.name](watched(encode, seen, texts), replace(batch, partners=(positive, negative)), **settings)


@every_view
def test_shapes_masks_and_gradients_to_the_encoder(case: Case, encode: Encode, make: partial[View]):
    """Of the gradients: through each sample's vectors; what the mask leaves out is not in the sum."""
    view = make(case, encode)
    assert view.sentences.shape == (3, case.facts.predictions, 16) and view.groups
    for group in view.groups:
        assert group.vectors.shape[::2] == (3, 16) and group.mask.shape == group.vectors.shape[:2]
        assert group.mask.any(1).all() and group.vectors.isfinite().all()
        assert case.facts.vectors in (None, group.vectors.shape[1])
        assert (group.targets is not None) == ("slow" in registry.views()[case.name].tools)
        assert (group.negatives is not None) == case.facts.partners
    negatives = [group.negatives for group in view.groups if group.negatives is not None]
    for tensor in (*(group.vectors[group.mask] for group in view.groups), *negatives, view.sentences):
        assert tensor.requires_grad
        (slope,) = torch.autograd.grad(tensor.square().sum(), leaf_of(tensor), retain_graph=True)
        assert slope.isfinite().all() and slope.abs().max() > 0


def leaf_of(tensor: Tensor) -> Tensor:
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable") and node.variable.ndim == 2:
            return node.variable
        waiting += [following for following, _ in node.next_functions]
    raise AssertionError("no way back to a weight of the encoder")


@every_view
def test_it_asks_of_the_encoder_what_it_says(case: Case, encode: Encode, make: partial[View]):
    seen, texts, facts = Seen(), 3, case.facts
    make(case, encode, lengths=(12, 11, 12), seen=seen)
    partners = 2 if facts.partners else 0
    passes = (facts.passes + partners, facts.changed_passes, facts.slow_passes)
    assert tuple(count / texts for count in (seen.plain, seen.changed, seen.slow)) == WHOLE.get(case.name, passes)
    said = {"attention": facts.attention, "positions": facts.positions, "head_loss": facts.judged}
    assert {change: change in seen.changes for change in said} == said
    lowest = {"last": seen.blocks - 1, "middle": (seen.blocks - 1) // 2, "layers": 0, "all": -1}[facts.looks_into]
    assert min(seen.inputs) >= lowest + (not facts.attention), "it looks into a lower block than it says"


@every_view
def test_the_same_seed_gives_the_same_views(case: Case, encode: Encode, make: partial[View]):
    first, again, other = make(case, encode), make(case, encode), make(case, encode, seed=2)
    for one, two, three in zip(first.groups, again.groups, other.groups, strict=True):
        assert torch.equal(one.vectors, two.vectors) and torch.equal(one.mask, two.mask)
        assert not torch.equal(one.vectors, three.vectors)  # dropout is on


@every_view
def test_a_text_of_one_word_has_views(case: Case, encode: Encode, make: partial[View]):
    for group in make(case, encode, lengths=(1, 6)).groups:
        assert group.mask[0].any() and group.vectors[group.mask].isfinite().all()
