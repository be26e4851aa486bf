"""A step on token views: CLS attention by its one row, or by `output_attentions=True`, which brings the whole matrix.

    python -m benchmarks.token_views [LENGTH] [TEXTS] [REPEATS]

Encoders of three blocks in the sizes of BERT-base and DeBERTa-v3-base, with random weights: time and memory do not
depend on them.
"""

import statistics
from typing import Any

from benchmarks.turns import Run, ratios, start, take_turns, timed

KINDS = ("bert", "bert without attention dropout", "deberta-v2")  # SDPA on a CPU is slow where it has to drop
WAYS = ("output_attentions=True", "one row")
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
    import torch
    from torch import nn

    from contrastive import encoder as encoders
    from contrastive.batches import Batch
    from contrastive.losses.supcon import supcon
    from contrastive.views.topk_tokens import topk_tokens
    from contrastive.views.types import Encoded

    torch.manual_seed(0)
    model = encoder(kind, way).train()
    ids = torch.randint(5, 1000, (texts, length))
    mask, special = torch.ones_like(ids).bool(), torch.zeros_like(ids).bool()
    special[:, 0] = special[:, -1] = True
    batch = Batch(ids, mask, special, torch.arange(texts) % 2)

    def with_matrix(given: Batch) -> Encoded:
        output = model(given.input_ids, attention_mask=given.attention_mask.long(), output_attentions=True,
                       output_hidden_states=True)  # fmt: skip
        states, rows = output.hidden_states, [a[:, :, 0].mean(1).detach() for a in output.attentions]
        return Encoded(states[0], tuple(states[1:]), given, encoders.first_token, nn.Dropout(0.1), lambda _, b: rows[b])

    def with_row(given: Batch) -> Encoded:
        return encoders.encode(model, given, "cls", nn.Dropout(0.1))

    def step() -> None:
        view = topk_tokens(with_matrix if way == WAYS[0] else with_row, batch, k=30)
        supcon(view.groups[0].vectors, labels=batch.labels, mask=view.groups[0].mask).backward()

    return timed(step)


def main(length: int = 510, texts: int = 8, repeats: int = 5) -> None:
    for kind in KINDS:
        found = take_turns("benchmarks.token_views", WAYS, [kind, length, texts], repeats)
        matrix, row = found.values()
        times, memory = ratios(matrix, row, "seconds"), ratios(row, matrix, "mib")
        print(
            f"{kind}, {texts} texts of {length} tokens: {statistics.median(r['seconds'] for r in row):.2f} s, "
            f"{statistics.median(times):.2f} times as fast ({min(times):.2f} to {max(times):.2f}); "
            f"{statistics.median(r['mib'] for r in row):.0f} MiB, {statistics.median(memory):.2f} of the memory "
            f"({min(memory):.2f} to {max(memory):.2f})"
        )


if __name__ == "__main__":
    start(main, measure)
