"""Time and peak memory of SupCon, forward and backward: whole, by chunks, and pytorch-metric-learning's.

    python -m benchmarks.supcon [ROWS] [DIMENSIONS] [REPEATS]

Value and gradient are printed beside, since they must be the same.
"""

import statistics

from benchmarks.turns import Run, ratios, start, take_turns, timed

VARIANTS = ("pytorch-metric-learning", "whole", "chunks of 1024", "chunks of 256")
CLASSES = 10


def measure(variant: str, rows: int, dimensions: int) -> Run:
    import torch
    from pytorch_metric_learning.losses import SupConLoss

    from contrastive.losses.supcon import supcon

    torch.manual_seed(0)
    views = torch.randn(rows // 2, 2, dimensions, requires_grad=True)
    labels = torch.arange(rows // 2) % CLASSES
    chunk = int(variant.split()[-1]) if variant.startswith("chunks") else None
    theirs = SupConLoss(temperature=0.1)
    values = []

    def step() -> None:
        if variant == "pytorch-metric-learning":
            value = theirs(views.flatten(0, 1), labels.repeat_interleave(2))
        else:
            value = supcon(views, labels=labels, temperature=0.1, chunk=chunk)
        value.backward()
        values.append(value.item())

    run = timed(step)
    assert views.grad is not None
    return {**run, "value": values[0], "gradient": views.grad.norm().item()}


def main(rows: int = 8192, dimensions: int = 384, repeats: int = 5) -> None:
    found = take_turns("benchmarks.supcon", VARIANTS, [rows, dimensions], repeats)
    theirs = found[VARIANTS[0]]
    print(f"{rows} rows × {dimensions}, {repeats} runs each; ratios to {VARIANTS[0]} of the same turn")
    for variant, runs in found.items():
        times, memory = ratios(runs, theirs, "seconds"), ratios(runs, theirs, "mib")
        print(
            f"{variant:24} {statistics.median(r['seconds'] for r in runs):6.2f} s  × {statistics.median(times):.3f} "
            f"({min(times):.3f} to {max(times):.3f})   {statistics.median(r['mib'] for r in runs):6.0f} MiB  "
            f"× {statistics.median(memory):.3f}   value {runs[0]['value']:.6f}  |gradient| {runs[0]['gradient']:.6f}"
        )


if __name__ == "__main__":
    start(main, measure)
