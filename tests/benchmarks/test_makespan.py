"""The grid whose makespan is measured, and one of the systems that run it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import makespan, one_cell

SMALL = {"model": "scratch:bert", "scratch": {"layers": 2, "hidden": 16, "heads": 2, "vocabulary": 400}}


def test_the_grid_has_as_many_cells_as_asked_for_in_the_order_of_the_table(tmp_path: Path):
    file = tmp_path / "grid.yaml"
    file.write_text(yaml.safe_dump(makespan.experiment(24, 600, {}), sort_keys=False), encoding="utf-8")
    _, cells = one_cell.read(str(file))
    found = [(cell.objective.loss, cell.objective.alpha, cell.seed) for cell in cells]
    assert found == list(makespan.product(makespan.LOSSES, makespan.ALPHAS, makespan.SEEDS))
    assert makespan.shape(6) == (makespan.LOSSES[:3], makespan.ALPHAS[:1])
    with pytest.raises(SystemExit, match="--cells is one of 2, 4, 6"):
        makespan.shape(5)


def written(home: Path, system: dict[str, Any], **encoder: Any) -> Path:
    small = {"encoder": SMALL | encoder, "evaluation": {"metrics": ["accuracy"]}}
    file = home / "grid.yaml"
    file.write_text(yaml.safe_dump(makespan.experiment(2, 40, system) | small, sort_keys=False), encoding="utf-8")
    return file


@pytest.mark.full
def test_a_cell_by_itself_and_one_by_hydra_leave_what_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    file = written(tmp_path, {})
    score = one_cell.run(str(file), 0)
    makespan.call(makespan.command("Hydra, joblib", file, cells=2, cores=1), tmp_path)  # which finds the first one done
    run = makespan.found(file)
    assert run["0 test.accuracy"] == score and run["0 loss"] != run["1 loss"] and run["cells"] > 0
    shown = makespan.scores({"one": [run], "other": [run | {"1 loss": run["1 loss"] + 0.5}]}, 2)
    assert "ce+supcon, α=0.1, seed 1" in shown
    last = "| largest difference in the last step's loss | 0 | 0.5 |"
    assert f"| largest difference in any score | 0 | 0 |\n{last}" in shown


@pytest.mark.full
def test_what_trials_with_reuse_read_is_made_before_they_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    frozen = {"last_blocks": 1, "frozen_dropout": False}
    file = written(tmp_path, makespan.SYSTEMS["Ray Tune with reuse"], tune=frozen)
    one_cell.prepare(str(file))
    for split in ("train", "validation", "test"):
        one_cell.share(str(file), split)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("cache/prefix/**/*.npy")}
    assert len(made) == 3
    one_cell.run(str(file), 0)
    assert made == {path: path.stat().st_mtime_ns for path in tmp_path.glob("cache/prefix/**/*.npy")}


def test_the_table_is_in_times_of_the_first_row():
    runs = {"ours": [{"seconds": 2.0, "cells": 1.0}], "theirs": [{"seconds": 10.0, "cells": 9.0}]}
    assert "| theirs | 10.0 | 9.0 | 5.00 |" in makespan.table(runs)
