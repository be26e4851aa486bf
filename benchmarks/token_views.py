"""A step on token views: CLS attention by its one row, or by `output_attentions=True`, which brings the whole matrix.

    python -m benchmarks.token_views [LENGTH] [REPEATS] [STEPS] | --quick

The recipe is `ce+supcon` on the K most attended tokens, MiniLM on tweets of mixed length: here as a cell trains it,
there as source documents write it (eager attention with its matrices, every text padded to LENGTH).
"""

import ctypes
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.turns import Run, ratios, spread, start, take_turns

BATCH = 16
WAYS = ("output_attentions=True", "one row")
IN_PARTS = "one row, micro_batch 4"  # GradCache: the same step, with the graph of a quarter at a time


def measure(way: str, length: int, count: int) -> Run:
    """Seconds a step, and by how much training raises the peak of memory: weights, moments, activations."""
    import torch

    from benchmarks import clocks, peers
    from benchmarks import texts as made
    from contrastive.config.cell import Cell, Data, Encoder, Training
    from contrastive.config.experiment import Speed
    from contrastive.config.objective import Objective
    from contrastive.data import tokens as token_store

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        made.write(made.rows(count + 1, "mixed"), home / "texts.csv")
        cell = Cell(
            data=Data(source=f"file:{home / 'texts.csv'}", train=count, test=1, max_length=length),
            encoder=Encoder(model=peers.MODEL),
            objective=Objective(loss="ce+supcon", view="topk_tokens", k=30),
            training=Training(epochs=1, batch_size=BATCH, micro_batch=4 if way == IN_PARTS else None),
            seed=0,
        )
        tokens = token_store.open_tokens(
            token_store.prepare_tokens(cell.data, cell.encoder, home, cell.train_sample_seed())
        )
        torch.set_num_threads(1)
        reset_peak()
        before = memory_bytes("VmRSS")
        if way == WAYS[0]:
            seconds = as_documents_write_it(cell, tokens, length)
        else:
            seconds = clocks.train(cell, home, tokens, Speed()).seconds
        return {"seconds": seconds * BATCH / count, "mib": (memory_bytes("VmHWM") - before) / 2**20}


def reset_peak() -> None:
    """Release unused heap memory and reset the peak. Where the system cannot, it stays that of the whole process."""
    ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def memory_bytes(counter: str) -> int:
    """Return this process's memory by a counter of /proc: `VmRSS` is the current size, `VmHWM` the peak."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{counter}:"))


def as_documents_write_it(cell: Any, tokens: Any, length: int) -> float:
    """A plain loop: random batches, all padded to the maximum, whole attention matrices of every block."""
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import nn
    from transformers import AutoModel

    from contrastive.data import locate
    from contrastive.losses.supcon import supcon
    from contrastive.models.pooling import first_token
    from contrastive.views.passes import topk_tokens

    torch.manual_seed(cell.seed)
    folder = locate.model_folder(cell.encoder.model)
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").train()
    head, dropout = nn.Linear(model.config.hidden_size, len(tokens.labels)), nn.Dropout(cell.encoder.dropout)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=cell.training.encoder_lr)
    encode = with_matrix(model, first_token, dropout)
    order = torch.randperm(len(tokens.splits["train"])).numpy()
    began = time.time()
    for indices in np.array_split(order, len(order) // cell.training.batch_size):
        batch = padded(tokens, indices, length)
        view = topk_tokens(encode, batch, k=cell.objective.k)
        contrast = supcon(view.groups[0].vectors, labels=batch.labels, mask=view.groups[0].mask)
        loss = F.cross_entropy(head(view.sentences[:, 0]), batch.labels) + cell.objective.alpha * contrast
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, cell.training.clip)
        optimizer.step()
        optimizer.zero_grad()
    return time.time() - began


def padded(tokens: Any, indices: Any, length: int) -> Any:
    import torch.nn.functional as F

    from contrastive.views.batches import Batch, collate

    batch = collate(tokens.splits["train"], indices, tokens.pad_id, tokens.special_ids)
    rest = (0, length - batch.input_ids.shape[1])
    return Batch(F.pad(batch.input_ids, rest, value=tokens.pad_id), F.pad(batch.attention_mask, rest, value=False),
                 F.pad(batch.special, rest, value=True), batch.labels)  # fmt: skip


def with_matrix(model: Any, pool: Any, dropout: Any) -> Any:
    from contrastive.views.types import Encoded, Hidden

    def encode(given: Any) -> Encoded:
        output = model(given.input_ids, attention_mask=given.attention_mask.long(), output_attentions=True,
                       output_hidden_states=True)  # fmt: skip
        states, rows = output.hidden_states, [a[:, :, 0].mean(1).detach() for a in output.attentions]
        return Encoded(Hidden(states, 0), given, pool, dropout, lambda _, b: rows[b])

    return encode


def main(length: int = 256, repeats: int = 5, steps: int = 10) -> None:
    print(f"At most {length} tokens a text, {repeats} turns, one thread.\n")
    print("| CLS attention by | s a step | MiB | times as fast as whole matrices | share of their memory |")
    print("|---|---|---|---|---|")
    arguments = [length, steps * BATCH]
    found = take_turns("benchmarks.token_views", (*WAYS, IN_PARTS), arguments, repeats, {"OMP_NUM_THREADS": "1"})
    for way, runs in found.items():
        taken = [spread([run[key] for run in runs], digits) for key, digits in (("seconds", 2), ("mib", 0))]
        beside = spread(ratios(found[WAYS[0]], runs, "seconds")), spread(ratios(runs, found[WAYS[0]], "mib"))
        print(f"| {way} | " + " | ".join([*taken, *beside]) + " |", flush=True)


if __name__ == "__main__":
    start(main, measure, quick=(64, 1, 2))
