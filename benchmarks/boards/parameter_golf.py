"""Reader of parameter-golf: the loss of each seed of each record of the ten-minute track, in bits per byte."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from statistics import mean
from typing import Any

from ablate.verdicts import Question
from benchmarks.boards.clone import Clone

FOLDER = "records/track_10min_16mb"
ADDRESS, LICENCE = "https://github.com/openai/parameter-golf", "MIT"
SCORE, QUESTION = "val_bpb", Question(lower=("val_bpb",), records="date")
SUPPORT = {"SmearGateBOSFix_3Seed_1.06141": "2026-04-27"}  # the seeds of a record of that day
ASKED = "--lower val_bpb --records date"


def read(clone: Clone) -> list[dict[str, Any]]:
    """Return a line for each seed of each record that has two or more: a single value may be a mean of several."""
    records = []
    for path in clone.files(FOLDER):
        if path.endswith("/submission.json"):
            facts, row = json.loads(clone.read(path)), PurePosixPath(path).parent.name[11:]
            if len(seeds := by_seed(facts)) > 1:
                date = SUPPORT.get(row, facts["date"][:10])
                records.append((date, -mean(seeds.values()), row, seeds, path))  # of one day, the best is the last
    return [
        {"row": row, "date": date, "run": seed, SCORE: score, "file": path}
        for date, _, row, seeds, path in sorted(records, key=lambda record: record[:3])
        for seed, score in seeds.items()
    ]


def by_seed(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return the score of each seed, under whichever name a record has them."""
    seeds, scores = facts.get("seeds"), facts.get("seed_scores")
    if isinstance(seeds, list) and isinstance(scores, list):
        return dict(zip(map(str, seeds), scores, strict=True))
    found = facts.get("seed_results") or (seeds if isinstance(seeds, dict) else {})
    return {seed: float(own["val_bpb"] if isinstance(own, dict) else own) for seed, own in found.items()}
