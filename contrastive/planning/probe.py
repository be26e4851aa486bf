"""A few real steps of a real cell, timed: `python -m contrastive.planning.probe REQUEST ANSWER`, for the calibration.

As many of them run at a time as cells will, since cores share their memory's bandwidth and their clock. Each says
`ready` once it has imported everything, and begins when a line comes back.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.speed import Speed
from contrastive.data import tokens as token_store
from contrastive.data.tokens import TokenSplit
from contrastive.evaluation import evaluate
from contrastive.evaluation.embed import Embedder
from contrastive.models import model as models
from contrastive.planning import cost
from contrastive.reuse.passes import Passes
from contrastive.runs import store
from contrastive.stages import memory
from contrastive.stages.evaluate_cell import worker_threads
from contrastive.stages.prepare import prepare_cell_tokens
from contrastive.training import train
from contrastive.views import batches as batching

PATIENCE = 3.0  # seconds of one kind of steps
STEPS = 5
EMBEDDED = 2 * cost.EMBEDDED
MEASURED = 2000  # texts that are evaluated, at most


def main() -> None:
    request, answer = map(Path, sys.argv[1:])
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    asked = store.read_json(request)
    boot = time.time() - asked["asked"]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    cells = [Cell.model_validate(cell) for cell in asked["cells"]]
    speed = Speed.model_validate(asked["speed"])
    embedding = looked(cells[0], speed)  # first: it warms up what only the first cell of a process waits for
    probed = [probe(cell, speed) for cell in cells]
    memory.reset_peak()
    measured: dict[str, Any] = {
        "boot": boot,
        "base": 0 if torch.cuda.is_available() else memory.resident("VmRSS"),  # on a GPU tensors alone are counted
        "seen": [line for each in probed for line in each["seen"]] + [embedding],
        "cell": float(np.median([each["cell"] for each in probed])),
        "memory": [each["memory"] for each in probed],
    }
    if asked["evaluation"] is not None:
        measured["evaluation"] = seconds_of_evaluation(cells[0], Evaluation.model_validate(asked["evaluation"]))
    store.write_json(answer, measured)


def probe(cell: Cell, speed: Speed) -> dict[str, Any]:
    """Steps of one cell on a few of its texts, and the embedding of some: work and seconds of each."""
    tokens = token_store.open(prepare_cell_tokens(cell))
    split = tokens.splits["train"]
    some = np.sort(np.random.default_rng(0).permutation(len(split))[: STEPS * cell.training.batch_size])
    tokens = replace(tokens, splits=tokens.splits | {"train": chosen(split, some)})
    lengths = tokens.splits["train"].lengths
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder, memory.Peak() as peak:
        began, passes = time.perf_counter(), Passes()
        training = train.CellTraining(cell, Path(folder), tokens, checkpoint_every=10**9, speed=speed, passes=passes)
        steps = training.steps()
        for _ in islice(steps, STEPS):
            passes.forget()
            times.append(time.perf_counter())
            if len(times) > 3 and times[-1] - times[0] > PATIENCE:
                break
        steps.close()
    made = [probe_batches([lengths[batch] for batch in step]) for _, step in batching.steps(cell, tokens)][: len(times)]
    pairs = zip(made, times[:-1], times[1:], strict=False)  # of the last step it is not told when it ended
    seen = [[list(cost.training_work(cell, batches, looks=0.0)), end - start] for batches, start, end in pairs]
    return {
        "seen": seen[1:],  # the first looks at each term's gradient
        "cell": times[0] - began,
        "memory": {
            "peak": peak.bytes,
            **cost.memory_of_cell(cell, max(made, key=lambda batches: batches.longest))._asdict(),
        },
    }


def looked(cell: Cell, speed: Speed) -> tuple[list[float], float]:
    """The embedding of some texts: its work and its seconds."""
    tokens = token_store.open(prepare_cell_tokens(cell))
    torch.set_num_threads(cell.training.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, texts = models.Model(cell, tokens).to(device), tokens.splits["test"]
    rows = np.sort(np.random.default_rng(0).permutation(len(texts))[:EMBEDDED])
    embedder, size = Embedder(lambda look: look(model), tokens, device, cell.seed), cost.sizes(cell.encoder)
    embedder.vectors(chosen(texts, rows[: cost.EMBEDDED]), ())  # the first time takes longer
    start = time.perf_counter()
    embedder.vectors(chosen(texts, rows), ())
    seconds = time.perf_counter() - start
    return list(cost.Work(size.blocks * cost.gflop(size, texts.lengths[rows]), 0.0, 0.0, 0.0, 0.0)), seconds


def chosen(split: TokenSplit, rows: np.ndarray) -> TokenSplit:
    """Some texts of a split."""
    lengths = split.lengths[rows]
    ids = np.concatenate([split.ids[split.offsets[row] : split.offsets[row + 1]] for row in rows])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    partners = tuple(chosen(partner, rows) for partner in split.partners)
    return replace(
        split, ids=ids, offsets=offsets, labels=split.labels[rows], digests=split.digests[rows], partners=partners
    )


def probe_batches(lengths: list[np.ndarray]) -> cost.Batches:
    """What one step encodes."""
    sizes = [(int(batch.max()), len(batch)) for batch in lengths]
    longest, count = max(sizes)
    return cost.Batches(
        len(sizes), sum(n * s for s, n in sizes), sum(n * s * s for s, n in sizes), longest * count, longest
    )


def seconds_of_evaluation(cell: Cell, evaluation: Evaluation) -> dict[str, Any]:
    """Seconds of measuring made-up vectors of the texts' own classes, transfer data left out, on the cell's own."""
    tokens = token_store.open(prepare_cell_tokens(cell))
    here = evaluation.model_copy(update={"transfer": (), "test": None})
    arrays: dict[str, Any] = dict(made_up(cell, tokens.splits, here))
    texts = sum(len(arrays[f"{split}.labels"]) for split in here.splits)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        np.savez(folder / "embeddings.npz", **arrays)
        np.savez(folder / "predictions.npz")
        began = time.perf_counter()
        evaluate.evaluate_folder(folder, here, into=folder, threads=worker_threads())
        return {"texts": texts, "seconds": time.perf_counter() - began}


def made_up(cell: Cell, splits: dict[str, TokenSplit], evaluation: Evaluation) -> Iterator[tuple[str, np.ndarray]]:
    random, width = np.random.default_rng(0), cost.sizes(cell.encoder).hidden
    for name, split in splits.items():
        rows = np.sort(random.permutation(len(split))[:MEASURED])
        labels = np.asarray(split.labels)[rows]
        centres = random.normal(size=(1 + labels.max(initial=0), width))
        vectors = (centres[labels] + 3 * random.normal(size=(len(rows), width))).astype(np.float32)
        yield f"{name}.labels", labels
        yield f"{name}.ids", np.asarray(split.digests)[rows]
        yield name, vectors
        yield from ((f"{name}/{other}", vectors) for other in evaluation.vectors)
        yield f"{name}.twice", np.stack([vectors[: cost.DROPPED]] * 2, 1)


if __name__ == "__main__":
    main()
