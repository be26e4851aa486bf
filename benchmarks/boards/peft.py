"""Reader of peft's method comparison on MetaMathQA: the test accuracy of each method, one run each."""

import json
from pathlib import PurePosixPath
from typing import Any

from ablate.verdicts import Question
from benchmarks.boards.clone import Clone

FOLDER = "method_comparison/MetaMathQA/results"
ADDRESS, LICENCE = "https://github.com/huggingface/peft", "Apache-2.0"
SCORE, QUESTION = "test_accuracy", Question(ties=True, texts="1319")  # the test set of GSM8K
ASKED = "--ties --texts 1319"


def read(clone: Clone) -> list[dict[str, Any]]:
    """Return a line for each method."""
    lines = []
    for path in clone.files(FOLDER):
        if not path.endswith(".json"):
            continue
        facts = json.loads(clone.read(path))
        run, metrics = facts["run_info"], facts["train_info"]["metrics"]
        scores = [metric["test accuracy"] for metric in metrics if "test accuracy" in metric]
        row, seed = PurePosixPath(path).stem.replace("--llama-3.2-3B-", " "), run["train_config"]["seed"]
        day = run["created_at"][:10]
        lines.append({"row": row, "date": day, "seed": seed, "test_accuracy": scores[-1], "file": path})
    return lines
