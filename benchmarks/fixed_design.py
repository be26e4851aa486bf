"""What a fixed design takes for a file of the study: five seeds of every row, paired t-tests with Holm in each section.

    time ablate run configs/study/recipes.yaml --until-decided --max-seeds 8 --budget 45m
    python -m benchmarks.fixed_design configs/study/recipes.yaml 1900 reports/output/study-recipes

takes the seconds and the report of that run, on this machine, and writes benchmarks/fixed_design.json. Hydra with the
joblib launcher runs the cells, a process a core, without the reuse of repeated work. `python -m benchmarks.study` puts
both verdicts beside each other.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy import stats
from statsmodels.stats.multitest import multipletests

from benchmarks import makespan, one_cell
from contrastive.grid.load import load_experiment
from contrastive.runs import provenance, store

FILE = Path(__file__).with_name("fixed_design.json")
SEEDS = 5


def run(file: Path, home: Path) -> tuple[float, Path]:
    """Run all cells of a file with SEEDS seeds in a home of its own; return the seconds and the file that was run."""
    asked = yaml.safe_load(file.read_text(encoding="utf-8")) | {"seeds": list(range(SEEDS)), "speed": {"reuse": "none"}}
    copy = home / file.name
    copy.write_text(yaml.safe_dump(asked, sort_keys=False), encoding="utf-8")
    cells, cores = len(load_experiment(copy).cells), len(os.sched_getaffinity(0))
    command = makespan.command("Hydra, joblib", copy, cells, cores)
    began = time.time()
    makespan.call(command, home)
    return time.time() - began, copy


def verdicts(file: Path) -> list[dict[str, Any]]:
    """Return a verdict for each row of each section, from the scores of the cells of a file that was run."""
    loaded = load_experiment(file)
    primary = loaded.experiment.report.primary
    values = {
        cell: next(s["value"] for s in store.read_json(folder / "scores.json")["scores"] if s["name"] == primary)
        for cell, folder in zip(loaded.cells, one_cell.folders(str(file)), strict=True)
    }
    found = list[dict[str, Any]]()
    for section in loaded.sections:
        scores = [np.array([values[cell] for cell in row.cells]) for row in section.rows]
        compared = {
            row.label: scores[n] - scores[row.against] for n, row in enumerate(section.rows) if not row.baseline
        }
        found += [{"section": section.section.title} | line for line in judged(compared)]
    return found


def of_report(report: Path, primary: str) -> dict[str, Any]:
    """Return the number of trainings and the verdicts of a report of `ablate run --until-decided`."""
    lines = pd.read_csv(report / "comparisons.csv")
    lines = lines[(lines.value == primary) & lines.difference.notna()]
    cells = pd.read_csv(report / "results.csv").dropna(subset="seconds").cell.nunique()
    kept = ["section", "label", "difference", "difference_half_width", "verdict", "common"]
    return {"cells": int(cells), "verdicts": lines[kept].to_dict("records")}


def judged(compared: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Test differences at equal seeds against 0, and correct for all of a section by Holm's method."""
    chances = [float(stats.ttest_1samp(differences, 0.0).pvalue) for differences in compared.values()]
    lines = list[dict[str, Any]]()
    for (row, differences), p in zip(compared.items(), multipletests(chances, method="holm")[1], strict=True):
        mean = float(differences.mean())
        sign = "better" if mean > 0 else "worse"
        verdict = sign if p < 0.05 else "not significant"
        lines.append({"row": row, "difference": round(mean, 5), "p": round(float(p), 5), "verdict": verdict})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("adaptive", type=int, metavar="SECONDS", help="what `ablate run` took for it, by the clock")
    parser.add_argument("report", type=Path, help="the report of that run")
    asked = parser.parse_args()
    file, adaptive = (
        asked.file,
        of_report(asked.report, load_experiment(asked.file).experiment.report.primary or "test.accuracy"),
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ABLATE_HOME"] = folder
        seconds, copy = run(file.absolute(), Path(folder))
        cells = len(load_experiment(copy).cells)
        document = {
            "file": file.name, "seconds": round(seconds), "cells": cells, "seeds": SEEDS,
            "verdicts": verdicts(copy), "adaptive": {"seconds": asked.adaptive} | adaptive,
            "processor": f"{provenance.processor()}, {len(os.sched_getaffinity(0))} cores",
        }  # fmt: skip
    FILE.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{cells} cells in {seconds / 60:.1f} min: {FILE}")


if __name__ == "__main__":
    main()
