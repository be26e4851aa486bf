"""Handwritten digits, 1 797 images of 8 × 8 greys (UCI, CC BY 4.0), shipped by scikit-learn."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

FILES = ("datasets/data/digits.csv.gz",)


def digits(folder: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    table = np.loadtxt(folder / FILES[0], delimiter=",")
    greys = np.round(table[:, :-1] * 255 / 16).astype(np.uint8)
    return greys.reshape(-1, 8, 8), table[:, -1].astype(np.int64)
