"""The stages of a cell as plain functions on its run folder; each can be called alone, none repeats finished work."""

import math
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from contrastive.cells.identity import STAGES, cell_id, chosen_entries, evaluation_key, identity
from contrastive.cells.status import up_to_date
from contrastive.config.cell import Cell, Training
from contrastive.config.evaluation import Evaluation
from contrastive.config.speed import Speed
from contrastive.data import tokens as token_store
from contrastive.data import transfer_data
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.evaluation import evaluate as evaluation_stage
from contrastive.evaluation.embed import Embedder, embed, restore
from contrastive.evaluation.needs import Wanted, cell_of, lacking, wanted_by
from contrastive.reuse import frozen_store
from contrastive.reuse.passes import Passes
from contrastive.runs import claim, provenance, stopping, store
from contrastive.runs.fingerprint import code_files
from contrastive.sources import locate
from contrastive.stages import energy, memory
from contrastive.stages.launch import JobFailed, Machines, launch
from contrastive.stages.request import Asked
from contrastive.training import gather
from contrastive.training.collapse import collapsed_since
from contrastive.training.gradient_audit import GradientPathError
from contrastive.training.sharding import Shared
from contrastive.training.train import Diverged, training


def prepare(cell: Cell) -> Path:
    """Tokens of the cell's data, made once for all cells that share data, tokenizer and length."""
    return token_store.prepare(cell.data, cell.encoder, store.home())


def prepare_further(cell: Cell, evaluation: Evaluation, prepared: Path) -> Wanted:
    """What an evaluation reads, after making sure, before anything is trained, that it can be made."""
    for vectors in evaluation.vectors:
        locate.check_block(cell.encoder, vectors)
    for how in evaluation.post:
        locate.check_width(cell.encoder, how)
    for transfer in evaluation.transfer:
        transfer_data.check(
            transfer,
            transfer_data.open_transfer(transfer_data.prepare_transfer(transfer, prepared, store.home())).classes,
        )
    return wanted_by(evaluation, prepared.name)


def train_cell(folder: Path, asked: Asked, devices: str = "", machines: Machines | None = None) -> None:
    """From tokens to TRAINED: weights, predictions, the embeddings that an evaluation reads, provenance. Whoever is at
    it already is waited for.

    `devices` are those of a cell of several processes, as CUDA_VISIBLE_DEVICES names them; a cell larger than this
    machine shares it with others, which `assist` it.
    """
    passes = Passes(sharing=asked.speed.reuse != "none")
    for _ in training_cell(folder, asked, passes, devices, machines):
        passes.forget()


def training_cell(
    folder: Path, asked: Asked, passes: Passes, devices: str = "", machines: Machines | None = None
) -> Iterator[None]:
    """The same a step at a time."""
    cell = asked.cell
    document = identity(cell)
    if cell_id(document) != folder.name:
        raise UserError("the code or the data has changed since this grid was planned; run the same command again")
    with claim.attempt(folder, "train", lambda: store.damage(folder, "TRAINED") is None) as work:
        if work is None:
            return
        go_on(folder, work.folder)
        began, away = time.perf_counter(), 0.0
        store.write_json(
            work.folder / "config.json",
            {
                "id": folder.name,
                "name": asked.name,
                "cell": cell.model_dump(mode="json"),
                "identity": document,
                "evaluation": asked.evaluation.model_dump(mode="json"),
                "speed": asked.speed.model_dump(mode="json"),
                "files": code_files(STAGES, chosen_entries(cell)),
            },
        )
        prepared = prepare(cell)
        wanted = prepare_further(cell, asked.evaluation, prepared)
        at_a_time = cell.training.micro_batch
        trained: int | None = None
        with energy.Meter(devices) as meter, memory.Peak() as peak:
            tokens = frozen_store.to_train(token_store.open(prepared), cell, asked.speed)
            told = used(asked, tokens)
            while True:
                how = cell.training.model_copy(update={"micro_batch": at_a_time})
                try:
                    if how.processes > 1 or how.sharding is not None:  # which leaves its traces in a process
                        trained = launch(work.folder, asked.checkpoint_every, how, devices, work.check, machines)
                    else:
                        steps = training_here(asked, how, work.folder, tokens, wanted, passes)
                        for trained in steps:
                            if trained is not None:
                                break
                            work.check()
                            left = time.perf_counter()
                            yield
                            away += time.perf_counter() - left
                    break
                except Exception as error:
                    now = at_a_time or how.batch_size * (1 if how.token_budget is None else how.bucket)
                    if (
                        now == 1
                        or asked.together > 1  # alone it may fit
                        or how.sharding is not None
                        or (error.report if isinstance(error, JobFailed) else report(error))["kind"] != "memory"
                    ):
                        raise
                    passes.forget()  # a batch's worth of memory
                    at_a_time = math.ceil(now / 2)  # of the same batch: GradCache shows the loss all of it
                work.note(micro_batch=at_a_time)
        whole = time.perf_counter() - began
        seconds = round(whole - away, 3)
        store.write_json(
            work.folder / "provenance.json",
            provenance.describe(torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu")
            | {
                "code": document["code"],
                "data_digest": document["data"]["content"],
                "wall_seconds": seconds,
                "gpu_seconds": seconds if torch.cuda.is_available() else 0.0,
                "energy_joules": {part: joules * seconds / whole for part, joules in meter.joules.items()},
                "predicted": asked.predicted,
                "peak_memory_bytes": peak.bytes if cell.training.processes == 1 else None,  # of this process alone
                "threads": cell.training.threads,
                "processes": cell.training.processes,
                "micro_batch": at_a_time,
                "speed": told,
                "trained_parameters": trained,
                "collapsed_since": collapsed_since(work.folder / "metrics.jsonl"),
                "class_counts": store.read_json(prepared / "meta.json")["class_counts"],
            },
        )
        work.publish("TRAINED")


def train_here(asked: Asked, how: Training, folder: Path, prepared: Path, wanted: Wanted) -> int:
    """Train in this very process, or this process's share; gives the number of trained parameters."""
    passes = Passes(sharing=asked.speed.reuse != "none")
    tokens = frozen_store.to_train(token_store.open(prepared), asked.cell, asked.speed)
    for trained in training_here(asked, how, folder, tokens, wanted, passes):
        if trained is not None:
            return trained
        passes.forget()
    raise AssertionError("a training ends with the number of its parameters")


def training_here(
    asked: Asked, how: Training, folder: Path, tokens: Tokens, wanted: Wanted, passes: Passes
) -> Iterator[int | None]:
    """The same a step at a time, each giving None before the number comes."""
    cell = asked.cell.model_copy(update={"training": how})
    steps = training(cell, folder, tokens, checkpoint_every=asked.checkpoint_every, speed=asked.speed, passes=passes)
    shared: Shared | None = None
    while shared is None:
        try:
            next(steps)
            yield None
        except StopIteration as end:
            shared = end.value
    first = gather.rank() == 0
    if first or how.sharding is not None:
        for path in folder.glob("*.npz") if first else ():  # of an earlier try in the same folder
            path.unlink()
        read = frozen_store.to_embed(tokens, cell, asked.speed, wanted.splits)
        embedder = Embedder(shared.read, read, shared.device, cell.seed)
        embed(embedder, folder if first else None, wanted, store.home(), tokens.folder)
    yield shared.count


def used(asked: Asked, tokens: Tokens) -> dict[str, Any]:
    """How a cell is computed faster, as far as that changes the last digits; and with how many others in turns."""
    kept = tokens.splits["train"].below is not None
    return {
        "kernels": asked.speed.of(asked.cell.training.sharding).kernels,
        "reuse": asked.speed.reuse if kept else "none",
        "together": asked.together,
    }


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
        speed = Speed.model_validate(store.read_json(folder / "config.json").get("speed", {}))
        tokens = frozen_store.to_embed(token_store.open(prepared), cell, speed, wanted.splits)
        torch.set_num_threads(cell.training.threads)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = restore(cell, folder, tokens, speed).to(device)
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
    except OSError as refused:
        if store.explain(refused) not in told["error"]:
            told["error"] += f" (and the reason could not be kept: {store.explain(refused)})"
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
    if isinstance(error, stopping.Stopped):
        return "stopped"
    if isinstance(error, UserError):
        return "config"
    if isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or "can't allocate memory" in str(error):
        return "memory"
    if isinstance(error, OSError):
        return "infrastructure"
    return "code"


def explain(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in store.FULL + store.FORBIDDEN + store.MISPLACED:
        return store.explain(error)
    if isinstance(error, UserError | GradientPathError | Diverged | stopping.Stopped):
        return str(error)
    return f"{type(error).__name__}: {error}"
