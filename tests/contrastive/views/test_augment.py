"""Changes of images: each is Kornia's, and which ones happen depends on seed, batch, place and pass alone."""

import math

import kornia.enhance as enhance
import kornia.filters as filters
import kornia.geometry.transform as geometry
import pytest
import torch
import torch.nn.functional as F

from contrastive.config.cell import Augment, Images
from contrastive.views import augment
from contrastive.views.batches import Batch, draws_of, mixed

SIDE = 16


class Given(augment.Uniform):
    """Stands for `Uniform` and gives these values, each between 0 and 1, to all images."""

    def __init__(self, *values: float):
        self.values = list(values)

    def __call__(self, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        return low + (high - low) * torch.full((3,), float(self.values.pop(0)))


@pytest.fixture
def pictures() -> torch.Tensor:
    return torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


ONES = torch.ones(3)
TRANSFORMS = {
    "rotate": (Augment(rotate=40), Given(1), lambda x: geometry.rotate(x, 40 * ONES, align_corners=False)),
    "shift": (Augment(shift=0.25), Given(1, 0.5),
              lambda x: geometry.translate(x, torch.tensor([[-4.0, 0]]), align_corners=False)),
    "flip": (Augment(flip=True), Given(0.2), geometry.hflip),
    "no flip": (Augment(flip=True), Given(0.7), lambda x: x),
    "grey": (Augment(gray=0.5), Given(0.4), lambda x: enhance.adjust_saturation_with_gray_subtraction(x, 0.0)),
    "no grey": (Augment(gray=0.5), Given(0.6), lambda x: x),
    "blur": (Augment(blur=1), Given(1, 0), lambda x: filters.gaussian_blur2d(x, (5, 5), (1.0, 1.0))),
    "brightness": (Augment(color=1), Given(0, 0.5, 0.5, 0.5), lambda x: 0.2 * x),
    "contrast": (Augment(color=1), Given(0.5, 0.25, 0.5, 0.5),
                 lambda x: enhance.adjust_contrast_with_mean_subtraction(x, 0.6)),
    "saturation": (Augment(color=1), Given(0.5, 0.5, 1, 0.5),
                   lambda x: enhance.adjust_saturation_with_gray_subtraction(x, 1.8)),
    "hue": (Augment(color=1), Given(0.5, 0.5, 0.5, 1), lambda x: enhance.adjust_hue(x, 0.2 * 2 * math.pi)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_change_is_that_of_kornia(name: str, pictures: torch.Tensor):
    how, uniform, oracle = TRANSFORMS[name]
    found = augment.changed(pictures, how, Given(*uniform.values), SIDE)
    torch.testing.assert_close(found, oracle(pictures).clamp(0, 1), atol=2e-4, rtol=0)


def test_a_crop_is_a_part_resized_to_the_whole(pictures: torch.Tensor):
    found = augment.changed(pictures, Augment(crop=(0.25, 0.25)), Given(0.5, 0.5, 0, 1), SIDE)
    part = F.interpolate(pictures[:, :, 8:, :8], (SIDE, SIDE), mode="bilinear", align_corners=False)
    inside = slice(1, -1)  # at its edge a crop sees the rest of the image
    torch.testing.assert_close(found[:, :, inside, inside], part[:, :, inside, inside])


def test_an_erased_rectangle_has_the_area_that_was_drawn(pictures: torch.Tensor):
    found = augment.changed(pictures + 0.01, Augment(erase=1), Given(0.25, 0.5, 0, 1), SIDE)
    assert ((found == 0).sum((1, 2, 3)) == 3 * SIDE**2 / 4).all()
    assert (found[:, :, :8, 8:] == 0).all()


def test_small_crops_are_parts_at_half_the_size_and_differ():
    given = batch(draws_of(0, 7, torch.arange(6).numpy()))
    for patch, side in ((3, 6), (8, 8), (16, 16)):  # whole patches, and at least one
        assert augment.augmented(given, SIMCLR, IMAGES, 1, (0.2, 0.5), patch).input_ids.shape[1] == 3 * side**2
    small = augment.augmented(given.times(2), Augment(flip=True), IMAGES, 1, (0.25, 0.25))
    assert len(small) == 12 and small.input_ids.shape[1] == small.attention_mask.shape[1] == 3 * (SIDE // 2) ** 2
    assert (small.input_ids[:6] != small.input_ids[6:]).any(1).all()
    pictures = torch.arange(SIDE).float().expand(3, 3, SIDE, SIDE) / SIDE  # brighter to the right
    found = augment.changed(pictures, Augment(crop=(0.25, 0.25)), Given(0.5, 0.5, 0, 0), SIDE // 2)
    torch.testing.assert_close(found, pictures[:, :, :8, :8], atol=1e-5, rtol=0)


def batch(draws: torch.Tensor | None, count: int = 6) -> Batch:
    ids = torch.randint(256, (count, 3 * SIDE**2), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids, dtype=torch.bool)
    return Batch(ids, mask, ~mask, torch.arange(count), draws=draws)


SIMCLR = Augment(crop=(0.2, 1), flip=True, color=0.5, gray=0.2, blur=1, rotate=10, erase=0.1)
IMAGES = Images(size=SIDE)


def test_the_same_place_of_a_batch_changes_alike_in_any_process_and_otherwise_in_each_pass_and_half():
    places = torch.arange(6).numpy()
    whole = augment.augmented(batch(draws_of(0, 7, places)), SIMCLR, IMAGES, 0).input_ids
    later = batch(draws_of(0, 7, places))[2:]
    assert torch.equal(augment.augmented(later, SIMCLR, IMAGES, 0).input_ids, whole[2:])
    others = [
        augment.augmented(batch(draws_of(0, 7, places)), SIMCLR, IMAGES, 1),
        augment.augmented(batch(draws_of(0, 7, places)).times(2), SIMCLR, IMAGES, 0)[6:],
        augment.augmented(batch(draws_of(0, 8, places)), SIMCLR, IMAGES, 0),
        augment.augmented(batch(draws_of(1, 7, places)), SIMCLR, IMAGES, 0),
    ]
    for first, second in zip([whole, *(other.input_ids for other in others)], others, strict=False):
        assert (first != second.input_ids).any(1).all()
    assert ((whole >= 0) & (whole <= 255)).all()


def test_mixing_is_splitmix64():
    assert mixed(torch.tensor([0])).item() == 0xE220A8397B1DCDAF - 2**64  # Vigna's first number of seed 0
