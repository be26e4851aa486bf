"""Results made by hand: a grid of rows with scores at several seeds, and where asked, what each text adds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from contrastive.config.experiment import Experiment
from reports.load import MEASURED, Results
from tests.recorded import SETTINGS, provenance


@dataclass(frozen=True)
class Made(Results):
    """With the texts of each cell in memory, in the place of files."""

    known: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def each(self, cell: str, score: str) -> np.ndarray | None:
        return self.known.get((cell, score))

    def examples(self, cell: str, names: Iterable[str]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        return {name: self.known[cell, name] for name in names if (cell, name) in self.known}, {"test.ids": 1}


def row(label: str, cells: list[str], against: int | None = 0, data: str = "", **axes: Any) -> dict[str, Any]:
    return {
        "label": label,
        "axes": axes,
        "baseline": against is None,
        "against": against,
        "data": data,
        "cells": cells,
        "seeds": list(range(len(cells))),
        "settings": {"loss": label},
    }


def section(
    rows: list[dict[str, Any]], values: tuple[str, ...], /, title: str = "A section", **table: Any
) -> dict[str, Any]:
    shape = {"values": list(values), "rows": None, "columns": None, "family": None} | table
    return {"title": title, "note": "", "show": {"table": shape, "tsne": False, "curves": False}, "rows": rows}


def made(
    values: dict[str, dict[str, list[float]]],
    texts: dict[str, np.ndarray] | None = None,
    worse_is_more: tuple[str, ...] = (),
    data: dict[str, str] | None = None,
    axes: dict[str, dict[str, Any]] | None = None,
    **table: Any,
) -> tuple[dict[str, Any], Results]:
    """One section of rows, the first its baseline: label → score → the value at each seed; label → seed × text."""
    rows, scores, known = [], {}, {}
    for place, (label, measured) in enumerate(values.items()):
        seeds = len(next(iter(measured.values())))
        cells = [f"{label}-{seed}" for seed in range(seeds)]
        own = {"loss": label} if axes is None else axes.get(label, {})
        rows.append(row(label, cells, 0 if place else None, (data or {}).get(label, ""), **own))
        for seed, cell in enumerate(cells):
            scores[cell] = {name: found[seed] for name, found in measured.items()}
            if texts is not None:
                known[cell, "test.accuracy"] = texts[label][seed]
    names = tuple(next(iter(values.values())))
    directions = {name: {"higher_is_better": name not in worse_is_more, "count": 10**6} for name in names}
    part = section(rows, names, **table)
    several = tuple(range(max(len(one["seeds"]) for one in rows)))
    experiment = Experiment(name="small", seeds=several, sections=[{"title": "A section"}], **SETTINGS).model_dump(
        mode="json"
    )
    grid = {"experiment": experiment, "sections": [part], "references": [], "failed": {}, "stale_kept": []}
    known_of = {
        cell: {
            "name": cell,
            "status": "finished",
            "error": "",
            "provenance": provenance(100),
            "run_id": cell,
            "place": "",
        }
        | {"params": one["settings"] | {"seed": str(seed)}, "evaluation": ""}
        for one in rows
        for seed, cell in zip(one["seeds"], one["cells"], strict=True)
    }
    cells = pd.DataFrame(list(known_of.values()), index=list(known_of))
    wide = pd.DataFrame(scores).T
    told = [
        (cell, name, value, name not in worse_is_more, 100, "", None)
        for cell, found in scores.items()
        for name, value in found.items()
    ]
    measured = pd.DataFrame(told, columns=MEASURED)
    return part, Made(grid, cells, wide, pd.DataFrame(), {}, directions, {}, measured, known=known)
