"""A step on token views: CLS attention by its one row, or by `output_attentions=True`, which brings the whole matrix.

    python -m benchmarks.token_views [LENGTH] [TEXTS] [REPEATS] [STEPS] | --quick

First the recipe whole, `ce+supcon` on the K most attended tokens: MiniLM on tweets of mixed length, here as a cell
trains it, there as source documents write it (eager attention with its matrices, every text padded to LENGTH). Then one
step of encoders of three blocks in the sizes of BERT-base and DeBERTa-v3-base on TEXTS texts of LENGTH tokens each,
with random weights: time and memory do not depend on them.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.turns import Run, ratios, spread, start, take_turns, timed

RECIPE = "ce+supcon on topk_tokens, MiniLM, tweets of mixed length"
BATCH = 16  # of the recipe
KINDS = ("bert", "bert without attention dropout", "deberta-v2")  # SDPA on a CPU is slow where it has to drop
WAYS = ("output_attentions=True", "one row")
IN_PARTS = "one row, micro_batch 4"  # GradCache: the same step, with the graph of a quarter at a time
SIZES = {"vocab_size": 1000, "num_hidden_layers": 3, "hidden_size": 768, "num_attention_heads": 12,
         "intermediate_size": 3072, "max_position_embeddings": 512}  # fmt: skip
RELATIVE = {"relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0}  # fmt: skip


def encoder(kind: str, way: str) -> Any:
    from transformers import AutoModel, BertConfig, DebertaV2Config

    eager = {"attn_implementation": "eager"} if way == WAYS[0] else {}
    if kind.startswith("bert"):
        dropout = 0.0 if kind == KINDS[1] else 0.1
        config = BertConfig(**SIZES, attention_probs_dropout_prob=dropout)
        return AutoModel.from_config(config, add_pooling_layer=False, **eager)
    return AutoModel.from_config(DebertaV2Config(**SIZES, **RELATIVE))


def measure(way: str, kind: str, length: int, texts: int) -> Run:
    return recipe(way, length, texts) if kind == RECIPE else one_step(way, kind, length, texts)


def recipe(way: str, length: int, count: int) -> Run:
    """Seconds a step, and by how much training raises the peak of memory: weights, moments, activations."""
    import torch

    from benchmarks import ours, peers
    from benchmarks import texts as made
    from contrastive.config.cell import Cell, Data, Encoder, Training
    from contrastive.config.experiment import Speed
    from contrastive.config.objective import Objective
    from contrastive.data import tokens as token_store
    from contrastive.training import meters

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
        meters.reset_peak()  # the peak begins anew
        before = meters.memory_bytes("VmRSS")
        if way == WAYS[0]:
            seconds = as_documents_write_it(cell, tokens, length)
        else:
            seconds = ours.train(cell, home, tokens, Speed()).seconds
        return {"seconds": seconds * BATCH / count, "mib": (meters.memory_bytes("VmHWM") - before) / 2**20}


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


def one_step(way: str, kind: str, length: int, texts: int) -> Run:
    import torch
    from torch import nn

    from contrastive.losses.supcon import supcon
    from contrastive.models import encoder as encoders
    from contrastive.models.pooling import first_token
    from contrastive.views.batches import Batch
    from contrastive.views.passes import topk_tokens
    from contrastive.views.types import Encoded

    torch.manual_seed(0)
    model = encoder(kind, way).train()
    ids = torch.randint(5, 1000, (texts, length))
    mask, special = torch.ones_like(ids).bool(), torch.zeros_like(ids).bool()
    special[:, 0] = special[:, -1] = True
    batch = Batch(ids, mask, special, torch.arange(texts) % 2)

    def with_row(given: Batch) -> Encoded:
        return encoders.encode(model, given, "cls", nn.Dropout(0.1))

    def step() -> None:
        whole = with_matrix(model, first_token, nn.Dropout(0.1))
        view = topk_tokens(whole if way == WAYS[0] else with_row, batch, k=30)
        supcon(view.groups[0].vectors, labels=batch.labels, mask=view.groups[0].mask).backward()

    return timed(step)


def main(
    length: int = 256, texts: int = 16, repeats: int = 5, steps: int = 10, kinds: tuple[str, ...] = (RECIPE, *KINDS)
) -> None:
    print(f"At most {length} tokens a text, {repeats} turns, one thread.\n")
    print("| | CLS attention by | s a step | MiB | times as fast as whole matrices | share of their memory |")
    print("|---|---|---|---|---|---|")
    for kind in kinds:
        count, ways = (steps * BATCH, (*WAYS, IN_PARTS)) if kind == RECIPE else (texts, WAYS)
        found = take_turns("benchmarks.token_views", ways, [kind, length, count], repeats, {"OMP_NUM_THREADS": "1"})
        for way, runs in found.items():
            taken = [spread([run[key] for run in runs], digits) for key, digits in (("seconds", 2), ("mib", 0))]
            beside = spread(ratios(found[WAYS[0]], runs, "seconds")), spread(ratios(runs, found[WAYS[0]], "mib"))
            print(f"| {kind} | {way} | " + " | ".join([*taken, *beside]) + " |", flush=True)


if __name__ == "__main__":
    start(main, measure, quick=(64, 4, 1, 2, (RECIPE,)))
