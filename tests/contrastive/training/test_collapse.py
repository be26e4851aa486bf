"""Diagnostics where their values are known, and a collapse with its step."""

import json
from pathlib import Path

import pytest
import torch

from contrastive.training.collapse import collapsed_since, geometry


def test_directions_at_random_spread():
    vectors = torch.randn(2000, 32, generator=torch.Generator().manual_seed(0))
    found = geometry(vectors * torch.rand(2000, 1) * 9)
    assert found["mean_cosine"] == pytest.approx(0, abs=0.01) and found["spread"] == pytest.approx(1, abs=0.02)
    assert found["effective_rank"] == pytest.approx(32, rel=0.01)


def test_one_direction_is_a_collapse():
    found = geometry(torch.arange(1.0, 5)[:, None] * torch.ones(4, 8))
    assert found["mean_cosine"] == pytest.approx(1) and found["spread"] == pytest.approx(0, abs=1e-6)
    assert found["effective_rank"] == pytest.approx(1)


def test_two_opposite_points_are_one_dimension():
    found = geometry(torch.tensor([[3.0, 0], [-1, 0], [2, 0], [-5, 0]]))
    assert found["effective_rank"] == pytest.approx(1) and found["mean_cosine"] == pytest.approx(-1 / 3)


def test_cosines_are_those_of_all_pairs():
    vectors = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    pairs = [torch.cosine_similarity(a, b, dim=0) for i, a in enumerate(vectors) for b in vectors[:i]]
    assert geometry(vectors)["mean_cosine"] == pytest.approx(float(sum(pairs)) / 10, abs=1e-6)


def test_a_batch_of_one_has_no_shape():
    assert geometry(torch.randn(1, 3)) == {}


@pytest.mark.parametrize(
    ("spreads", "since"),
    [([0.5, 0.4], None), ([0.5, 0.05, 0.01], 20), ([0.01, 0.5], None), ([0.01, 0.5, 0.02], 40), ([0.02, 0.02], 0)],
)
def test_a_collapse_counts_when_it_lasts(spreads: list[float], since: int | None, tmp_path: Path):
    rows = [{"step": 20 * i, "spread": spread} for i, spread in enumerate(spreads)] + [{"step": 99, "loss": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert collapsed_since(tmp_path / "metrics.jsonl") == since
