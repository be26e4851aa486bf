"""Handwritten digits, 1 797 images of 8 × 8 greys (UCI, CC BY 4.0), shipped by scikit-learn."""

from pathlib import Path
from typing import Any

FILES = ("datasets/data/digits.csv.gz",)


def digits(folder: Path) -> tuple[Any, Any]:
    import numpy as np

    table = np.loadtxt(folder / FILES[0], delimiter=",")
    greys = np.round(table[:, :-1] * 255 / 16).astype(np.uint8)
    return greys.reshape(-1, 8, 8), table[:, -1].astype(np.int64)
