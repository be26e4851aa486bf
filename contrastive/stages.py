"""The stages of a cell as plain functions on its run folder; each can be called alone, none repeats finished work."""

import errno
import math
import os
import shutil
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from contrastive import claim, energy, gather, locate, permit, provenance, store
from contrastive import evaluate as evaluation_stage
from contrastive.audit import GradientPathError
from contrastive.config import Cell, Training
from contrastive.data import further
from contrastive.data import tokens as token_store
from contrastive.diagnostics import collapsed_since
from contrastive.embed import Embedder, embed, restore
from contrastive.errors import UserError
from contrastive.evaluation import Evaluation
from contrastive.identity import STAGES, cell_id, chosen_entries, code_files, evaluation_key, identity
from contrastive.launch import JobFailed, Machines, launch
from contrastive.metrics.types import too_few
from contrastive.status import up_to_date
from contrastive.train import Diverged, train
from contrastive.wanted import Wanted, cell_of, lacking, wanted_by

USUAL = Evaluation()
FOLDED = {"svm", "logistic", "knn"}  # metrics in cross-validation


def prepare(cell: Cell) -> Path:
    """Tokens of the cell's data, made once for all cells that share data, tokenizer and length."""
    return token_store.prepare(cell.data, cell.encoder, store.home())


def prepare_further(cell: Cell, evaluation: Evaluation, prepared: Path) -> Wanted:
    """What an evaluation reads, after making sure, before anything is trained, that it can be made."""
    for vectors in evaluation.vectors:
        locate.check_block(cell.encoder, vectors)
    for how in evaluation.post:
        locate.check_width(cell.encoder, how)
    counts = store.read_json(prepared / "meta.json")["class_counts"]
    for split in evaluation.splits if FOLDED & set(evaluation.metrics) else ():
        few = min((count for count in counts[split].values() if count), default=evaluation.folds)
        if few < evaluation.folds:
            raise UserError(f"{split}: {too_few(evaluation.folds, few)}")
    for transfer in evaluation.transfer:
        further.check(transfer, further.open(further.prepare(transfer, prepared, store.home())).classes)
    return wanted_by(evaluation, prepared.name)


def train_cell(
    folder: Path,
    cell: Cell,
    name: str,
    checkpoint_every: int,
    evaluation: Evaluation = USUAL,
    devices: str = "",
    machines: Machines | None = None,
) -> None:
    """From tokens to TRAINED: weights, predictions, the embeddings that an evaluation reads, provenance. Whoever is at
    it already is waited for.

    `devices` are those of a cell of several processes, as CUDA_VISIBLE_DEVICES names them; a cell larger than this
    machine shares it with others, which `assist` it.
    """
    document = identity(cell)
    if cell_id(document) != folder.name:
        raise UserError("the code or the data has changed since this grid was planned; run the same command again")
    with claim.attempt(folder, "train", lambda: store.damage(folder, "TRAINED") is None) as work:
        if work is None:
            return
        go_on(folder, work.folder)
        began = time.perf_counter()
        store.write_json(
            work.folder / "config.json",
            {
                "id": folder.name,
                "name": name,
                "cell": cell.model_dump(mode="json"),
                "identity": document,
                "evaluation": evaluation.model_dump(mode="json"),
                "files": code_files(STAGES, chosen_entries(cell)),
            },
        )
        prepared = prepare(cell)
        wanted = prepare_further(cell, evaluation, prepared)
        at_a_time = cell.training.micro_batch
        with energy.Meter(devices) as meter:
            while True:
                how = cell.training.model_copy(update={"micro_batch": at_a_time})
                try:
                    if how.processes > 1 or how.sharding is not None:  # which leaves its traces in a process
                        trained = launch(work.folder, checkpoint_every, how, devices, work.check, machines)
                    else:
                        trained = train_here(cell, how, work.folder, prepared, wanted, checkpoint_every, work.check)
                    break
                except Exception as error:
                    now = at_a_time or how.batch_size
                    if (
                        now == 1
                        or how.sharding is not None
                        or (error.report if isinstance(error, JobFailed) else report(error))["kind"] != "memory"
                    ):
                        raise
                    at_a_time = math.ceil(now / 2)  # of the same batch: GradCache shows the loss all of it
                work.note(micro_batch=at_a_time)
        seconds = round(time.perf_counter() - began, 3)
        store.write_json(
            work.folder / "provenance.json",
            provenance.describe()
            | {
                "code": document["code"],
                "data_digest": document["data"]["content"],
                "wall_seconds": seconds,
                "gpu_seconds": seconds if torch.cuda.is_available() else 0.0,
                "energy_joules": meter.joules,
                "threads": cell.training.threads,
                "processes": cell.training.processes,
                "micro_batch": at_a_time,
                "trained_parameters": trained,
                "collapsed_since": collapsed_since(work.folder / "metrics.jsonl"),
                "class_counts": store.read_json(prepared / "meta.json")["class_counts"],
            },
        )
        work.publish("TRAINED")


def train_here(
    cell: Cell,
    how: Training,
    folder: Path,
    prepared: Path,
    wanted: Wanted,
    checkpoint_every: int,
    each_step: Callable[[], None] = lambda: None,
) -> int:
    """Train in this very process, or this process's share; gives the number of trained parameters."""
    cell, tokens = cell.model_copy(update={"training": how}), token_store.open(prepared)
    shared = train(cell, folder, tokens, checkpoint_every=checkpoint_every, each_step=each_step)
    first = gather.rank() == 0
    if first or how.sharding is not None:
        for path in folder.glob("*.npz") if first else ():  # of an earlier try in the same folder
            path.unlink()
        embedder = Embedder(shared.read, tokens, shared.device, cell.seed)
        embed(embedder, folder if first else None, wanted, store.home(), prepared)
    return shared.count


def go_on(folder: Path, into: Path) -> None:
    """Hand the last checkpoint of an earlier attempt, and the log up to it, to a new one."""
    earlier = claim.leftovers(folder, ("resume/state.pt", "metrics.jsonl"))
    if earlier is not None:
        shutil.copyfile(earlier / "metrics.jsonl", into / "metrics.jsonl")
        (into / "resume").mkdir()
        os.link(earlier / "resume" / "state.pt", into / "resume" / "state.pt")  # replaced by writers, never changed


def embed_cell(folder: Path, evaluation: Evaluation) -> None:
    """Add what an evaluation reads to the embeddings of a trained cell, which stays trained."""
    with claim.attempt(folder, "embed", lambda: not lacking(folder, evaluation)) as work:
        if work is None:
            return
        cell = cell_of(folder)
        prepared = prepare(cell)
        wanted = prepare_further(cell, evaluation, prepared)
        for path in store.covered(folder, "TRAINED"):
            copy = work.folder / path.relative_to(folder)
            copy.parent.mkdir(exist_ok=True)
            os.link(path, copy)  # replaced by writers, never changed
        tokens = token_store.open(prepared)
        torch.set_num_threads(cell.training.threads)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = restore(cell, folder, tokens).to(device)
        embedder = Embedder(lambda look: look(model), tokens, device, cell.seed)
        embed(embedder, work.folder, wanted, store.home(), prepared)
        work.publish("TRAINED")


def evaluate_cell(folder: Path, evaluation: Evaluation) -> None:
    """From TRAINED to DONE: scores and picture. Other settings than last time measure again, and never train."""
    if store.damage(folder, "TRAINED") is None and lacking(folder, evaluation):
        embed_cell(folder, evaluation)
    with claim.attempt(folder, "evaluate", lambda: up_to_date(folder, evaluation_key(evaluation))) as work:
        if work is not None:
            torch.set_num_threads(1)
            evaluation_stage.evaluate(folder, evaluation, into=work.folder, threads=threads())
            work.publish("DONE")


def threads() -> int:
    """How many an engine gives to its worker, as it tells all libraries."""
    return int(os.environ.get("OMP_NUM_THREADS") or 1)


def attempt(stage: Callable[..., None], folder: Path, *arguments: Any) -> dict[str, Any] | None:
    """Run a stage in a worker; a failure comes back as the report that the folder keeps, never as an exception."""
    while True:
        try:
            stage(*arguments)
            return None
        except claim.Superseded:  # another one is at it: wait for what comes of that
            continue
        except Exception as error:
            return fail(folder, error)


def fail(folder: Path, error: BaseException) -> dict[str, Any]:
    """Keep why a cell failed in its folder, in words for people and with the traceback for us. A stop is no failure."""
    told = error.report if isinstance(error, JobFailed) else report(error)
    if told["kind"] == "stopped":
        return told
    try:
        with store.locked(folder / ".claim"):
            if not (folder / "claim.json").exists():  # else somebody tries again, and will say what came of it
                store.write_json(folder / "FAILED.json", told)
    except OSError as full:
        told["error"] += f" (and the reason could not be kept: {full})"
    return told


def report(error: BaseException) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": kind(error), "error": explain(error)}
    if isinstance(error, Diverged):
        found["step"] = error.step
    if not isinstance(error, UserError):
        found["traceback"] = "".join(traceback.format_exception(error))
    return found


def kind(error: BaseException) -> str:
    if isinstance(error, Diverged):
        return "diverged"
    if isinstance(error, permit.Stopped):
        return "stopped"
    if isinstance(error, UserError):
        return "config"
    if isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or "can't allocate memory" in str(error):
        return "memory"
    if isinstance(error, OSError):
        return "infrastructure"
    return "code"


def explain(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the disk is full: could not write {error.filename or 'a file'} below {store.home()}"
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"not allowed to write {error.filename or 'a file'}: choose another place with ABLATE_HOME"
    if isinstance(error, UserError | GradientPathError | Diverged | permit.Stopped):
        return str(error)
    return f"{type(error).__name__}: {error}"
