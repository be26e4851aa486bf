"""Throughput is compared where the same is computed: equal losses of each step, on the same batches without dropout.

The makespan of a grid, and what `make bench` writes.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from benchmarks import __main__ as front
from benchmarks import makespan, one_cell, peers, results, synthetic, throughput, token_views
from benchmarks.results import Section
from contrastive.data import locate

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


@pytest.fixture
def small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of MiniLM: with its tokenizer, and random weights that are computed with in no time."""
    import torch
    from transformers import BertConfig, BertModel

    shipped = locate.model_folder(peers.MODEL)
    folder = tmp_path / "small"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(shipped / name, folder)
    torch.manual_seed(0)
    settings = json.loads((shipped / "config.json").read_text(encoding="utf-8")) | SMALL
    BertModel(BertConfig(**settings)).save_pretrained(folder)
    monkeypatch.setattr(peers, "MODEL", f"file:{folder}")


@pytest.mark.full
@pytest.mark.usefixtures("small_model")
@pytest.mark.parametrize(("loss", "peer"), [("simcse_sup", "sentence-transformers"), ("ce", "transformers")])
def test_our_losses_are_the_peers(loss: str, peer: str):
    own, other = (throughput.measure(system, loss, "tweets", 32, True) for system in ("ours", peer))
    assert own["step 0"] == pytest.approx(other["step 0"], rel=1e-6)
    assert own["held out"] == pytest.approx(other["held out"], rel=1e-5)  # after a step of the same optimizer
    assert own["held out"] != pytest.approx(own["step 0"], rel=1e-3)


@pytest.mark.full
@pytest.mark.usefixtures("small_model")
def test_the_recipe_of_token_views_runs_both_ways():
    for way in token_views.WAYS:
        run = token_views.measure(way, 24, 16)
        assert run["seconds"] > 0


SMALL_BERT = {"model": "scratch:bert", "scratch": {"layers": 2, "hidden": 16, "heads": 2, "vocabulary": 400}}


def test_the_grid_has_as_many_cells_as_asked_for_in_the_order_of_the_table(tmp_path: Path):
    file = tmp_path / "grid.yaml"
    file.write_text(yaml.safe_dump(makespan.experiment(24, 600, {}), sort_keys=False), encoding="utf-8")
    _, cells = one_cell.read(str(file))
    found = [(cell.objective.loss, cell.objective.alpha, cell.seed) for cell in cells]
    assert found == list(makespan.product(makespan.LOSSES, makespan.ALPHAS, range(2)))
    assert makespan.shape(2) == (makespan.LOSSES[:1], makespan.ALPHAS[:1], 2)
    assert makespan.shape(192) == (makespan.LOSSES, makespan.ALPHAS, 16)
    with pytest.raises(SystemExit, match="below 12 or a multiple of it, not 25"):
        makespan.shape(25)
    # the table is in times of the first row
    runs = {"ours": [{"seconds": 2.0, "cells": 1.0}], "theirs": [{"seconds": 10.0, "cells": 9.0}]}
    assert "| theirs | 10.0 | 9.0 | 5.00 |" in makespan.table(runs)


def written(home: Path, system: dict[str, Any], **encoder: Any) -> Path:
    small = {"encoder": SMALL_BERT | encoder, "evaluation": {"metrics": ["accuracy"]}}
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


ROOT = Path(__file__).parents[2]
OLD = Section("Old", "2026-01-01", "python -m old", "| 1 |")
NEW = Section("New", "2026-01-02", "python -m new", "| 2 |")


def test_a_section_takes_the_place_of_its_older_self_and_none_stands_beside_another_machine(tmp_path: Path):
    file = tmp_path / "results.md"
    results.write([OLD, NEW], file, top="# Machine\n")
    results.write([Section("Old", "2026-01-03", "python -m old", "| 3 |")], file, top="# Machine\n")
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# Machine\n\n## Old\n\n`python -m old`, 2026-01-03\n\n| 3 |\n\n## New\n")
    assert "| 1 |" not in text and text.endswith("| 2 |\n")
    results.write([NEW], file, top="# Another machine\n")
    assert "## Old" not in file.read_text(encoding="utf-8")
    assert f"torch {torch.__version__}" in results.header() and " cores, " in results.header()


@pytest.mark.full
def test_the_front_runs_a_benchmark_and_keeps_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "results.md"
    monkeypatch.setitem(front.TITLES, "nothing", "Nothing at all")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nothing", "--quick", "--into", str(file)])
    monkeypatch.chdir(ROOT)
    front.main()
    assert "## Nothing at all\n\n`python -m benchmarks.nothing --quick`" in file.read_text(encoding="utf-8")


@pytest.mark.full
def test_500_runs_take_seconds_and_little_memory(home: Path):
    uri = synthetic.write(home, synthetic.experiment(500))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    step = [sys.executable, "-m", "benchmarks.report", "load, guards, export", uri]
    done = subprocess.run(step, cwd=ROOT, env=os.environ | {"ABLATE_HOME": str(home)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 15  # of a processor, whoever else is on the machine; alone it is 3
    peak = re.search(r"peak (\d+) MiB", done.stdout)
    assert peak is not None and int(peak[1]) < 600
    assert (home / "results.csv").read_text().count("\n") == (505 + 30) * 19 + 1
