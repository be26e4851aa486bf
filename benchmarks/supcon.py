"""Time and peak memory of SupCon, forward and backward: whole, by chunks, and pytorch-metric-learning's.

    python benchmarks/supcon.py [ROWS] [DIMENSIONS] [REPEATS]

Each measurement is a process of its own; the variants take turns, so that a slow minute of the machine hits all alike.
"""

import json
import resource
import statistics
import subprocess
import sys
import time

VARIANTS = ("pytorch-metric-learning", "whole", "chunks of 1024", "chunks of 256")
CLASSES = 10


def measure(variant: str, rows: int, dimensions: int) -> dict[str, float]:
    import torch
    from pytorch_metric_learning.losses import SupConLoss

    from contrastive.losses.supcon import supcon

    torch.manual_seed(0)
    views = torch.randn(rows // 2, 2, dimensions, requires_grad=True)
    labels = torch.arange(rows // 2) % CLASSES
    chunk = int(variant.split()[-1]) if variant.startswith("chunks") else None
    theirs = SupConLoss(temperature=0.1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    if variant == "pytorch-metric-learning":
        value = theirs(views.flatten(0, 1), labels.repeat_interleave(2))
    else:
        value = supcon(views, labels=labels, temperature=0.1, chunk=chunk)
    value.backward()
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert views.grad is not None
    return {"seconds": seconds, "mib": peak / 1024, "value": value.item(), "gradient": views.grad.norm().item()}


def main(rows: int = 8192, dimensions: int = 384, repeats: int = 5) -> None:
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    for _ in range(repeats):
        for variant in VARIANTS:
            command = [sys.executable, __file__, "measure", variant, str(rows), str(dimensions)]
            found[variant].append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
    theirs = found[VARIANTS[0]]
    print(f"{rows} rows × {dimensions}, {repeats} runs each; ratios to {VARIANTS[0]} of the same turn")
    for variant, runs in found.items():
        times = [run["seconds"] / other["seconds"] for run, other in zip(runs, theirs, strict=True)]
        memory = [run["mib"] / other["mib"] for run, other in zip(runs, theirs, strict=True)]
        print(
            f"{variant:24} {statistics.median(r['seconds'] for r in runs):6.2f} s  × {statistics.median(times):.3f} "
            f"({min(times):.3f} to {max(times):.3f})   {statistics.median(r['mib'] for r in runs):6.0f} MiB  "
            f"× {statistics.median(memory):.3f}   value {runs[0]['value']:.6f}  |gradient| {runs[0]['gradient']:.6f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        main(*(int(argument) for argument in sys.argv[1:]))
