"""Pictures of embeddings as numbers: where each text lies in each panel, and what it says."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive.errors import printable
from contrastive.runs.recorded import RecordedSection
from reports.figures.tsne import aligned, class_names, first_of, rows_with_pictures
from reports.load import Results

SIDE = 1000  # whole steps from one edge of a panel to the other: finer than any screen


@dataclass(frozen=True)
class PointPanel:
    """One configuration: where its texts lie, in whole steps; without any, `reason` says why."""

    label: str
    seed: int
    places: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    reason: str


@dataclass(frozen=True)
class Panels:
    """Those of a section, and the names of its classes."""

    method: str
    classes: list[str]
    panels: list[PointPanel]


def section_points(section: RecordedSection, results: Results) -> Panels | None:
    """None where the section asks for none, or nothing was drawn."""
    rows = rows_with_pictures(section, results)
    if not rows or not section.show.tsne:
        return None
    first = first_of(rows, results)
    arrays = [results.tsne[row.cells[0]] for row in rows]
    coordinates = [aligned(picture, first) for picture in arrays]
    reach = max((float(np.abs(x).max()) for x in coordinates if len(x)), default=1.0) * 1.03 or 1.0
    highest = max((int(np.max(picture.labels)) for picture in arrays if len(picture.x)), default=-1)
    names = class_names(rows, results)
    panels = [
        PointPanel(
            row.label,
            row.seeds[0],
            np.rint((x + reach) / (2 * reach) * SIDE).astype(int),
            np.asarray(picture.labels)[: len(x)],
            np.asarray(picture.ids)[: len(x)],
            "" if len(x) else picture.reason,
        )
        for row, picture, x in zip(rows, arrays, coordinates, strict=True)
    ]
    classes = [printable(names[i]) if i < len(names) else f"class {i + 1}" for i in range(max(highest + 1, len(names)))]
    return Panels(first.method, classes, panels)


def texts(pictures: list[Panels | None], results: Results) -> dict[int, str]:
    """Of all points, once each: a text's id does not fit the numbers of a browser, its place here does."""
    ids = {int(text_id) for picture in pictures if picture for panel in picture.panels for text_id in panel.ids}
    return {text_id: printable(results.texts.get(text_id, "")) for text_id in sorted(ids)}


def arrays(pictures: list[Panels | None], shown: dict[int, str]) -> list[dict[str, Any]]:
    numbers = {text_id: number for number, text_id in enumerate(shown)}
    return [
        {
            "classes": picture.classes,
            "panels": [
                {
                    "x": panel.places[:, 0].tolist() if len(panel.ids) else [],
                    "y": panel.places[:, 1].tolist() if len(panel.ids) else [],
                    "labels": panel.labels.tolist(),
                    "texts": [numbers[int(text_id)] for text_id in panel.ids],
                }
                for panel in picture.panels
            ],
        }
        for picture in pictures
        if picture is not None
    ]
