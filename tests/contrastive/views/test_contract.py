"""What every entry of VIEWS keeps, on a real encoder: a new view meets this contract without a test of its own."""

import inspect
from dataclasses import replace
from functools import partial

import pytest
import torch

from contrastive.views import TWICE, VIEWS
from contrastive.views.tools.lexicon import Lexicon
from contrastive.views.tools.translation import Rephrase
from contrastive.views.types import Encode, View
from tests.contrastive.views.conftest import batch_of

SETTINGS = {
    "k": 4,
    "clusters": 2,
    "layers": (0, 2),
    "level": "token",
    "middle": None,
    "rate": 0.3,
    "change": "feature_cutoff",
}
every_view = pytest.mark.parametrize("name", VIEWS)


@pytest.fixture
def make(lexicon: Lexicon, rephrase: Rephrase, talkative: tuple[str, str]) -> partial[View]:
    return partial(made, {"lexicon": lexicon, "rephrase": rephrase}, {"translators": talkative})


def made(
    models: dict[str, object],
    named: dict[str, object],
    name: str,
    encode: Encode,
    lengths: tuple[int, ...] = (6, 2, 5),
    seed: int = 1,
) -> View:
    torch.manual_seed(seed)
    parameters = inspect.signature(VIEWS[name]).parameters.values()
    settings = {p.name: (SETTINGS | named)[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    batch = batch_of(*lengths)
    tools = models | {
        "slow": encode,
        "twin": encode,
        "judge": lambda encoded: encoded.pooled().square().sum(),
        "guess": lambda given, asked: replace(given, input_ids=given.input_ids.masked_fill(asked, 7)),
    }
    settings |= {p.name: tools[p.name] for p in parameters if p.name in tools}
    positive, negative = batch_of(*lengths[::-1]), batch_of(*(1 + length for length in lengths))
    return VIEWS[name](encode, replace(batch, partners=(positive, negative)), **settings)


@every_view
def test_shapes_and_masks(name: str, encode: Encode, make: partial[View]):
    view = make(name, encode)
    passes = 2 if name in (*TWICE, "momentum") else 1
    assert view.sentences.shape == (3, passes, 16) and view.groups
    for group in view.groups:
        assert group.vectors.shape[::2] == (3, 16) and group.mask.shape == group.vectors.shape[:2]
        assert group.mask.any(1).all() and group.vectors.isfinite().all()


@every_view
def test_every_group_and_the_sentences_have_a_gradient_to_the_encoder(name: str, encode: Encode, make: partial[View]):
    """Through each sample's vectors; what the mask leaves out is not in the sum."""
    view = make(name, encode)
    for tensor in (*(group.vectors[group.mask] for group in view.groups), view.sentences):
        assert tensor.requires_grad
        (slope,) = torch.autograd.grad(tensor.square().sum(), tensor_of(view, tensor), retain_graph=True)
        assert slope.isfinite().all() and slope.abs().max() > 0


def tensor_of(view: View, tensor: torch.Tensor) -> torch.Tensor:
    """A leaf of the encoder that the tensor's graph reaches."""
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
def test_the_same_seed_gives_the_same_views(name: str, encode: Encode, make: partial[View]):
    first, again, other = make(name, encode), make(name, encode), make(name, encode, seed=2)
    for one, two, three in zip(first.groups, again.groups, other.groups, strict=True):
        assert torch.equal(one.vectors, two.vectors) and torch.equal(one.mask, two.mask)
        assert not torch.equal(one.vectors, three.vectors)  # dropout is on


@every_view
def test_a_text_of_one_word_has_views(name: str, encode: Encode, make: partial[View]):
    for group in make(name, encode, lengths=(1, 6)).groups:
        assert group.mask[0].any() and group.vectors[group.mask].isfinite().all()
