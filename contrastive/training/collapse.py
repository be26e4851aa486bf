"""Detect collapse of sentence vectors during training: mean cosine, effective rank and spread of a batch."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

COLLAPSED = 0.1  # vectors count as collapsed below this fraction of the spread of random directions


@torch.no_grad()
def geometry(vectors: Float[Tensor, "n d"]) -> dict[str, float]:
    """Compute mean cosine, effective rank and spread of a batch; empty for fewer than two vectors.

    Effective rank: e to the entropy of the normalised singular values of the centred vectors. Spread: the standard
    deviation of the normalised vectors' dimensions, times √d: 1 for random directions, 0 for a single one.
    """
    if len(vectors) < 2:
        return {}
    rows = F.normalize(vectors.double(), dim=-1)
    n, d = rows.shape
    cosine = (rows.sum(0).square().sum() - n) / (n * (n - 1))
    centred = rows - rows.mean(0)
    shares = torch.linalg.svdvals(centred)
    shares = shares / shares.sum().clamp(min=1e-6)
    entropy = -(shares * shares.clamp(min=1e-12).log()).sum()
    spread = centred.square().mean(0).sqrt().mean() * d**0.5
    return {"mean_cosine": float(cosine), "effective_rank": float(entropy.exp()), "spread": float(spread)}


def collapsed_since(log: Path) -> int | None:
    """Return the step since which the vectors have been collapsed until the end, or None."""
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    since = None
    for row in reversed([row for row in rows if "spread" in row]):
        if row["spread"] >= COLLAPSED:
            break
        since = int(row["step"])
    return since
