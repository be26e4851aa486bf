"""Encoders of images: random and pretrained ones, tuned as encoders of texts are."""

from pathlib import Path

import pytest
import torch
from transformers import ConvNextConfig, ConvNextModel, Dinov2Config, Dinov2Model, ViTConfig, ViTModel

from contrastive.config.cell import Encoder, Images
from contrastive.errors import UserError
from contrastive.models import encoder as encoders
from contrastive.models.images import ImageEncoder
from contrastive.views.batches import Batch

SIZE = Images(size=8)
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 8, "patch_size": 4}


def batch(count: int = 3) -> Batch:
    ids = torch.randint(256, (count, SIZE.values()), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids, dtype=torch.bool)
    return Batch(ids, mask, ~mask, torch.zeros(count, dtype=torch.long))


def load(model: str, **settings: object) -> ImageEncoder:
    torch.manual_seed(0)
    return encoders.load_encoder(Encoder(model=model, **settings), 0, 0, SIZE).eval()


def encoded(backbone: torch.nn.Module, pooling: str = "cls", given: Batch | None = None) -> torch.Tensor:
    return encoders.encode(backbone, given or batch(), pooling, torch.nn.Identity()).pooled()


@pytest.mark.parametrize(("kind", "config"), [(ViTModel, ViTConfig), (Dinov2Model, Dinov2Config)])
def test_a_pretrained_one_gives_the_states_of_its_own_library(kind: type, config: type, tmp_path: Path):
    whole = kind(config(**SMALL, intermediate_size=32)).eval()
    whole.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}')
    mean, std = (torch.tensor(values)[:, None, None] for values in ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]))
    pictures = batch().input_ids.view(-1, 3, 8, 8) / 255
    expected = whole((pictures - mean) / std).last_hidden_state
    torch.testing.assert_close(encoded(load(f"file:{tmp_path}")), expected[:, 0])
    torch.testing.assert_close(encoded(load(f"file:{tmp_path}"), "mean"), expected.mean(1))


def test_what_does_not_fit_says_what_does(tmp_path: Path):
    ConvNextModel(ConvNextConfig(hidden_sizes=[8] * 4, depths=[1] * 4)).save_pretrained(tmp_path / "conv")
    ViTModel(ViTConfig(**SMALL | {"image_size": 16}, intermediate_size=32)).save_pretrained(tmp_path / "vit")
    with pytest.raises(UserError, match=r"a convnext is not built as ViT is .* scratch:convnet"):
        load(f"file:{tmp_path / 'conv'}")
    with pytest.raises(UserError, match=r"set data\.images\.size to 16"):
        load(f"file:{tmp_path / 'vit'}")


@pytest.mark.parametrize("kind", ["convnet", "vit"])
def test_an_image_is_encoded_by_itself(kind: str):
    """So that the size of a batch, and the number of processes, change nothing."""
    backbone = load(f"scratch:{kind}")
    torch.testing.assert_close(encoded(backbone)[1:2], encoded(backbone, given=batch()[1:2]), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["convnet", "vit"])
def test_a_smaller_image_has_fewer_tokens(kind: str):
    ids = torch.randint(256, (2, 3 * 16), generator=torch.Generator().manual_seed(0))
    assert [state.shape for state in load(f"scratch:{kind}")(ids).hidden_states] == [(2, 2, 64)] * 3


@pytest.mark.parametrize("kind", ["convnet", "vit"])
def test_the_last_blocks_train_and_adapters_in_them(kind: str):
    trained = {name for name, weight in load(f"scratch:{kind}", tune={"last_blocks": 1}).named_parameters()
               if weight.requires_grad}  # fmt: skip
    assert trained and all(".layer.1." in name for name in trained)
    lora = {"targets": ["up", "down"]} if kind == "convnet" else {}
    adapted = load(f"scratch:{kind}", tune={"last_blocks": 1, "lora": lora})
    trained = {name for name, weight in adapted.named_parameters() if weight.requires_grad}
    assert trained and all(".layer.1." in name and "lora" in name for name in trained)


def test_the_first_token_of_a_convnet_is_the_mean_of_its_places():
    backbone = load("scratch:convnet")
    states = backbone(batch().input_ids).hidden_states
    assert [state.shape for state in states] == [(3, 5, 64)] * 3
    torch.testing.assert_close(states[1][:, 0], states[1][:, 1:].mean(1))
