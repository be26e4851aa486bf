"""How the texts begin that pictures show: what a reader sees who points at one. Made for a grid, not for a cell."""

import json
from pathlib import Path

import numpy as np

from contrastive.cells.plan import Plan
from contrastive.config.cell import Cell, Data
from contrastive.data import tokens
from contrastive.runs import store

LONGEST = 200  # characters


def excerpts(plan: Plan) -> dict[str, str]:
    """Content id → beginning of each text in a picture of the grid, as far as its tokens are there."""
    shown = [row.cells[0] for part in plan.grid.sections if part.section.show.tsne for row in part.rows]
    found: dict[str, str] = {}
    read: set[Data] = set()
    for cell in dict.fromkeys(shown):
        texts = cell.data.model_copy(update={"max_length": 128})  # of whatever length
        if texts not in read and store.finished(folder := tokens_of(cell)):
            read.add(texts)
            found |= beginnings(folder, plan.experiment.evaluation.picture_points)
    return dict(sorted(found.items()))


def tokens_of(cell: Cell) -> Path:
    return store.home() / "cache" / "tokens" / tokens.digest(cell.data, cell.encoder)


def beginnings(folder: Path, points: int) -> dict[str, str]:
    """The test texts with the smallest ids, as contrastive/evaluation/picture.py chooses them."""
    digests = np.load(folder / "test.digests.npy")
    chosen = set(np.argsort(digests, kind="stable")[:points].tolist())
    with (folder / "texts.test.jsonl").open(encoding="utf-8", newline="\n") as lines:
        texts = {place: json.loads(line)["text"] for place, line in enumerate(lines) if place in chosen}
    return {str(digests[place]): begin(text) for place, text in texts.items()}


def begin(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
