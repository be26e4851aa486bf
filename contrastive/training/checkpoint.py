"""Save the trained weights; save and load the checkpoints from which an interrupted training resumes."""

import io
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import save
from torch.optim.lr_scheduler import LambdaLR

from contrastive.config.cell import Cell
from contrastive.runs.store import write_atomic
from contrastive.training.gather import gather_objects
from contrastive.training.sharding import Shared


def save_weights(shared: Shared, cell: Cell, folder: Path, first_process: bool) -> None:
    """Save what training changed (all weights if they began at random); the rest comes from the encoder itself."""
    everything = cell.encoder.model.startswith("scratch:")
    trained = {name: p for name, p in shared.model.named_parameters() if p.requires_grad or everything}
    state = {}
    for name, parameter in trained.items():
        weights = shared.whole(parameter)
        if first_process:
            state[name] = weights.cpu().contiguous()
    if first_process:
        write_atomic(folder / "checkpoint" / "weights.safetensors", save(state))


def save_checkpoint(folder: Path, step: int, shared: Shared, scheduler: LambdaLR, accelerator: Accelerator) -> None:
    """Save everything that the next step depends on; the first process writes the file."""
    trained = {name for name, p in shared.model.named_parameters() if p.requires_grad}
    stateful = ("slow.", "losses.")  # the slow copy, queues, statistics of batch norms
    named = shared.model.state_dict(keep_vars=True).items()
    tensors = {n: shared.whole(tensor) for n, tensor in named if n in trained or n.startswith(stateful)}
    optimizer_state = shared.optimizer_state()
    if not accelerator.is_main_process:
        return
    state = {
        "step": step,
        "model": tensors,
        "optimizer": optimizer_state,
        "scheduler": scheduler.state_dict(),
        "scaler": accelerator.scaler.state_dict() if accelerator.scaler else {},
    }
    content = io.BytesIO()
    torch.save(state, content)
    write_atomic(folder / "resume" / "state.pt", content.getvalue())


def load_checkpoint(folder: Path, first_process: bool) -> dict[str, Any] | None:
    """Load the last checkpoint of an interrupted attempt and cut the log at its step; None without a valid one."""
    log = folder / "metrics.jsonl"
    state: dict[str, Any] | None = None
    with suppress(OSError, RuntimeError, EOFError, pickle.UnpicklingError):  # missing or incomplete
        state = torch.load(folder / "resume" / "state.pt", map_location="cpu", weights_only=True)
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    valid = state is not None and len(lines) >= state["step"]
    step = gather_objects(state["step"] if state is not None and valid else 0)[0]
    if first_process:
        write_atomic(log, "".join(lines[:step]))
    assert step == 0 or state is not None, "the first process found a checkpoint that this one cannot read"
    return state if step else None


def resume(state: dict[str, Any] | None, shared: Shared, scheduler: LambdaLR, accelerator: Accelerator) -> int:
    """Restore optimizer, scheduler and scaler (the model has its state already); return the first step to run."""
    if state is None:
        return 0
    shared.load_optimizer_state(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    if accelerator.scaler:
        accelerator.scaler.load_state_dict(state["scaler"])
    return int(state["step"])
