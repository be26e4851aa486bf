"""Time what a finished panel can do once more: an evaluation of some cells, the report. Run by path, not imported.

The code that is timed is the one on PYTHONPATH, which may be another commit's.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def seconds_taken(work: Callable[[Path], object]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        work(Path(folder))
        return time.perf_counter() - began


def main(panel: str, repeats: int, cells: list[str]) -> dict[str, list[float]]:
    from contrastive.evaluation import evaluate
    from contrastive.experiment import load
    from contrastive.runs import store
    from reports.build import build

    wanted, home = load.load_experiment(panel).experiment, store.home()
    address = f"sqlite:///{home / 'mlflow.db'}"

    def evaluation(cell: str) -> Callable[[Path], object]:
        return lambda into: evaluate.evaluate_folder(home / "runs" / cell, wanted.evaluation, into=into)

    def report(into: Path) -> object:
        return build(wanted.name, address, into / "report")

    measured = [cells[number % len(cells)] for number in range(repeats)]
    # the first of each imports and compiles what the others find
    evaluations = [seconds_taken(evaluation(cell)) for cell in [cells[0], *measured]]
    return {
        "evaluation_seconds": evaluations[1:],
        "report_seconds": [seconds_taken(report) for _ in range(repeats + 1)][1:],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
