"""Reader of parameter-golf: the loss of each seed of each record of the ten-minute track, in bits per byte."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from ablate.verdicts import Question
from benchmarks.boards.clone import Clone

FOLDER = "records/track_10min_16mb"
ADDRESS, LICENCE = "https://github.com/openai/parameter-golf", "MIT"
SCORE, QUESTION = "val_bpb", Question(lower=("val_bpb",), records="date")
ASKED = "--lower val_bpb --records date"


def read(clone: Clone) -> list[dict[str, Any]]:
    """Return a line for each seed of each record that gives two or more; one value may be a mean of several."""
    lines = []
    for path in clone.files(FOLDER):
        if not path.endswith("/submission.json"):
            continue
        facts = json.loads(clone.read(path))
        seeds = by_seed(facts)
        row = PurePosixPath(path).parent.name
        for seed, score in seeds.items() if len(seeds) > 1 else ():
            lines.append({"row": row, "date": facts["date"][:10], "run": seed, "val_bpb": score, "file": path})
    return sorted(lines, key=lambda line: (line["date"], line["row"]))


def by_seed(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return the score of each seed, under whichever name a record has them."""
    seeds, scores = facts.get("seeds"), facts.get("seed_scores")
    if isinstance(seeds, list) and isinstance(scores, list):
        return dict(zip(map(str, seeds), scores, strict=True))
    found = facts.get("seed_results") or (seeds if isinstance(seeds, dict) else {})
    return {seed: float(own["val_bpb"] if isinstance(own, dict) else own) for seed, own in found.items()}
