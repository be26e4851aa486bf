"""How the texts begin that pictures show: what a reader sees who points at one. Made for a grid, not for a cell."""

import json
from pathlib import Path

import numpy as np

from contrastive.cells.plan import Plan
from contrastive.cells.projections import same_texts
from contrastive.config.cell import Data
from contrastive.runs import cache, store

LONGEST = 200  # characters


def text_previews(plan: Plan) -> dict[str, str]:
    """Content id → beginning of each text in a picture of the grid, as far as its tokens are there."""
    shown = [row.cells[0] for part in plan.resolved.sections if part.section.show.tsne for row in part.rows]
    previews: dict[str, str] = {}
    read: set[Data] = set()
    for cell in dict.fromkeys(shown):
        texts, folder = same_texts(cell.data), cache.place_of("tokens", plan.test_key(cell))
        if texts not in read and store.finished(folder):
            read.add(texts)
            previews |= beginnings(folder, plan.experiment.evaluation.picture_points)
    return dict(sorted(previews.items()))


def beginnings(folder: Path, points: int) -> dict[str, str]:
    """The test texts with the smallest ids, as contrastive/evaluation/picture.py chooses them."""
    digests = np.load(folder / "test.digests.npy")
    chosen = set(np.argsort(digests, kind="stable")[:points].tolist())
    with (folder / "texts.test.jsonl").open(encoding="utf-8", newline="\n") as lines:
        texts = {position: json.loads(line)["text"] for position, line in enumerate(lines) if position in chosen}
    return {str(digests[position]): beginning(text) for position, text in texts.items()}


def beginning(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
