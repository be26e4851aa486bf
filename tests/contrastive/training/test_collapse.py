"""Diagnostics where their values are known, and a collapse with its step."""

import json
from pathlib import Path

import pytest
import torch
from pytest import approx

from contrastive.training.collapse import collapsed_since, geometry


def test_the_shape_of_a_batch():
    random = torch.Generator().manual_seed(0)
    spread = torch.randn(2000, 32, generator=random) * (torch.rand(2000, 1, generator=random) * 9)
    one_direction = torch.arange(1.0, 5)[:, None] * torch.ones(4, 8)
    opposite = torch.tensor([[3.0, 0], [-1, 0], [2, 0], [-5, 0]])
    for vectors, cosine, spread_of, rank in (
        (spread, approx(0, abs=0.01), approx(1, abs=0.02), approx(32, rel=0.01)),
        (one_direction, approx(1), approx(0, abs=1e-6), approx(1)),
        (opposite, approx(-1 / 3), geometry(opposite)["spread"], approx(1)),  # two points
    ):
        assert geometry(vectors) == {"mean_cosine": cosine, "spread": spread_of, "effective_rank": rank}
    few = torch.randn(5, 3, generator=random)
    pairs = [torch.cosine_similarity(a, b, dim=0) for i, a in enumerate(few) for b in few[:i]]
    assert geometry(few)["mean_cosine"] == approx(float(sum(pairs)) / 10, abs=1e-6)
    assert geometry(torch.randn(1, 3)) == {}


@pytest.mark.parametrize(
    ("spreads", "since"),
    [([0.5, 0.4], None), ([0.5, 0.05, 0.01], 20), ([0.01, 0.5], None), ([0.01, 0.5, 0.02], 40), ([0.02, 0.02], 0)],
)
def test_a_collapse_counts_when_it_lasts(spreads: list[float], since: int | None, tmp_path: Path):
    rows = [{"step": 20 * i, "spread": spread} for i, spread in enumerate(spreads)] + [{"step": 99, "loss": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert collapsed_since(tmp_path / "metrics.jsonl") == since
