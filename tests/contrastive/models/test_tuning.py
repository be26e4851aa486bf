"""Which parameters train and at what rate, for each way of tuning and each architecture."""

import pytest
import torch
from torch import nn

from contrastive.config.cell import Encoder, Lora, Scratch, Training, Tune
from contrastive.errors import UserError
from contrastive.models import encoder as encoders
from contrastive.models import tuning

RATES = Training(encoder_lr=1e-3, head_lr=1e-1, layer_decay=0.5, weight_decay=0.1)


def backbone(architecture: str = "bert") -> nn.Module:
    sizes = Scratch(layers=3, hidden=16, heads=2, vocabulary=64)
    return encoders.load_encoder(Encoder(model=f"scratch:{architecture}", scratch=sizes), 64, 0)


def model(how: Tune, architecture: str = "bert") -> nn.ModuleDict:
    return nn.ModuleDict({"backbone": tuning.tune(backbone(architecture), how), "head": nn.Linear(16, 2)})


def trained(built: nn.Module) -> set[str]:
    return {name for name, parameter in built.named_parameters() if parameter.requires_grad}


both = pytest.mark.parametrize("architecture", ["bert", "deberta-v2"])


@both
@pytest.mark.parametrize("last", [0, 1, 3])
def test_the_last_blocks_train_and_nothing_below(last: int, architecture: str):
    names = trained(model(Tune(last_blocks=last), architecture))
    assert {tuning.block_of(name) for name in names} == {-1, *range(3 - last, 3)}
    assert {name for name in names if tuning.block_of(name) == -1} == {"head.weight", "head.bias"}


@both
def test_lora_trains_its_adapters_and_the_head(architecture: str):
    names = trained(model(Tune(lora=Lora(r=2)), architecture))
    assert all("lora_" in name or name.startswith("head.") for name in names)
    assert len(names) == 3 * 2 * 2 + 2  # blocks × (query, value) × (A, B), and the head
    targets = {"bert": ["query", "value"], "deberta-v2": ["query_proj", "value_proj"]}
    assert tuning.default_targets(backbone(architecture)) == targets[architecture]


def test_wrong_settings_say_what_there_is():
    with pytest.raises(UserError, match="last_blocks is 4, and this encoder has 3 blocks"):
        tuning.tune(backbone(), Tune(last_blocks=4))
    with pytest.raises(UserError, match="linear modules are dense, key, query, value"):
        tuning.tune(backbone(), Tune(lora=Lora(targets=("nothing",))))
    with pytest.raises(UserError, match="blocks of this encoder"):
        tuning.count_blocks(nn.Linear(2, 2))


@both
def test_the_rate_falls_from_the_top_block_down_and_biases_and_norms_do_not_decay(architecture: str):
    built = model(Tune(), architecture)
    names = {id(parameter): name for name, parameter in built.named_parameters()}
    seen = set()
    for group in tuning.optimizer_groups(built, RATES, Tune()):
        for parameter in group["params"]:
            name = names[id(parameter)]
            depth = 2 - tuning.block_of(name)
            rate = 1e-1 if name.startswith("head.") else 1e-3 * 0.5**depth
            assert group["lr"] == pytest.approx(rate), name
            assert group["weight_decay"] == (0.1 if parameter.ndim > 1 else 0.0), name
            seen.add(name)
    assert seen == trained(built) == set(names.values())  # full: everything trains


def test_adapters_train_at_one_rate_and_the_rates_that_are_shown_are_the_heads_and_the_top_blocks():
    built, how = model(Tune(lora=Lora())), Tune(lora=Lora())
    assert {group["lr"] for group in tuning.optimizer_groups(built, RATES, how) if group["name"] == "encoder"} == {1e-3}
    shown = {g["name"]: g["lr"] for g in tuning.optimizer_groups(model(Tune()), RATES, Tune()) if g.get("shown")}
    assert shown == {"head": 1e-1, "encoder": 1e-3}


def test_adapters_begin_without_effect():
    torch.manual_seed(0)
    plain = backbone().eval()
    ids = torch.randint(5, 64, (2, 8))
    before = plain(input_ids=ids).last_hidden_state
    torch.testing.assert_close(tuning.tune(plain, Tune(lora=Lora())).eval()(input_ids=ids).last_hidden_state, before)
