"""The stages of a cell as plain functions on its run folder; each can be called alone, none repeats finished work."""

import errno
import shutil
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from contrastive import evaluate as evaluation_stage
from contrastive import provenance, store
from contrastive.audit import GradientPathError
from contrastive.config import Cell, Evaluation
from contrastive.data import tokens as token_store
from contrastive.diagnostics import collapsed_since
from contrastive.embed import embed
from contrastive.errors import UserError
from contrastive.identity import STAGES, cell_id, chosen_entries, code_files, evaluation_key, identity
from contrastive.status import up_to_date
from contrastive.train import Diverged, train


def prepare(cell: Cell) -> Path:
    """Tokens of the cell's data, made once for all cells that share data, tokenizer and length."""
    return token_store.prepare(cell.data, cell.encoder, store.home())


def train_cell(folder: Path, cell: Cell, name: str, checkpoint_every: int) -> None:
    """From tokens to TRAINED: weights, embeddings, predictions, provenance. Another process on it is waited for."""
    document = identity(cell)
    if cell_id(document) != folder.name:
        raise UserError("the code or the data has changed since this grid was planned; run the same command again")
    with store.locked(folder / ".claim"):
        if store.damage(folder, "TRAINED") is None:
            return
        clear(folder)
        began = time.perf_counter()
        store.write_json(
            folder / "config.json",
            {
                "id": folder.name,
                "name": name,
                "cell": cell.model_dump(mode="json"),
                "identity": document,
                "files": code_files(STAGES, chosen_entries(cell)),
            },
        )
        prepared = prepare(cell)
        tokens = token_store.open(prepared)
        model = train(cell, folder, tokens, checkpoint_every=checkpoint_every)
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        embed(model, folder, tokens, next(model.parameters()).device)
        seconds = round(time.perf_counter() - began, 3)
        store.write_json(
            folder / "provenance.json",
            provenance.describe()
            | {
                "code": document["code"],
                "data_digest": document["data"]["content"],
                "wall_seconds": seconds,
                "gpu_seconds": seconds if torch.cuda.is_available() else 0.0,
                "threads": cell.training.threads,
                "trained_parameters": trained,
                "collapsed_since": collapsed_since(folder / "metrics.jsonl"),
                "class_counts": store.read_json(prepared / "meta.json")["class_counts"],
            },
        )
        store.mark(folder, "TRAINED")
        (folder / "FAILED.json").unlink(missing_ok=True)


def clear(folder: Path) -> None:
    """Leave of an unfinished attempt only what a resumed one can use."""
    for path in folder.iterdir():
        keep = path.name in (".claim", "resume", "metrics.jsonl")
        if not keep:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def evaluate_cell(folder: Path, evaluation: Evaluation) -> None:
    """From TRAINED to DONE: scores and t-SNE. Other settings than last time measure again, and never train."""
    with store.locked(folder / ".claim"):
        if up_to_date(folder, evaluation_key(evaluation)):
            return
        torch.set_num_threads(1)
        (folder / "DONE").unlink(missing_ok=True)
        evaluation_stage.evaluate(folder, evaluation)
        (folder / "FAILED.json").unlink(missing_ok=True)
        store.mark(folder, "DONE")


def attempt(stage: Callable[..., None], folder: Path, *arguments: Any) -> dict[str, Any] | None:
    """Run a stage in a worker; a failure comes back as the report that the folder keeps, never as an exception."""
    try:
        stage(*arguments)
    except Exception as error:
        return fail(folder, error)
    return None


def fail(folder: Path, error: BaseException) -> dict[str, Any]:
    """Keep why a cell failed in its folder, in words for people and with the traceback for us."""
    report: dict[str, Any] = {"kind": kind(error), "error": explain(error)}
    if isinstance(error, Diverged):
        report["step"] = error.step
    if not isinstance(error, UserError):
        report["traceback"] = "".join(traceback.format_exception(error))
    try:
        store.write_json(folder / "FAILED.json", report)
    except OSError as full:
        report["error"] += f" (and the reason could not be kept: {full})"
    return report


def kind(error: BaseException) -> str:
    if isinstance(error, Diverged):
        return "diverged"
    if isinstance(error, UserError):
        return "config"
    if isinstance(error, OSError | MemoryError | torch.cuda.OutOfMemoryError):
        return "infrastructure"
    return "code"


def explain(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the disk is full: could not write {error.filename or 'a file'} below {store.home()}"
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"not allowed to write {error.filename or 'a file'}: choose another place with ABLATE_HOME"
    if isinstance(error, UserError | GradientPathError | Diverged):
        return str(error)
    return f"{type(error).__name__}: {error}"
