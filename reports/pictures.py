"""Where the texts of a cell lie in two dimensions, as its file says; no points, and why, where they show nothing."""

import logging
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrastive.runs.recorded import RecordedGrid
from reports.mlflow_runs import Artifacts, Held

logger = logging.getLogger(__name__)

ONE_POINT = 1e-3  # spread of coordinates in which nothing can be seen: t-SNE's own unit is 1, and it begins at 1e-4


@dataclass(frozen=True)
class Picture:
    """Where some texts of a cell lie; without any, `reason` says why."""

    method: str
    x: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    reason: str = ""


def pictures(artifacts: Artifacts, grid: RecordedGrid, chosen: dict[str, Held]) -> dict[str, Picture]:
    """Pictures of each row's first seed, for the sections that show them."""
    firsts = {row.cells[0] for section in grid.sections if section.show.tsne for row in section.rows}
    by_cell = {}
    for cell in sorted(firsts & chosen.keys()):
        if (path := artifacts.file(chosen[cell], "picture.npz")) is not None:
            by_cell[cell] = picture(path)
    return by_cell


def picture(path: Path) -> Picture:
    """A picture as its cell left it; without points, and with the reason, where they show nothing or cannot be read."""
    try:
        with np.load(path) as arrays:
            reason = str(arrays["reason"]) if "reason" in arrays else ""
            stored = Picture(str(arrays["method"]), arrays["x"], arrays["labels"], arrays["ids"], reason)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        logger.warning("%s cannot be read: %s", path, error)
        return without_points("picture", f"{path.name} cannot be read")
    if not np.isfinite(stored.x).all():
        return without_points(stored.method, "its coordinates are not finite numbers")
    if len(stored.x) and stored.x.std(0).max() <= ONE_POINT:
        return without_points(stored.method, f"all {len(stored.x)} texts lie on one point")
    return without_points(stored.method, stored.reason) if stored.reason else stored


def without_points(method: str, reason: str) -> Picture:
    return Picture(method, np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, np.uint64), reason)
