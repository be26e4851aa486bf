"""Random changes of images in training, in the manner of SimCLR (Chen et al., "A Simple Framework for Contrastive
Learning of Visual Representations", 2020).

Each image has a number for each pass, from which all its random values follow, so that a resumed run and several
processes change the same images in the same way. To add a change: a setting of `Augment`, and a line in `changed`.
"""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from contrastive.config.cell import Augment, Images
from contrastive.views.batches import Batch, mixed

GREY = (0.2989, 0.587, 0.114)  # parts of red, green and blue
COLOR, HUE = 0.8, 0.2  # SimCLR's range of a change of color at strength 1
STRETCHED = math.log(4 / 3)  # largest logarithm of a crop's width divided by its height
ERASED = math.log(3.3)  # and of an erased rectangle's
LEAST_BLUR = 0.1  # sigma in pixels


class Uniform:
    """Random values from 0 to 1 for each image, the next ones at each call."""

    def __init__(self, draws: Int64[Tensor, " n"]):
        self.base, self.calls = mixed(draws), 0

    def __call__(self, low: float = 0.0, high: float = 1.0) -> Float[Tensor, " n"]:
        self.calls += 1
        bits = (mixed(self.base + self.calls) >> 40) & (2**24 - 1)
        return low + (high - low) * bits.float() / 2**24


def augmented(
    batch: Batch,
    how: Augment,
    images: Images,
    encoder_pass: int,
    area: tuple[float, float] | None = None,
    patch: int = 1,
) -> Batch:
    """Return the batch with its images changed for this pass of the encoder. A batch that does not train stays.

    With `area`, the images become crops that keep this part of them, of whole patches and up to half the size.
    """
    if batch.draws is None:
        return batch
    pictures = batch.input_ids.view(-1, images.channels, images.size, images.size).float() / 255
    with torch.autocast(pictures.device.type, enabled=False):
        uniform = Uniform(batch.draws + (encoder_pass << 10))  # `Batch.times` adds small numbers
        side = images.size
        if area is not None:
            how, side = how.model_copy(update={"crop": area}), max(patch, images.size // 2 // patch * patch)
        new = changed(pictures, how, uniform, side)
    ids = (new * 255).round().long().flatten(1)
    mask = batch.attention_mask[:, : ids.shape[1]]
    return replace(batch, input_ids=ids, attention_mask=mask, special=~mask, frozen_outputs=None)


def changed(
    pictures: Float[Tensor, "n c h w"], how: Augment, uniform: Uniform, side: int
) -> Float[Tensor, "n c side side"]:
    moved = placement(how, uniform)
    if moved is not None:
        grid = F.affine_grid(moved[:, :2], [*pictures.shape[:2], side, side], align_corners=False)
        pictures = F.grid_sample(pictures, grid, align_corners=False)
    if how.color:
        pictures = recolored(pictures, how.color, uniform)
    if how.gray and pictures.shape[1] == 3:
        pictures = torch.where(chosen(uniform(), how.gray), grey(pictures).expand_as(pictures), pictures)
    if how.blur:
        blurry = blurred(pictures, uniform(LEAST_BLUR, max(LEAST_BLUR, how.blur)), how.blur)
        pictures = torch.where(chosen(uniform(), 0.5), blurry, pictures)
    if how.erase:
        pictures = pictures.masked_fill(rectangle(pictures, how.erase, uniform), 0.0)
    return pictures.clamp(0, 1)


def chosen(values: Float[Tensor, " n"], share: float) -> Tensor:
    """Return for which images a change happens, to broadcast over pictures."""
    return (values < share)[:, None, None, None]


def placement(how: Augment, uniform: Uniform) -> Float[Tensor, "n 3 3"] | None:
    """Return the matrix from places of the new image to those of the old one; None if none moves.

    The new image is the old one cropped, then flipped, shifted and turned; what comes from outside is black.
    """
    parts = []
    if how.crop is not None:
        area = uniform(*how.crop)
        ratio = torch.exp(uniform(-1.0, 1.0) * (-area.log()).clamp(max=STRETCHED) / 2)  # none is wider than the image
        width, height = area.sqrt() * ratio, area.sqrt() / ratio
        parts.append(matrix(width, 0, (1 - width) * uniform(-1.0, 1.0), 0, height, (1 - height) * uniform(-1.0, 1.0)))
    if how.flip:
        parts.append(matrix(torch.where(uniform() < 0.5, -1.0, 1.0), 0, 0, 0, 1, 0))
    if how.shift:
        parts.append(matrix(1, 0, 2 * uniform(-how.shift, how.shift), 0, 1, 2 * uniform(-how.shift, how.shift)))
    if how.rotate:
        angle = uniform(-math.radians(how.rotate), math.radians(how.rotate))
        parts.append(matrix(angle.cos(), -angle.sin(), 0, angle.sin(), angle.cos(), 0))
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = whole @ part
    return whole


def matrix(*entries: Tensor | float | int) -> Float[Tensor, "n 3 3"]:
    """Return affine matrices of the six entries of their first two rows, some of which are the same for all images."""
    count, device = next((len(entry), entry.device) for entry in entries if isinstance(entry, Tensor))
    rows = [torch.as_tensor(entry, device=device).float().expand(count) for entry in (*entries, 0, 0, 1)]
    return torch.stack(rows, 1).view(-1, 3, 3)


def recolored(pictures: Float[Tensor, "n c h w"], strength: float, uniform: Uniform) -> Float[Tensor, "n c h w"]:
    """Change brightness, contrast, saturation and hue; of greys the first two."""
    reach = COLOR * strength
    pictures = (pictures * factor(uniform, reach)).clamp(0, 1)
    pictures = blended(pictures, grey(pictures).mean((1, 2, 3), keepdim=True), factor(uniform, reach))
    if pictures.shape[1] == 3:
        pictures = blended(pictures, grey(pictures), factor(uniform, reach))
        pictures = turned_hue(pictures, uniform(-HUE * strength, HUE * strength))
    return pictures


def factor(uniform: Uniform, reach: float) -> Float[Tensor, "n 1 1 1"]:
    return uniform(1 - reach, 1 + reach)[:, None, None, None]


def blended(pictures: Tensor, other: Tensor, amount: Tensor) -> Tensor:
    return (amount * pictures + (1 - amount) * other).clamp(0, 1)


def grey(pictures: Float[Tensor, "n c h w"]) -> Float[Tensor, "n 1 h w"]:
    if pictures.shape[1] == 1:
        return pictures
    return (pictures * pictures.new_tensor(GREY)[:, None, None]).sum(1, keepdim=True)


def turned_hue(pictures: Float[Tensor, "n 3 h w"], turn: Float[Tensor, " n"]) -> Float[Tensor, "n 3 h w"]:
    """Turn the hue by a part of the whole circle, as HSV has it."""
    value, brightest = pictures.max(1, keepdim=True)
    spread = value - pictures.amin(1, keepdim=True)
    red, green, blue = pictures.unbind(1)
    sides = torch.stack([green - blue, blue - red, red - green], 1).gather(1, brightest)
    hue = 2 * brightest + sides / spread.clamp(min=1e-12) + 6 * turn[:, None, None, None]
    places = (hue + pictures.new_tensor([5, 3, 1])[:, None, None]) % 6
    return value - spread * torch.minimum(places, 4 - places).clamp(0, 1)


def blurred(pictures: Float[Tensor, "n c h w"], sigma: Float[Tensor, " n"], most: float) -> Float[Tensor, "n c h w"]:
    """Blur each image by a Gaussian of its own width; `most`: the widest."""
    count, channels, side, _ = pictures.shape
    reach = max(1, min(math.ceil(2 * most), side - 1))
    places = torch.arange(-reach, reach + 1, device=pictures.device)
    weights = torch.exp(-0.5 * (places / sigma[:, None]) ** 2)
    weights = (weights / weights.sum(1, keepdim=True)).repeat_interleave(channels, 0)[:, None]
    spread = F.pad(pictures, [reach] * 4, mode="reflect").reshape(1, count * channels, *[side + 2 * reach] * 2)
    spread = F.conv2d(spread, weights[..., None], groups=count * channels)
    return F.conv2d(spread, weights[:, :, None], groups=count * channels).view_as(pictures)


def rectangle(pictures: Float[Tensor, "n c h w"], most: float, uniform: Uniform) -> Tensor:
    """Return where a rectangle of up to a part `most` of the area lies, anywhere in each image."""
    area, ratio = uniform(0.0, most), torch.exp(uniform(-ERASED, ERASED) / 2)
    inside = []
    for part in (1 / ratio, ratio):  # height, width
        size = (area.sqrt() * part).clamp(max=1)
        begin = uniform() * (1 - size)
        places = (torch.arange(pictures.shape[-1], device=pictures.device) + 0.5) / pictures.shape[-1]
        inside.append((places >= begin[:, None]) & (places < (begin + size)[:, None]))
    return (inside[0][:, :, None] & inside[1][:, None, :])[:, None]
