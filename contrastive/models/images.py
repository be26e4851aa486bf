"""Encoders of images with the parts that tuning, views and pooling expect of an encoder of texts: embeddings, a list of
blocks of one width, and hidden states of tokens. Token 0 stands for the whole image.

Scratch encoders have random weights; pretrained ones are transformers' vision models of that shape, such as ViT.
"""

import inspect
import math
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from contrastive.config.cell import Encoder, Images
from contrastive.data import locate
from contrastive.errors import UserError

KERNEL = 5  # side of the depthwise convolutions
FINAL_NORMS = ("layernorm", "norm", "post_layernorm")


class ImageEncoder(nn.Module):
    """Embeddings, blocks and a final norm, called as transformers' encoders of texts are."""

    encoder: Any

    def __init__(self, embeddings: nn.Module, blocks: nn.ModuleList, norm: nn.Module, config: Any):
        super().__init__()
        self.embeddings, self.norm, self.config = embeddings, norm, config
        self.encoder = nn.Module()
        self.encoder.layer = blocks

    def forward(
        self,
        input_ids: Int64[Tensor, "n s"],
        attention_mask: Tensor | None = None,
        output_hidden_states: bool = True,
    ) -> SimpleNamespace:
        """Return the input of the blocks, and the output of each; the norm follows the last."""
        states = [self.embeddings(input_ids)]
        for block in self.encoder.layer:
            output = block(states[-1])
            states.append(output[0] if isinstance(output, tuple) else output)
        states[-1] = self.norm(states[-1])
        return SimpleNamespace(last_hidden_state=states[-1], hidden_states=states)


class Pixels(nn.Module):
    """Makes pictures of values from 0 to 255, scaled as the encoder expects, and embeds them."""

    mean: Tensor
    std: Tensor

    def __init__(self, embed: nn.Module, images: Images, mean: list[float], std: list[float]):
        super().__init__()
        self.embed, self.images = embed, images
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)

    def forward(self, values: Int64[Tensor, "n s"]) -> Float[Tensor, "n t d"]:
        side = math.isqrt(values.shape[1] // self.images.channels)
        pictures = values.view(-1, self.images.channels, side, side).float() / 255
        # ViT places its positions on smaller images only if it is asked to
        asked = "interpolate_pos_encoding" in inspect.signature(self.embed.forward).parameters
        other = {"interpolate_pos_encoding": True} if asked and side != self.images.size else {}
        states: Tensor = self.embed((pictures - self.mean) / self.std, **other)
        return states


class Patches(nn.Module):
    """Square patches as tokens behind their mean, the start of a convolutional encoder."""

    def __init__(self, channels: int, patch: int, width: int):
        super().__init__()
        self.project = nn.Conv2d(channels, width, patch, patch)

    def forward(self, pictures: Float[Tensor, "n c h w"]) -> Float[Tensor, "n t d"]:
        return behind_mean(self.project(pictures).flatten(2).transpose(1, 2))


class ConvBlock(nn.Module):
    """A block of an isotropic ConvNeXt (Liu et al., "A ConvNet for the 2020s", 2022): depthwise convolution, norm, and
    two linear layers. Each image is computed by itself, so that batches and processes change nothing."""

    def __init__(self, width: int):
        super().__init__()
        self.near = nn.Conv2d(width, width, KERNEL, padding=KERNEL // 2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, states: Float[Tensor, "n t d"]) -> Float[Tensor, "n t d"]:
        places = states[:, 1:]
        side = int(places.shape[1] ** 0.5)
        square = places.transpose(1, 2).unflatten(2, (side, side))
        near = self.near(square).flatten(2).transpose(1, 2)
        return behind_mean(places + self.down(F.gelu(self.up(self.norm(near)))))


def behind_mean(places: Float[Tensor, "n p d"]) -> Float[Tensor, "n t d"]:
    """Return the tokens behind their mean, which stands for the whole image."""
    return torch.cat([places.mean(1, keepdim=True), places], 1)


def random_image_encoder(encoder: Encoder, images: Images) -> ImageEncoder:
    """Create a small encoder of images with random weights from torch's generator."""
    from transformers import ViTConfig, ViTModel

    sizes = locate.scratch_sizes(encoder)
    config = ViTConfig(
        hidden_size=sizes["hidden"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        intermediate_size=4 * sizes["hidden"],
        image_size=images.size,
        patch_size=sizes["patch"],
        num_channels=images.channels,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1 if encoder.attention_dropout is None else encoder.attention_dropout,
    )
    middle = [0.5] * images.channels
    if encoder.model == "scratch:convnet":
        width = sizes["hidden"]
        blocks = nn.ModuleList(ConvBlock(width) for _ in range(sizes["layers"]))
        start = Pixels(Patches(images.channels, sizes["patch"], width), images, middle, middle)
        return ImageEncoder(start, blocks, nn.LayerNorm(width), config)
    return wrapped(ViTModel(config, add_pooling_layer=False), images, encoder.model, middle, middle)


def wrapped(model: Any, images: Images, name: str, mean: list[float], std: list[float]) -> ImageEncoder:
    """Return a vision model of transformers as an ImageEncoder; raise UserError if it has other parts."""
    count = getattr(model.config, "num_hidden_layers", None)
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module) == count]
    norm = next((getattr(model, name) for name in FINAL_NORMS if hasattr(model, name)), None)
    one_width = isinstance(getattr(model.config, "hidden_size", None), int) and not hasattr(
        model.config, "hidden_sizes"
    )
    if len(lists) != 1 or norm is None or not one_width or not hasattr(model, "embeddings"):
        raise UserError(
            f"{name}: a {model.config.model_type} is not built as ViT is (embeddings, equal blocks, a norm); take a "
            "ViT, DeiT or DINOv2, or scratch:convnet"
        )
    for setting, given in (("image_size", images.size), ("num_channels", images.channels)):
        wanted = getattr(model.config, setting, given)
        if wanted != given:
            short = {"image_size": "size", "num_channels": "channels"}[setting]
            raise UserError(f"{name} takes images with {setting} {wanted}: set data.images.{short} to {wanted}")
    return ImageEncoder(Pixels(model.embeddings, images, mean, std), lists[0], norm, model.config)
