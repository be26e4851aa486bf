"""The nearest images of the report's picture are those of a plain search, with their values and labels."""

import numpy as np

from contrastive.config.cell import Images
from contrastive.data.tokens import TokenSplit
from contrastive.evaluation.picture import NEAREST, nearest_images, small


def test_one_image_of_each_class_is_followed_by_the_nearest_others():
    random, count, images = np.random.default_rng(0), 40, Images(size=4, channels=1)
    vectors, labels = random.standard_normal((count, 5)), np.arange(count) % 3
    vectors[7] = 0  # has no direction
    values = random.integers(0, 256, (count, 16), dtype=np.uint8)
    digests = random.permutation(count).astype(np.uint64)
    split = TokenSplit(values.ravel(), np.arange(count + 1) * 16, labels, digests)
    found = nearest_images(vectors, labels, split, images)
    for label in range(3):
        asked = min(np.flatnonzero(labels == label), key=lambda i: digests[i])
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        order = sorted(set(range(count)) - {asked}, key=lambda i: -float(unit[asked] @ unit[i]))
        expected = [asked, *order[:NEAREST]]
        assert (found["near"][label].reshape(NEAREST + 1, 16) == values[expected]).all()
        assert (found["near_labels"][label] == labels[expected]).all()
    assert (found["image_ids"] == np.sort(digests)).all()
    assert (found["images"].reshape(count, 16) == values[np.argsort(digests)]).all()


def test_images_that_mark_points_are_shrunk_by_means_to_a_few_pixels():
    images = np.arange(2 * 3 * 57 * 57, dtype=np.float64).reshape(2, 3, 57, 57) % 251
    found = small(images.astype(np.uint8))
    assert found.shape == (2, 3, 19, 19)
    assert found[1, 2, 4, 5] == round(images[1, 2, 12:15, 15:18].mean())
    assert (small(found) == found).all() and small(images[..., :56, :56]).shape[-1] == 28
