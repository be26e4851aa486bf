"""A few real steps of a real cell, timed where nothing has finished yet (`ablate plan --calibrate`).

As many processes step at a time as cells will train, since cores share their memory's bandwidth and their clock.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from statistics import median

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.errors import UserError
from contrastive.grid import estimate
from contrastive.runs import store

STEPS = 8  # at most, of which the first two are not counted
PATIENCE = 10.0  # seconds after which no further step begins


def calibrate(cells: Iterable[Cell], environments: Sequence[dict[str, str]], speed: Speed, device: str) -> None:
    """Time steps of each encoder among the cells, those of the cell with the least to train."""
    alike: dict[Path, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(estimate.calibration_file(cell, device), []).append(cell)
    for path, those in alike.items():
        chosen = min(those, key=estimate.trained_blocks)
        request = json.dumps([chosen.model_dump(mode="json"), speed.model_dump(mode="json")])
        command = [sys.executable, "-m", "contrastive.training.probe", request]
        quiet = {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
        started = [
            subprocess.Popen(
                command, env=os.environ | own | quiet, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for own in environments[: len(those)]
        ]
        ended = [process.communicate() for process in started]
        for process, (_, said) in zip(started, ended, strict=True):
            if process.returncode:
                raise UserError(f"the calibration failed: {(said.strip().splitlines() or ['a process died'])[-1]}")
        rate = median(float(told) for told, _ in ended)
        store.write_json(path, {"rate": rate, "made": date.today().isoformat()})


def main() -> None:
    cell, speed = json.loads(sys.argv[1])
    sys.stdout.write(str(seconds_of_work(Cell.model_validate(cell), Speed.model_validate(speed))))


def seconds_of_work(cell: Cell, speed: Speed) -> float:
    """Seconds a unit of work, by the first steps of a cell."""
    from contrastive.data import tokens as token_store
    from contrastive.evaluation.prepare import prepare_cell_tokens
    from contrastive.models.frozen import PassCache
    from contrastive.training.train import CellTraining
    from contrastive.views import batches as batching

    alone = cell.training.model_copy(update={"processes": 1, "sharding": None})
    cell = cell.model_copy(update={"training": alone})
    tokens, passes = token_store.open(prepare_cell_tokens(cell)), PassCache()
    lengths, times = tokens.splits["train"].lengths, list[float]()
    with tempfile.TemporaryDirectory() as folder:
        training = CellTraining(cell, Path(folder), tokens, checkpoint_every=10**9, speed=speed, passes=passes)
        steps = training.steps()
        for _ in islice(steps, STEPS + 1):
            passes.forget()
            times.append(time.perf_counter())
            if len(times) > 3 and times[-1] - times[0] > PATIENCE:
                break
        steps.close()
    first = min(2, len(times) - 2)  # which waits for what is made once
    done = [
        batch for _, step in islice(batching.optimizer_steps(cell, tokens), first, len(times) - 1) for batch in step
    ]
    made = estimate.Batches(len(done), sum(len(batch) * int(lengths[batch].max()) for batch in done), 0, 0)
    return (times[-1] - times[first]) / estimate.training_work(cell, made)


if __name__ == "__main__":
    main()
