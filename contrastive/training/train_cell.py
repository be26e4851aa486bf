"""Train a cell into its run folder, from tokens to TRAINED; after an out-of-memory error with a smaller micro-batch."""

import math
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from contrastive.config.cell import Cell
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.evaluation.prepare import EmbeddingSpec
from contrastive.grid.identity import cell_id, identity, registry_choices, stages
from contrastive.runs import claim, provenance, store
from contrastive.runs.fingerprint import code_digests
from contrastive.training import meters, soup
from contrastive.training.failures import failure_report
from contrastive.training.health import collapsed_since
from contrastive.training.job import TrainRequest, prepare, train_here
from contrastive.training.launch import Machines, launch


def train_cell(folder: Path, request: TrainRequest, devices: str = "", machines: Machines | None = None) -> None:
    """Train a cell into its run folder, unless it is trained already; wait for another process that trains it.

    `devices` are for a cell of several processes, named as in CUDA_VISIBLE_DEVICES. `machines` are those that share a
    cell too large for this machine; each of the others calls `join_remote_cell`.
    """
    document = identity(request.cell)
    if cell_id(document) != folder.name:
        raise UserError("the code or the data has changed since this grid was planned; run the same command again")
    with claim.begin_attempt(folder, "train", lambda: store.damage(folder, "TRAINED") is None) as work:
        if work is None:
            return
        began = time.perf_counter()
        link_checkpoint(folder, work.folder)
        write_config(work.folder, request, document)
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()  # this process may have trained other cells
        if request.cell.soup:
            done = soup.mix(work.folder, [trained_folder(request, cell, devices) for cell in request.cell.soup])
        else:
            done = train(request, work, *prepare(request), devices, machines)
        seconds = round(time.perf_counter() - began, 3)
        measured = {
            "wall_seconds": seconds,
            "gpu_seconds": seconds if torch.cuda.is_available() else 0.0,
        }
        spent = meters.read_training_time(work.folder / "resume", request.cell.training.processes)
        write_provenance(work.folder, document, measured | spent | done)
        work.publish("TRAINED")


def trained_folder(request: TrainRequest, member: Cell, devices: str) -> Path:
    """Return the run folder of a member of a soup; train it there, or wait for it, if it is not trained yet."""
    folder = store.run_folder(cell_id(identity(member)))
    train_cell(folder, replace(request, cell=member, name=f"{request.name}, a member"), devices)
    return folder


def train(
    request: TrainRequest,
    attempt: claim.Attempt,
    tokens: Tokens,
    spec: EmbeddingSpec,
    devices: str,
    machines: Machines | None,
) -> dict[str, Any]:
    """Train, after an out-of-memory error again with half the micro-batch; return how, for provenance.json."""
    training, folder = request.cell.training, attempt.folder
    parameters: int | None = None
    while parameters is None:
        try:
            # sharding leaves state behind, so it gets its own process
            if training.processes > 1 or training.sharding is not None:
                parameters = launch(folder, request.checkpoint_every, training, devices, machines)
            else:
                parameters = train_here(request, training, folder, tokens, spec)
        except Exception as error:
            texts = training.micro_batch or training.batch_size
            if failure_report(error)["kind"] != "memory" or training.sharding is not None or texts == 1:
                raise
            # the loss still sees the whole batch (GradCache)
            training = training.model_copy(update={"micro_batch": math.ceil(texts / 2)})
            attempt.note(micro_batch=training.micro_batch)
    from_store = tokens.splits["train"].frozen_outputs is not None
    return {
        "threads": training.threads,
        "processes": training.processes,
        "micro_batch": training.micro_batch,
        "speed": {"reuse": request.speed.reuse if from_store else "none"},
        "trained_parameters": parameters,
        "collapsed_since": collapsed_since(folder / "metrics.jsonl"),
        "class_counts": store.read_json(tokens.folder / "meta.json")["class_counts"],
    }


def link_checkpoint(folder: Path, into: Path) -> None:
    """Give an earlier attempt's last checkpoint, its log and the time that it took to a new attempt."""
    for state in sorted(folder.glob("attempts/*/resume/state.pt"), reverse=True):
        log = state.parents[1] / "metrics.jsonl"
        if log.exists():
            shutil.copyfile(log, into / "metrics.jsonl")
            (into / "resume").mkdir()
            for path in (state, *state.parent.glob("time.*.json")):
                os.link(path, into / "resume" / path.name)  # writers replace it, never change it
            return


def write_config(folder: Path, request: TrainRequest, document: dict[str, Any]) -> None:
    """Write config.json: the cell and its settings, for its processes and for later readers."""
    content = {
        "id": cell_id(document),
        "name": request.name,
        "cell": request.cell.model_dump(mode="json"),
        "identity": document,
        "evaluation": request.evaluation.model_dump(mode="json"),
        "speed": request.speed.model_dump(mode="json"),
        "files": code_digests(stages(request.cell), registry_choices(request.cell)),
    }
    store.write_json(folder / "config.json", content)


def write_provenance(folder: Path, document: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write provenance.json: the machine, the code, the data, and how the cell was trained."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    read = {"code": document["code"], "data_digest": document["data"]["content"]}
    store.write_json(folder / "provenance.json", provenance.describe_run(device) | read | facts)
