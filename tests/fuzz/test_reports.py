"""Whatever single cells hold, a report is built, and says only what its numbers say."""

import math
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contrastive.runs.recorded import RecordedSection
from reports.build import write_report
from reports.study import MEASURED, Results
from tests.fuzz.conftest import Rounds
from tests.reports.figures import sample
from tests.reports.made import contradictions, put

VALUES = (0.7, 0.7, 0.71, 0.0, 1.0, -0.0, 1e-12, math.nan, 3e38, -3e38, -3.0, 1.0001)  # 3e38: the largest in float32
NAMES = ("ce", "a|b", "<img src=x>", "**bold**", "差评", "", " ", "NA", "1", "a" * 200, "`x`", "$\\a$", "x\ny", "🙂")


def grid(chance: random.Random) -> Results:
    """One to three sections of few rows over few seeds, all of it measured."""
    seeds = tuple(range(chance.choice((1, 1, 2, 3))))
    titles = chance.sample(("Recipes", "K × α", "a|b <i>", "视角", "`x`"), chance.randint(1, 3))
    sections = [section(title, number, seeds, chance) for number, title in enumerate(titles)]
    classes = tuple(chance.sample([name for name in NAMES if name.strip()], chance.randint(1, 4)))
    return sample.results(*sections, classes=classes)


def section(title: str, number: int, seeds: tuple[int, ...], chance: random.Random) -> RecordedSection:
    names = list(dict.fromkeys(chance.choices(NAMES, k=chance.randint(1, 5))))
    rows = []
    for place, name in enumerate(names):
        row = sample.row(10 * number + place, name, {}, seeds, loss=name)
        rows.append(replace(row, baseline=place == 0, against=0 if place else None))
    return sample.section(title, rows, chance.choice((sample.VALUES, sample.VALUES[:1])))


def spoiled(results: Results, chance: random.Random) -> Results:
    """With scores, statuses, files, pictures and curves that no test has thought of."""
    scores = results.scores.copy()
    for cell in scores.index:
        for name in scores.columns:
            if chance.random() < 0.15:
                scores.loc[cell, name] = chance.choice(VALUES)
    if chance.random() < 0.1:
        scores = scores.drop(columns=scores.columns[0])
    for cell in results.cells:
        if chance.random() < 0.1:
            put(results.cells[cell], status=chance.choice(("failed", "diverged", "unfinished", "running")))
            scores.loc[cell] = math.nan
        if chance.random() < 0.1:
            put(results.cells[cell], provenance=None)
        elif chance.random() < 0.2:
            put(results.provenance(cell), class_counts={}, wall_seconds=chance.choice((0.01, 1e9)))
    for cell in list(results.tsne):
        if chance.random() < 0.2:
            put(results.tsne[cell], x=results.tsne[cell].x * chance.choice((0, np.nan)))
    lost = chance.sample(list(scores.index), chance.choice((0, 0, 0, 1, len(scores))) if len(scores) else 0)
    curves = results.curves.copy()
    if chance.random() < 0.3:
        curves.loc[curves.index[:: chance.randint(1, 9)], "value"] = chance.choice(VALUES)
    if chance.random() < 0.1:
        curves = curves[:0]
    told = [
        (cell, name, float(scores.loc[cell, name]), True, 20 * chance.randint(1, 4), "", None)
        for cell in scores.index
        for name in scores.columns
        if chance.random() < 0.95
    ]
    changed = {"scores": scores.drop(index=lost), "curves": curves}
    return Results(**vars(results) | changed | {"measured": pd.DataFrame(told, columns=MEASURED)})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of scores as large as 3e38
@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # beside numbers as wide as these
def test_one_odd_cell_never_costs_the_report(rounds: Rounds):
    for number, chance in rounds(1):
        results = spoiled(grid(chance), chance)
        with tempfile.TemporaryDirectory() as folder:
            try:
                write_report(results, Path(folder))
                found = contradictions(Path(folder))
            except Exception as error:
                raise AssertionError(f"round {number} has no report") from error
        assert not found, f"round {number}: {found}"
