"""The test images that the report shows: a few with those nearest to them, and small ones to mark points with."""

from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.cell import Images
from contrastive.data.tokens import TokenSplit

ASKED, NEAREST = 8, 6  # images, and the neighbours of each
MARKS, SIDE = 300, 28  # most images that mark points, those with the least ids, and pixels of their longest side


def nearest_images(
    vectors: Float[np.ndarray, "n d"], labels: Integer[np.ndarray, " n"], texts: TokenSplit, images: Images
) -> dict[str, Any]:
    """Return an image of each class, the one with the least id, followed by the nearest others: values and labels; and
    small images with their ids."""
    order = np.argsort(texts.digests, kind="stable")
    firsts = [order[np.argmax(labels[order] == label)] for label in np.unique(labels)[:ASKED]]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    cosines = unit[firsts] @ unit.T
    cosines[np.arange(len(firsts)), firsts] = np.inf  # itself first
    shown = np.argsort(-cosines, axis=1, kind="stable")[:, : NEAREST + 1]
    values = texts.ids.reshape(-1, images.channels, images.size, images.size)
    return {
        "near": np.asarray(values[shown], np.uint8),
        "near_labels": labels[shown],
        "images": small(np.asarray(values[order[:MARKS]], np.uint8)),
        "image_ids": texts.digests[order[:MARKS]],
    }


def small(images: np.ndarray) -> np.ndarray:
    """Shrink images to at most SIDE pixels a side, by the means of blocks of pixels."""
    block = -(-images.shape[-1] // SIDE)
    side = images.shape[-1] // block
    cut = images[..., : side * block, : side * block]
    return cut.reshape(*images.shape[:-2], side, block, side, block).mean((-3, -1)).round().astype(np.uint8)
