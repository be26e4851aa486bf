"""Results made by hand: a grid of rows with scores at several seeds, and where asked, what each text adds."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contrastive.config.experiment import Experiment, Show
from contrastive.runs.recorded import Provenance, RecordedGrid, RecordedRow, RecordedSection
from reports.rows import ANY, summarise
from reports.statistics.decide import ALPHA, TESTED, verdict
from reports.study import MEASURED, CellRun, Kind, Results, study_of
from tests.recorded import SETTINGS, noted


@dataclass(frozen=True)
class Made(Results):
    """With the texts of each cell in memory, in the place of files."""

    known: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def examples(self, cell: str, names: Iterable[str]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        return {name: self.known[cell, name] for name in names if (cell, name) in self.known}, {"test.ids": 1}


def row(label: str, cells: list[str], against: int | None = 0, data: str = "", **axes: Any) -> RecordedRow:
    seeds, settings = list(range(len(cells))), {"loss": label}
    return RecordedRow(label, axes, against is None, data, cells, seeds, against, settings)


def section(
    rows: list[RecordedRow], values: tuple[str, ...], /, title: str = "A section", **table: Any
) -> RecordedSection:
    show = Show.model_validate({"table": {"values": values} | table})
    return RecordedSection(title, "", show, rows)


def cell_run(cell: str, params: dict[str, str], provenance: Provenance | None) -> CellRun:
    """A finished cell whose run has its name."""
    return CellRun(cell, "finished", "", provenance, cell, "", params)


def made(
    values: dict[str, dict[str, list[float]]],
    texts: dict[str, np.ndarray] | None = None,
    worse_is_more: tuple[str, ...] = (),
    data: dict[str, str] | None = None,
    axes: dict[str, dict[str, Any]] | None = None,
    **table: Any,
) -> tuple[RecordedSection, Results]:
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
    kinds = {name: Kind(name not in worse_is_more, 10**6) for name in names}
    part = section(rows, names, **table)
    several = tuple(range(max(len(one.seeds) for one in rows)))
    experiment = Experiment(
        name="small", seeds=several, sections=[{"title": "A section", "rows": {"ce": {"loss": "ce"}}}], **SETTINGS
    )
    grid = RecordedGrid(experiment, [part], [])
    runs = {
        cell: cell_run(cell, {"loss": one.label, "seed": str(seed)}, noted(100))
        for one in rows
        for seed, cell in zip(one.seeds, one.cells, strict=True)
    }
    told = [
        (cell, name, value, name not in worse_is_more, 100, "", None)
        for cell, found in scores.items()
        for name, value in found.items()
    ]
    measured = pd.DataFrame(told, columns=MEASURED)
    return part, Made(
        study_of(grid), runs, pd.DataFrame(scores).T, pd.DataFrame(), {}, kinds, measured=measured, known=known
    )


def put(thing: Any, **changes: Any) -> None:
    """Change what a test is to spoil: a copy of its own, although its type is frozen."""
    for name, value in changes.items():
        object.__setattr__(thing, name, value)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def contradictions(folder: Path) -> list[str]:
    """What comparisons.csv says of means, differences and verdicts and results.csv does not; each computed anew."""
    results, compared = (pd.read_csv(folder / f"{n}.csv", keep_default_na=False) for n in ("results", "comparisons"))
    seeds: dict[tuple[str, str, str], dict[int, float]] = {}
    for line in results[(results["status"] == "finished") & (results["value"] != "")].to_dict("records"):
        label = f"{line['label']} · {line['variant']}" if line["variant"] else line["label"]
        seeds.setdefault((line["section"], label, line["score"]), {})[line["seed"]] = float(line["value"])
    problems = []
    for line in compared.to_dict("records"):
        own, theirs = (seeds.get((line["section"], line[who], line["value"]), {}) for who in ("label", "against"))
        names = ("mean", "deviation", "difference", "difference_half_width", "p", "margin")
        numbers = (math.nan if line.get(name, "") == "" else float(line[name]) for name in names)
        mean, deviation, difference, apart, p, margin = numbers
        if not line["label"].startswith(ANY):  # one row for all, of no name in the results
            _count, average, spread = summarise(np.array(list(own.values())))
            told = spread if "deviation" in line else math.nan  # reports before it have none
            if not np.allclose([mean, deviation], [average, told], equal_nan=True):
                problems.append(f"{line}: the mean is {average}, the deviation {spread}")
        if line["verdict"] not in TESTED:
            continue
        both = sorted(own.keys() & theirs.keys())[: int(float(line["common"]))]
        true = sum(own[seed] - theirs[seed] for seed in both) / len(both)
        if not np.isclose(difference, true, atol=1e-6):
            problems.append(f"{line}: the difference is {true}")
        follows = verdict(difference, apart, line["higher"], None if math.isnan(margin) else margin, len(both))
        if line["verdict"] != follows or (p < ALPHA) != (abs(difference) > apart):
            problems.append(f"{line}: it is {follows}")
    return problems
