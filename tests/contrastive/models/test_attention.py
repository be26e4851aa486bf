"""The shifted scores of relative positions are those that transformers gathers, in value and gradient."""

import copy

import pytest
import torch
from transformers import DebertaV2Config, DebertaV2Model

from contrastive.config.cell import Encoder, Lora, Tune
from contrastive.models import attention
from contrastive.models.encoder import load_encoder

SMALL = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "relative_attention": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
KINDS = [["p2c", "c2p"], ["c2p"], ["p2c"], []]


def outputs(model: torch.nn.Module) -> tuple[torch.Tensor, ...]:
    """The last states of texts, one of them padded, and the gradients of the parameters."""
    ids = torch.randint(1, 50, (3, 23), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]
    gradients = torch.autograd.grad(states.square().sum(), list(model.parameters()), allow_unused=True)
    return states, *(gradient for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("buckets", [8, 64, -1])
@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_states_and_gradients_are_those_of_transformers(kinds: list[str], buckets: int, share: bool):
    torch.manual_seed(0)
    more = {"position_buckets": buckets, "share_att_key": share, "pos_att_type": kinds, "max_position_embeddings": 20}
    plain = DebertaV2Model(DebertaV2Config(**SMALL | more)).double()
    other = copy.deepcopy(plain)
    attention.use_shifted_positions(other)
    found, wanted = outputs(other), outputs(plain)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("tune", [Tune(), Tune(lora=Lora(r=2)), Tune(last_blocks=1)], ids=["full", "lora", "last"])
def test_every_encoder_that_is_loaded_computes_them_with_its_own_weights(tune: Tune, monkeypatch: pytest.MonkeyPatch):
    used = []
    real = attention.position_scores
    monkeypatch.setattr(attention, "position_scores", lambda part, *given: (used.append(part), real(part, *given))[1])
    model = load_encoder(Encoder(model="scratch:deberta-v2", tune=tune), 50, 0)
    own = {id(module) for module in model.modules()}
    other = copy.deepcopy(model)  # as a momentum encoder is made
    model(input_ids=torch.ones(1, 4, dtype=torch.long))
    assert len(used) == 2 and all(id(part) in own for part in used)
    other(input_ids=torch.ones(1, 4, dtype=torch.long))
    assert len(used) == 4 and not any(id(part) in own for part in used[2:])
