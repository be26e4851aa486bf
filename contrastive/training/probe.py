"""Time a few real training steps of a cell where no cell has finished yet (`ablate plan --calibrate`).

As many processes run at a time as cells will train, since cores share memory bandwidth and clock speed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.errors import UserError
from contrastive.grid import estimate
from contrastive.runs import store

STEPS = 8  # at most; the first two are not timed
PATIENCE = 10.0  # no step begins after this many seconds


def calibrate(cells: Iterable[Cell], environments: Sequence[dict[str, str]], speed: Speed, *, on_gpu: bool) -> None:
    """Time steps of each encoder, on its cell with the fewest trained blocks, and store its rate."""
    cells_by_file: dict[Path, list[Cell]] = {}
    for cell in cells:
        cells_by_file.setdefault(estimate.calibration_file(cell, on_gpu), []).append(cell)
    for path, group in cells_by_file.items():
        chosen = min(group, key=estimate.trained_blocks)
        request = json.dumps([chosen.model_dump(mode="json"), speed.model_dump(mode="json")])
        command = [sys.executable, "-m", "contrastive.training.probe", request]
        quiet = {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
        started = [
            subprocess.Popen(
                command, env=os.environ | environment | quiet, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for environment in environments[: len(group)]
        ]
        try:
            ended = [process.communicate() for process in started]
        finally:
            for process in started:
                process.kill()
        for process, (_, errors) in zip(started, ended, strict=True):
            if process.returncode:
                raise UserError(f"the calibration failed: {(errors.strip().splitlines() or ['a process died'])[-1]}")
        rate = median(float(output) for output, _ in ended)
        store.write_json(path, {"rate": rate})


def main() -> None:
    cell, speed = json.loads(sys.argv[1])
    sys.stdout.write(str(seconds_of_work(Cell.model_validate(cell), Speed.model_validate(speed))))


def seconds_of_work(cell: Cell, speed: Speed) -> float:
    """Return the seconds per unit of work, measured on a cell's first steps."""
    from contrastive.data import tokens as token_store
    from contrastive.evaluation.prepare import prepare_cell_tokens
    from contrastive.training.train import CellTraining
    from contrastive.views import batches as batching

    alone = cell.training.model_copy(update={"processes": 1, "sharding": None})
    cell = cell.model_copy(update={"training": alone})
    tokens = token_store.open_tokens(prepare_cell_tokens(cell))
    lengths, times = tokens.splits["train"].lengths, list[float]()
    with tempfile.TemporaryDirectory() as folder:
        training = CellTraining(cell, Path(folder), tokens, checkpoint_every=10**9, speed=speed)
        steps = training.steps()
        for _ in islice(steps, STEPS + 1):
            times.append(time.perf_counter())
            if len(times) > 3 and times[-1] - times[0] > PATIENCE:
                break
        steps.close()
    if len(times) == 1:  # the data has one step only
        times.append(time.perf_counter())
    first = min(2, len(times) - 2)  # the first steps include one-time set-up
    timed = [
        batch for _, step in islice(batching.optimizer_steps(cell, tokens), first, len(times) - 1) for batch in step
    ]
    work = estimate.training_work(cell, sum(int(lengths[batch].sum()) for batch in timed), len(timed))
    return (times[-1] - times[first]) / work


if __name__ == "__main__":
    main()
