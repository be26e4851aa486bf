"""The test images nearest to a few of them, for the report's picture of what an encoder holds for alike."""

from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.images import Images
from contrastive.data.tokens import TokenSplit

ASKED, NEAREST = 8, 6  # images, and the neighbours of each


def nearest_images(
    vectors: Float[np.ndarray, "n d"], labels: Integer[np.ndarray, " n"], texts: TokenSplit, images: Images
) -> dict[str, Any]:
    """Return an image of each class, the one with the least id, followed by the nearest others: values and labels."""
    order = np.argsort(texts.digests, kind="stable")
    firsts = [order[np.argmax(labels[order] == label)] for label in np.unique(labels)[:ASKED]]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    cosines = unit[firsts] @ unit.T
    cosines[np.arange(len(firsts)), firsts] = np.inf  # itself first
    shown = np.argsort(-cosines, axis=1, kind="stable")[:, : NEAREST + 1]
    values = texts.ids.reshape(-1, images.channels, images.size, images.size)[shown.ravel()]
    return {
        "near": np.asarray(values, np.uint8).reshape(*shown.shape, images.channels, images.size, images.size),
        "near_labels": labels[shown],
    }
