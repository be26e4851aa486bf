"""DeBERTa's attention by both fast ways against transformers' own: values, gradients and random draws."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex
from transformers import AutoModel, BertConfig, DebertaV2Config

from contrastive.config.cell import Lora, Tune
from contrastive.models import attention
from contrastive.models.kernels import disentangled
from contrastive.models.tuning import tune

KINDS = {"both": ["p2c", "c2p"], "c2p": ["c2p"], "p2c": ["p2c"], "neither": []}
WIDTH = {"both": 12, "c2p": 8, "p2c": 8, "neither": 16}  # of a head, so that the plain way's float32 scale is exact


def backbone(kinds: str = "both", dropout: float = 0.0, heads: int = 2, buckets: int = 8, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 50, "hidden_size": heads * WIDTH[kinds], "num_hidden_layers": 2, "num_attention_heads": heads,
        "intermediate_size": 32, "max_position_embeddings": 64, "pad_token_id": 1, "type_vocab_size": 0,
        "position_biased_input": False, "relative_attention": True, "max_relative_positions": 16,
        "norm_rel_ebd": "layer_norm", "share_att_key": True, "attention_probs_dropout_prob": dropout,
        "hidden_dropout_prob": dropout,
    }  # fmt: skip
    config = DebertaV2Config(**(sizes | changes), position_buckets=buckets, pos_att_type=KINDS[kinds])
    model = AutoModel.from_config(config)
    for parameter in model.parameters():  # biases and norms too: none of them may be forgotten
        nn.init.normal_(parameter, std=0.3)
    return model.train()


def texts(length: int = 31) -> tuple[Tensor, Tensor]:
    mask = torch.arange(length) < torch.tensor([length, 17, 3, 2])[:, None]
    return torch.randint(2, 50, (4, length), generator=torch.Generator().manual_seed(1)).where(mask, 1), mask


def trained(model: Any, length: int = 31, **autocast: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """What the texts' own positions got, and the gradient of each parameter and of the input."""
    ids, mask = texts(length)
    embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
    torch.manual_seed(2)
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(autocast)):
        output = model(inputs_embeds=embedded, attention_mask=mask.long()).last_hidden_state[mask]
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (output * weight.to(output.dtype)).sum().backward()
    gradients = {name: given.grad for name, given in model.named_parameters() if given.grad is not None}
    return output.detach(), gradients | {"input": embedded.grad}


def quick(model: nn.Module) -> nn.Module:
    copied = copy.deepcopy(model)
    disentangled.quicken(copied)
    return copied


def assert_equal(model: nn.Module, tolerance: float, length: int = 31, **autocast: Any) -> None:
    (plain, expected), (values, found) = (trained(each, length, **autocast) for each in (model, quick(model)))
    torch.testing.assert_close(values, plain, atol=tolerance, rtol=tolerance)
    assert found.keys() == expected.keys() and any("rel_embeddings" in name for name in found)
    for name, gradient in expected.items():
        atol = tolerance * max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(found[name], gradient, atol=atol, rtol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("buckets", [8, -1])
@pytest.mark.parametrize("share", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("kinds", ["both", "c2p", "p2c"])
def test_values_gradients_and_dropout_are_the_plain_ways(kinds: str, share: bool, buckets: int, dropout: float):
    assert_equal(backbone(kinds, dropout, buckets=buckets, share_att_key=share).double(), 1e-10)


@pytest.mark.parametrize("changes", [{"kinds": "neither", "relative_attention": False}, {"conv_kernel_size": 3}])
def test_no_terms_and_a_convolution_beside_the_first_block(changes: dict[str, Any]):
    model = backbone(**changes).double()
    (plain, expected), (values, found) = trained(model), trained(quick(model))
    torch.testing.assert_close(values, plain, atol=1e-10, rtol=0)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-10)


@pytest.mark.parametrize("length", [3, 129, 150])  # from 128 on in bands, and by oneDNN's products
def test_lengths_in_float32(length: int):
    assert_equal(backbone(dropout=0.1, buckets=16, max_relative_positions=512), 1e-5, length)


def test_few_texts_at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disentangled, "SCORES", 2 * 31**2)
    monkeypatch.setattr(disentangled, "BAND", 7)
    assert_equal(backbone(dropout=0.2).double(), 1e-10)


def test_in_bfloat16_it_is_as_near_to_the_truth_as_the_plain_way():
    model = backbone(max_relative_positions=512)
    truth = trained(copy.deepcopy(model).double())
    plain, found = trained(copy.deepcopy(model), autocast=True), trained(quick(model), autocast=True)
    assert (found[0] - truth[0]).norm() < 1.2 * (plain[0] - truth[0]).norm()
    for name, gradient in truth[1].items():
        error, usual = ((way[1][name] - gradient).norm() for way in (found, plain))
        assert error < 1.5 * usual + 1e-2 * gradient.norm(), name


def test_adapters_train_and_draw_their_dropout_as_before():
    adapted = tune(backbone(dropout=0.1), Tune(lora=Lora(r=2, dropout=0.3))).double()
    for name, parameter in adapted.named_parameters():
        if "lora" in name:
            nn.init.normal_(parameter, std=0.3)
    (plain, expected), (values, found) = trained(adapted), trained(quick(adapted))
    torch.testing.assert_close(values, plain, atol=1e-10, rtol=0)
    assert any("lora" in name for name in expected)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-10)


def test_the_row_of_cls_is_still_found_and_whole_attention_still_given():
    model, (ids, mask) = quick(backbone()).eval(), texts()
    with torch.no_grad():
        output = model(input_ids=ids, attention_mask=mask.long(), output_attentions=True, output_hidden_states=True)
    for block, whole in enumerate(output.attentions):
        row = attention.cls_row(model, block, output.hidden_states[block], mask)
        torch.testing.assert_close(row, whole[:, :, 0].mean(1), atol=1e-5, rtol=0)


def test_nothing_of_the_size_of_all_scores_is_kept():
    model, kept = quick(backbone()), []
    ids, mask = texts(60)
    with torch.autograd.graph.saved_tensors_hooks(lambda given: kept.append(given.numel()) or given, lambda it: it):
        model(input_ids=ids, attention_mask=mask.long())
    assert max(kept) < 4 * 60**2


def test_other_architectures_stay_as_they_are():
    model = AutoModel.from_config(BertConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1, num_attention_heads=2))
    before = [type(module) for module in model.modules()]
    disentangled.quicken(model)
    assert [type(module) for module in model.modules()] == before


@pytest.fixture
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention as on a GPU, by its formula in place of its kernel; on a CPU it only refuses to give gradients."""
    monkeypatch.setattr(flex, "_validate_device", lambda *_: None)
    score_function: Callable[..., Tensor] = disentangled.by_score_function

    def by_formula(*given: Any) -> Tensor:
        return score_function(*given[:-1], attend=flex.flex_attention)

    monkeypatch.setattr(disentangled, "by_slices", by_formula)


@pytest.mark.usefixtures("on_a_cpu")
@pytest.mark.parametrize(("kinds", "share"), [("both", True), ("c2p", False), ("p2c", False)])
def test_the_score_function_gives_the_plain_ways_values_and_gradients(kinds: str, share: bool):
    assert_equal(backbone(kinds, share_att_key=share, num_hidden_layers=1).double(), 1e-10)


@pytest.mark.usefixtures("on_a_cpu")
def test_the_score_function_over_several_blocks_of_padding():
    assert_equal(backbone(buckets=16, max_relative_positions=512, num_hidden_layers=1).double(), 1e-10, 270)
