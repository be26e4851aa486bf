"""Training steps of DeBERTa-v3-base at length 510 on one GPU: the plain way, ours, and ours compiled.

    python -m benchmarks.gpu [--turns 3] [--peak-tflops N] [--device cpu --small]

Weights are random, since time and memory do not depend on them; nothing is downloaded. A step is forward, backward
and fused AdamW, in bfloat16 autocast, without attention dropout. Each measurement is a process of its own and they
take turns; the table holds medians, with the least and the most of the ratios to the plain way in the same turn.

Model FLOPs of a token, three times the forward pass's, with e the width, f the inner width and s the padded length:
3 · blocks · (2 (4 e² + 2 e f) + 8 s e), where 8 s e is 2 s e each for the scores of content and both terms of position,
and for the values. Lookups, norms, the projections of the position table and what is computed again are not counted.
"""

import argparse
import json
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.token_views import RELATIVE, with_matrix
from benchmarks.turns import Run, ratios, take_turns

WAYS = ("plain", "ours", "ours, compiled")
TOKEN_WAYS = ("plain, whole matrix, padded to 510", "ours, row of CLS, padded to the longest")
BATCHES = (8, 16, 32, 64)
BASE = {"vocab_size": 128_100, "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
        "intermediate_size": 3072, "max_position_embeddings": 512}  # fmt: skip
SMALL = {"vocab_size": 500, "num_hidden_layers": 1, "hidden_size": 48, "num_attention_heads": 3,
         "intermediate_size": 96, "max_position_embeddings": 512}  # fmt: skip
# dense bfloat16, TFLOP/s; the first one whose name is part of the device's
PEAKS = {"B200": 2250, "H200": 989, "H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "A100": 312, "L40S": 362,
         "L40": 181, "L4": 121, "RTX 4090": 165, "A10": 125}  # fmt: skip


def sizes(small: bool) -> tuple[dict[str, int], int]:
    """Of the encoder, and the length."""
    return (SMALL, 60) if small else (BASE, 510)


def encoder(small: bool) -> Any:
    from transformers import AutoModel, DebertaV2Config

    config = DebertaV2Config(**sizes(small)[0], **RELATIVE, attention_probs_dropout_prob=0.0)
    return AutoModel.from_config(config).train()


def measure(way: str, texts: int, device: str, small: bool) -> Run:
    """Seconds of a step, its tokens of text, those with padding, and the peak of memory; nothing where it is short."""
    import torch

    from contrastive.models.kernels import disentangled

    torch.manual_seed(0)
    model = encoder(small).to(device)
    if not way.startswith("plain"):
        disentangled.quicken(model)
    make = token_step if way in TOKEN_WAYS else step
    steps, warm = (2, 1) if small else (10, 5)
    try:
        take = make(model, way, texts, device, small)
        for _ in range(warm):
            take()
        seconds, tokens = zip(*(timed(take, device) for _ in range(steps)), strict=True)
    except torch.OutOfMemoryError:
        return {}
    padded = texts * sizes(small)[1]
    return {"seconds": statistics.median(seconds), "tokens": statistics.median(tokens), "padded": padded,
            "mib": peak(device)}  # fmt: skip


def step(model: Any, way: str, texts: int, device: str, small: bool) -> Callable[[], int]:
    """On the sentence vectors of texts that are all as long as can be."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    vocabulary, length = model.config.vocab_size, sizes(small)[1]
    ids = torch.randint(5, vocabulary, (texts, length), device=device)
    mask = torch.ones_like(ids)
    run = torch.compile(model, backend="eager" if small else "inductor") if way.endswith("compiled") else model

    def take() -> int:
        with torch.autocast(device, torch.bfloat16):
            vectors = run(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]
        vectors.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        return ids.numel()

    return take


def token_step(model: Any, way: str, texts: int, device: str, small: bool) -> Callable[[], int]:
    """SupCon on the 30 tokens that CLS looks at most, of texts of mixed length, in other batches each time."""
    import torch
    from torch import nn

    from contrastive.losses.supcon import supcon
    from contrastive.models import encoder as encoders
    from contrastive.views.batches import Batch
    from contrastive.views.topk_tokens import topk_tokens
    from contrastive.views.types import Encoded

    dropout, whole = nn.Dropout(0.1), way == TOKEN_WAYS[0]
    plain = with_matrix(model, encoders.first_token, dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    longest, labels = sizes(small)[1], torch.arange(texts, device=device) % 2
    draws = torch.Generator().manual_seed(0)

    def batch() -> Batch:
        lengths = torch.randint(longest // 16 + 2, longest + 1, (texts,), generator=draws)
        width = longest if whole else int(lengths.max())
        mask = torch.arange(width) < lengths[:, None]
        special = torch.zeros_like(mask)
        special[:, 0] = special[torch.arange(texts), lengths - 1] = True
        ids = torch.randint(5, model.config.vocab_size, (texts, longest), generator=draws)[:, :width] * mask
        return Batch(*(given.to(device) for given in (ids, mask, special)), labels)

    def with_row(given: Batch) -> Encoded:
        return encoders.encode(model, given, "cls", dropout)

    def take() -> int:
        given = batch()
        with torch.autocast(device, torch.bfloat16):
            view = topk_tokens(plain if whole else with_row, given, k=30)
            loss = supcon(view.groups[0].vectors, labels=labels, mask=view.groups[0].mask)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return int(given.attention_mask.sum())

    return take


def timed(take: Callable[[], int], device: str) -> tuple[float, int]:
    import torch

    settle = torch.cuda.synchronize if device == "cuda" else lambda: None
    settle()
    began = time.perf_counter()
    tokens = take()
    settle()
    return time.perf_counter() - began, tokens


def peak(device: str) -> float:
    import torch

    on_gpu = device == "cuda"
    return (
        torch.cuda.max_memory_allocated() / 2**20
        if on_gpu
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )


def flops(padded: float, small: bool) -> float:
    """Of a step, by the formula above."""
    encoder, length = sizes(small)
    width, inner = encoder["hidden_size"], encoder["intermediate_size"]
    token = 2 * (4 * width**2 + 2 * width * inner) + 8 * length * width
    return 3.0 * encoder["num_hidden_layers"] * token * padded


def rows(ways: tuple[str, ...], texts: int, asked: argparse.Namespace, tflops: float | None) -> list[str]:
    given = [texts, asked.device, asked.small]
    if asked.small:
        found = {way: [measure(way, *given)] for way in ways}
    else:
        found = take_turns("benchmarks.gpu", ways, given, asked.turns)
    plain = found[ways[0]]
    return [row(way, texts, runs, plain, asked.small, tflops if ways == WAYS else None) for way, runs in found.items()]


def row(way: str, texts: int, runs: list[Run], plain: list[Run], small: bool, tflops: float | None) -> str:
    if not all(runs):
        return f"| {way} | {texts} | out of memory | | | | | |"
    seconds, mib = (statistics.median(run[key] for run in runs) for key in ("seconds", "mib"))
    speed = statistics.median(run["tokens"] / run["seconds"] for run in runs)
    used = "" if tflops is None else f"{flops(runs[0]['padded'], small) / seconds / tflops / 1e12:.1%}"
    faster, memory = (spread(ratios(*pair, key)) if all(plain) else "" for key, pair in
                      (("seconds", (plain, runs)), ("mib", (runs, plain))))  # fmt: skip
    return f"| {way} | {texts} | {seconds * 1e3:.1f} | {speed:,.0f} | {used} | {mib:,.0f} | {faster} | {memory} |"


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def peak_tflops(asked: argparse.Namespace) -> tuple[str, float | None]:
    """The device's name, and what it can do at most."""
    import torch

    name = torch.cuda.get_device_name() if asked.device == "cuda" else "CPU"
    return name, asked.peak_tflops or known_peak(name)


def known_peak(device: str) -> float | None:
    return next((tflops for name, tflops in PEAKS.items() if re.search(rf"\b{name}\b", device)), None)


def main(asked: argparse.Namespace) -> None:
    import torch

    name, tflops = peak_tflops(asked)
    said = "of unknown peak (--peak-tflops)" if tflops is None else f"of {tflops:g} TFLOP/s"
    print(f"{name} {said}, torch {torch.__version__}, {asked.turns} turns\n", flush=True)
    print("| way | texts | ms a step | tokens/s | MFU | peak MiB | × plain's speed | × plain's memory |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for ways in (WAYS, TOKEN_WAYS):
        for texts in (2,) if asked.small else BATCHES:
            print("\n".join(rows(ways, texts, asked, tflops)), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="a tiny encoder, once, in this process: whether it runs")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--peak-tflops", type=float, help="of the device in bfloat16, where its name is not known")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(*json.loads(sys.argv[2]))))
    else:
        main(arguments())
