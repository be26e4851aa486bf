"""What can be wrong with results, one thing at a time."""

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

from reports.load import Results
from tests.reports.made import put

SEEDS = 3


LOSSES = {"loss": ["ce+supcon", "rdrop"]}


SECTIONS = [
    {"title": "Losses", "axes": LOSSES, "show": {"table": {"values": ["test.accuracy", "test.ari", "test.nmi"]}}},
    {
        "title": "Tokens",
        "base": {"loss": "ce+supcon", "view": "topk_tokens"},
        "axes": {"k": [2, 3, 4], "alpha": [0.2, 0.5]},
        "show": {"table": {"rows": "k", "columns": "alpha"}},
    },
    {"title": "Tuned", "axes": {"tune": ["full", {"last_blocks": 0}, {"lora": {}}], **LOSSES}},
    {"title": "Size", "axes": {"train": [300, 600], "threads": [1, 2], "batch_size": [8, 16]}, "baseline": {}},
    {"title": "Listed", "include": [{"loss": "rdrop", "epochs": 2}, {"loss": "simcse", "micro_batch": 4}]},
]


def copied(sound: Results) -> Results:
    frames = {"scores": sound.scores.copy(), "measured": sound.measured.copy()}
    parts = {name: copy.deepcopy(getattr(sound, name)) for name in ("grid", "cells", "units")}
    return dataclasses.replace(sound, notes={}, **parts, **frames)


def at(results: Results, row: int, seed: int, section: int = 1) -> str:
    return results.grid.sections[section].rows[row].cells[seed]


def provenance(path: str, value: Any, seeds: str = "one") -> Callable[[Results], None]:
    """Note something else of the cell of row 2 and seed 1, or of all rows at that seed."""

    def spoil(results: Results) -> None:
        rows = range(len(results.grid.sections[1].rows)) if seeds == "all" else (2,)
        for row in rows:
            *parts, last = path.split("/")
            noted: Any = results.provenance(at(results, row, 1))
            for part in parts:
                noted = noted[part] if isinstance(noted, dict) else getattr(noted, part)
            if isinstance(noted, dict):
                noted[last] = value
            else:
                put(noted, **{last: value})

    return spoil


def state(status: str, error: str = "") -> Callable[[Results], None]:
    def spoil(results: Results) -> None:
        put(results.cells[at(results, 2, 1)], status=status, error=error)

    return spoil


def without(results: Results, cells: list[str]) -> None:
    put(results, cells={name: run for name, run in results.cells.items() if name not in cells})


def drop(results: Results) -> None:
    without(results, [at(results, 2, 1)])
    put(results, scores=results.scores.drop(index=at(results, 2, 1)))


def no_score(results: Results) -> None:
    results.scores.loc[at(results, 2, 1), "test.accuracy"] = math.nan


def no_score_and_why(results: Results) -> None:
    no_score(results)
    results.notes[at(results, 2, 1)] = {"test.svm": "all 9 texts are of one class", "train.svm": "of another split"}


def swap(first: tuple[int, int], second: tuple[int, int]) -> Callable[[Results], None]:
    def spoil(results: Results) -> None:
        rows = results.grid.sections[1].rows
        (a, i), (b, j) = first, second
        rows[a].cells[i], rows[b].cells[j] = rows[b].cells[j], rows[a].cells[i]

    return spoil


def repeat(results: Results) -> None:
    rows = results.grid.sections[1].rows
    rows[2].cells[1] = rows[3].cells[1]


def param(name: str, value: str) -> Callable[[Results], None]:
    def spoil(results: Results) -> None:
        results.cells[at(results, 2, 1)].params[name] = value

    return spoil


def other_row(results: Results) -> None:
    """A row of other epochs, in the grid and in its runs."""
    row = results.grid.sections[1].rows[2]
    row.settings["training.epochs"] = "9"
    for cell in row.cells:
        results.cells[cell].params["training.epochs"] = "9"


def evaluation(results: Results) -> None:
    put(results.cells[at(results, 2, 1)], evaluation="another")


def nothing_noted(results: Results) -> None:
    put(results.cells[at(results, 2, 1)], provenance=None)


def entry(results: Results, score: str = "test.accuracy") -> Any:
    """The place of a score of one cell in `measured`."""
    measured = results.measured
    return measured.index[(measured["cell"] == at(results, 2, 1)) & (measured["score"] == score)][0]


def edited(results: Results) -> None:
    results.scores.loc[at(results, 2, 1), "test.accuracy"] += 0.001


def foreign(results: Results) -> None:
    put(results, measured=results.measured.drop(index=entry(results)))


def scored(score: str, value: float) -> Callable[[Results], None]:
    def spoil(results: Results) -> None:
        results.scores.loc[at(results, 2, 1), score] = value
        results.measured.loc[entry(results, score), "value"] = value

    return spoil


def turned(results: Results) -> None:
    results.measured.loc[entry(results), "higher_is_better"] = False


def counted(results: Results) -> None:
    results.measured.loc[entry(results), "count"] = 599


def idle(results: Results) -> None:
    one, *others = results.grid.sections[1].rows[2].cells
    for cell in others:
        results.scores.loc[cell] = results.scores.loc[one]


def at_chance(results: Results) -> None:
    for cell in results.grid.sections[1].rows[2].cells:
        results.scores.loc[cell, "test.accuracy"] = 250 / 600


def cut(seeds: int, *rows: int) -> Callable[[Results], None]:
    def spoil(results: Results) -> None:
        for number, row in enumerate(results.grid.sections[1].rows):
            if number in rows or not rows:
                put(row, cells=row.cells[:seeds], seeds=row.seeds[:seeds])

    return spoil


def no_baseline(results: Results) -> None:
    without(results, results.grid.sections[1].rows[0].cells)


def nothing_to_compare(results: Results) -> None:
    put(results.grid.sections[1].rows[2], against=None)


def silent(results: Results) -> None:
    put(results.grid.sections[1].show.table, values=("test.accuracy", "loss"))
