"""A cell is trained: from tokens to TRAINED, with weights, predictions, embeddings and where they came from."""

import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from contrastive.config.cell import Cell, Training
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.evaluation.needs import EmbeddingSpec
from contrastive.evaluation.prepare import prepare_cell_tokens, prepare_evaluation
from contrastive.grid.identity import STAGES, cell_id, identity, registry_choices
from contrastive.models import frozen_store
from contrastive.models.frozen import PassCache
from contrastive.runs import claim, provenance, store
from contrastive.runs.fingerprint import code_files
from contrastive.training import meters
from contrastive.training.collapse import collapsed_since
from contrastive.training.failures import failure_kind
from contrastive.training.in_process import steps_here
from contrastive.training.launch import Machines, launch
from contrastive.training.request import TrainRequest


def train_cell(folder: Path, request: TrainRequest, devices: str = "", machines: Machines | None = None) -> None:
    """Train a cell into its run folder, unless it is trained. Whoever is at it already is waited for.

    `devices` are those of a cell of several processes, as CUDA_VISIBLE_DEVICES names them; a cell larger than this
    machine shares it with others, which `assist` it.
    """
    passes = PassCache(sharing=request.speed.reuse != "none")
    for _ in training_steps(folder, request, passes, devices, machines):
        passes.forget()


def training_steps(
    folder: Path, request: TrainRequest, passes: PassCache, devices: str = "", machines: Machines | None = None
) -> Iterator[None]:
    """The same, which stops before each step, so that several cells can take turns."""
    document = planned_identity(request.cell, folder)
    with claim.begin_attempt(folder, "train", lambda: store.damage(folder, "TRAINED") is None) as work:
        if work is None:
            return
        watch, gpus = Stopwatch(), devices or os.environ.get("CUDA_VISIBLE_DEVICES")
        link_checkpoint(folder, work.folder)
        write_config(work.folder, request, document)
        prepared = prepare_cell_tokens(request.cell)
        wanted, before = prepare_evaluation(request.cell, request.evaluation, prepared), meters.gpu_joules(gpus)
        with meters.Peak() as peak:
            tokens = frozen_store.with_stored_training_outputs(token_store.open(prepared), request.cell, request.speed)
            fitted = TrainingWithOomRetry(request, work, tokens, wanted, passes, devices, machines)
            for _ in fitted.steps():
                with watch.paused():
                    yield
        (own, passed), after = watch.seconds(), meters.gpu_joules(gpus)
        measured = {
            "wall_seconds": own,
            "gpu_seconds": own if torch.cuda.is_available() else 0.0,
            "energy_joules": {} if before is None or after is None else {"gpu": (after - before) * own / passed},
            "predicted": request.predicted,
            "peak_memory_bytes": peak.bytes if request.cell.training.processes == 1 else None,  # of this process alone
        }
        write_provenance(work.folder, document, measured | fitted.notes())
        work.publish("TRAINED")


@dataclass
class TrainingWithOomRetry:
    """One attempt at a cell, which encodes fewer texts at a time for as long as memory does not suffice."""

    request: TrainRequest
    work: claim.Attempt
    tokens: Tokens
    wanted: EmbeddingSpec
    passes: PassCache
    devices: str
    machines: Machines | None

    def __post_init__(self) -> None:
        self.micro_batch = self.request.cell.training.micro_batch
        self.trained_parameters: int | None = None

    def steps(self) -> Iterator[None]:
        """Stops before each step. After a try that runs out of memory comes one with half as many texts at a time."""
        while self.trained_parameters is None:
            training = self.request.cell.training.model_copy(update={"micro_batch": self.micro_batch})
            try:
                if training.processes > 1 or training.sharding is not None:  # which leaves its traces in a process
                    every = self.request.checkpoint_every
                    self.trained_parameters = launch(self.work.folder, every, training, self.devices, self.machines)
                else:
                    self.trained_parameters = yield from steps_here(
                        self.request, training, self.work.folder, self.tokens, self.wanted, self.passes
                    )
            except Exception as error:
                texts, alone = effective_micro_batch(training), self.request.together == 1  # else it may fit by itself
                if failure_kind(error) != "memory" or not alone or training.sharding is not None or texts == 1:
                    raise
                self.passes.forget()  # a batch's worth of memory
                self.micro_batch = math.ceil(texts / 2)  # of a whole batch: GradCache
                self.work.note(micro_batch=self.micro_batch)

    def notes(self) -> dict[str, Any]:
        """What provenance.json tells of how it was trained."""
        training = self.request.cell.training
        from_store = self.tokens.splits["train"].below is not None
        return {
            "threads": training.threads,
            "processes": training.processes,
            "micro_batch": self.micro_batch,
            "speed": {
                "reuse": self.request.speed.reuse if from_store else "none",
                "together": self.request.together,
            },
            "trained_parameters": self.trained_parameters,
            "collapsed_since": collapsed_since(self.work.folder / "metrics.jsonl"),
            "class_counts": store.read_json(self.tokens.folder / "meta.json")["class_counts"],
        }


def planned_identity(cell: Cell, folder: Path) -> dict[str, Any]:
    """What decides the result of a cell, if it is still what named its run folder."""
    document = identity(cell)
    if cell_id(document) != folder.name:
        raise UserError("the code or the data has changed since this grid was planned; run the same command again")
    return document


def link_checkpoint(folder: Path, into: Path) -> None:
    """Give the last checkpoint of an earlier attempt, and the log up to it, to a new one."""
    earlier = claim.latest_attempt_with(folder, ("resume/state.pt", "metrics.jsonl"))
    if earlier is not None:
        shutil.copyfile(earlier / "metrics.jsonl", into / "metrics.jsonl")
        (into / "resume").mkdir()
        os.link(earlier / "resume" / "state.pt", into / "resume" / "state.pt")  # replaced by writers, never changed


def effective_micro_batch(training: Training) -> int:
    """How many texts of a batch are encoded at a time; with a budget of tokens, as many as a batch may have."""
    return training.micro_batch or training.batch_size * (1 if training.token_budget is None else training.bucket)


def write_config(folder: Path, request: TrainRequest, document: dict[str, Any]) -> None:
    """What is trained, for the processes of the cell and for whoever reads its folder later."""
    content = {
        "id": cell_id(document),
        "name": request.name,
        "cell": request.cell.model_dump(mode="json"),
        "identity": document,
        "evaluation": request.evaluation.model_dump(mode="json"),
        "speed": request.speed.model_dump(mode="json"),
        "files": code_files(STAGES, registry_choices(request.cell)),
    }
    store.write_json(folder / "config.json", content)


def write_provenance(folder: Path, document: dict[str, Any], facts: dict[str, Any]) -> None:
    """Where the result came from: the machine, the code, the data, and how it was trained."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    read = {"code": document["code"], "data_digest": document["data"]["content"]}
    store.write_json(folder / "provenance.json", provenance.describe_run(device) | read | facts)


class Stopwatch:
    """Runs from its making on; what passes while it is paused belongs to other cells."""

    def __init__(self) -> None:
        self.began, self.away = time.perf_counter(), 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        left = time.perf_counter()
        yield
        self.away += time.perf_counter() - left

    def seconds(self) -> tuple[float, float]:
        """Those of the cell alone, and all that have passed."""
        passed = time.perf_counter() - self.began
        return round(passed - self.away, 3), passed
