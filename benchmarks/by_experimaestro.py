"""Cells of nothing by experimaestro, by its local launcher: a folder and a process a cell.

    PYTHON benchmarks/by_experimaestro.py CELLS FOLDER

Prints what `measure` returns. A second call with the same folder finds everything done. It imports nothing of this
project: experimaestro does not install beside it, so PYTHON is that of an environment of its own.
"""

import json
import resource
import sys
import time
from pathlib import Path

from experimaestro import Meta, Param, PathGenerator, Task, experiment, field


class Nothing(Task):
    seed: Param[int]
    scores: Meta[Path] = field(default_factory=PathGenerator("scores.json"))

    def execute(self) -> None:
        self.scores.write_text('{"score": 1.0}')


def run(cells: int, folder: Path) -> float:
    began = time.perf_counter()
    here = [Path(__file__).parent]  # whose commit it notes: it does not look for it from files of this name
    with experiment(folder, "nothing", project_paths=here, no_environmental_impact=True):
        found = [Nothing.C(seed=seed).submit() for seed in range(cells)]
    assert len(list(folder.glob("jobs/*/*/scores.json"))) == len(found)
    return time.perf_counter() - began


if __name__ == "__main__":
    seconds = run(int(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps({"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
