"""A block without its padding gives what the plain one gives, with the same random numbers, and its gradients."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel, XLMRobertaConfig, XLMRobertaModel

from contrastive.config.cell import Encoder, Lora, Scratch, Tune
from contrastive.models import encoder as encoders
from contrastive.models.kernels import unpadded
from contrastive.views import VIEWS
from contrastive.views.types import Encode
from tests.contrastive.views.conftest import batch_of, lexicon, rephrase, talkative  # noqa: F401, fixtures
from tests.contrastive.views.test_contract import make  # noqa: F401, a fixture

SHAPE = {"vocab_size": 64, "num_hidden_layers": 3, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
KINDS = {"bert": (BertModel, BertConfig), "roberta": (RobertaModel, RobertaConfig)}
KINDS |= {"xlm-roberta": (XLMRobertaModel, XLMRobertaConfig)}
LENGTHS = (12, 3, 5, 1)


def of(kind: str, **settings: Any) -> tuple[nn.Module, nn.Module]:
    """A model, and the same one made quick."""
    torch.manual_seed(0)
    model, config = KINDS[kind]
    plain = model(config(pad_token_id=0, max_position_embeddings=40, **SHAPE | settings), add_pooling_layer=False)
    quick = copy.deepcopy(plain)
    unpadded.unpad(quick)
    return plain, quick


def blocks(model: nn.Module) -> list[bool]:
    return [isinstance(block, unpadded.Unpadded) for block in model.encoder.layer]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each block that left out some has computed."""
    counted: list[int] = []
    real = unpadded.attend
    monkeypatch.setattr(unpadded, "attend", lambda part, x, *more: counted.append(len(x)) or real(part, x, *more))
    return counted


def passed(model: nn.Module, *lengths: int) -> tuple[list[Tensor], dict[str, Tensor], Tensor]:
    """What each block gives for tokens, the gradients of a loss on the last one, and the next random number."""
    torch.manual_seed(1)
    batch = batch_of(*lengths)
    model.zero_grad()
    given = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask.long(), output_hidden_states=True)
    states = [state[batch.attention_mask] for state in given.hidden_states]
    states[-1].pow(3).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return [state.detach() for state in states], gradients, torch.rand(1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_it_gives_the_same_with_the_same_gradients(kind: str, training: bool, seen: list[int]):
    plain, quick = (model.train(training) for model in of(kind))
    (states, gradients, drawn), (others, theirs, next_one) = passed(plain, *LENGTHS), passed(quick, *LENGTHS)
    assert seen == [sum(LENGTHS) + 2 * len(LENGTHS)] * 3 and torch.equal(drawn, next_one)
    for state, other in zip(states, others, strict=True):
        torch.testing.assert_close(other, state, rtol=1e-5, atol=1e-6)
    assert gradients.keys() == theirs.keys() and len(gradients) == len(list(plain.parameters()))
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            theirs[name], gradient, rtol=1e-4, atol=1e-4, msg=lambda said, name=name: name + said
        )


@pytest.mark.parametrize("lengths", [(5, 5, 5), (20, 20, 19)], ids=["none", "little"])
def test_a_batch_of_one_length_is_left_as_it_is(lengths: tuple[int, ...], seen: list[int]):
    plain, quick = of("bert")
    for one, other in zip(passed(plain.train(), *lengths)[0], passed(quick.train(), *lengths)[0], strict=True):
        assert torch.equal(one, other)
    assert not seen


def test_a_block_that_draws_or_reads_otherwise_is_left_as_it_is():
    assert blocks(of("bert")[1]) == [True] * 3
    assert blocks(of("bert", is_decoder=True)[1]) == [False] * 3
    assert blocks(of("bert", attn_implementation="eager")[1]) == [False] * 3
    for dropout, left in ((0.1, False), (0.0, True)):
        tune = Tune(lora=Lora(r=2, dropout=dropout), last_blocks=1)
        sizes = Scratch(layers=3, hidden=16, heads=2, vocabulary=64)
        adapted = encoders.load(Encoder(model="scratch:bert", scratch=sizes, tune=tune), 64, 0)
        unpadded.unpad(adapted)
        found = [isinstance(module, unpadded.Unpadded) for module in adapted.modules() if _is_block(module)]
        assert found == [True, True, left]


def _is_block(module: nn.Module) -> bool:
    return type(module).__name__ == "BertLayer"


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_is_the_same(
    name: str,
    make: Callable,  # noqa: F811
    seen: list[int],
):
    """What it reads of a pass are tokens."""
    found = []
    for model in of("bert"):
        encode: Encode = lambda batch, model=model, **changes: encoders.encode(  # noqa: E731
            model.train(), batch, "mean", nn.Dropout(0.5), **changes
        )
        view = make(name, encode, lengths=LENGTHS)
        found.append([*((group.vectors[group.mask], group.mask) for group in view.groups), (view.sentences,)])
    assert seen
    for one, other in zip(*found, strict=True):
        for left, right in zip(one, other, strict=True):
            torch.testing.assert_close(right, left, rtol=1e-5, atol=1e-5)


def test_a_copy_is_as_quick_as_its_model():
    _, quick = of("bert")
    again = copy.deepcopy(quick)
    assert blocks(again) == [True] * 3 and type(again.encoder.layer[0]) is type(quick.encoder.layer[0])
    unpadded.unpad(again)  # nothing is left to do
    assert type(again.encoder.layer[0]) is type(quick.encoder.layer[0])
