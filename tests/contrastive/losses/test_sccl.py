"""SCCL: its clustering term as a loop, NT-Xent on its head, centres where k-means puts them."""

import math

import pytest
import torch

from contrastive.losses.ntxent import ntxent
from contrastive.losses.sccl import CLUSTERING, Sccl, clustering


def loop(vectors: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    q = []
    for e in vectors:
        near = [1 / (1 + ((e - centre) ** 2).sum()) for centre in centres]
        q.append([it / sum(near) for it in near])
    sizes = [sum(row[k] for row in q) for k in range(len(centres))]
    total = 0
    for row in q:
        sharp = [(it**2 / size).detach() for it, size in zip(row, sizes, strict=True)]
        p = [it / sum(sharp) for it in sharp]
        total = total + sum(a * (torch.log(a) - torch.log(b)) for a, b in zip(p, row, strict=True))
    return total / len(q)


def test_the_clustering_term_is_the_loop(drawn, agree):
    vectors, centres = drawn(6, 1)[:, 0], drawn(3, 1, seed=1)[:, 0]
    agree(clustering(vectors, centres), loop(vectors, centres), vectors)
    agree(clustering(vectors, centres), loop(vectors, centres), centres)


def test_one_centre_has_nothing_to_sharpen(drawn):
    assert float(clustering(drawn(6, 1).detach()[:, 0], drawn(1, 1).detach()[:, 0])) == pytest.approx(0.0, abs=1e-12)


def test_the_loss_is_both_terms(drawn):
    torch.manual_seed(0)
    loss, tensor = Sccl(5, projection=4, clusters=3).double(), drawn(6, 2)
    projected = torch.stack([loss.projector(tensor[:, 0]), loss.projector(tensor[:, 1])], 1)
    expected = ntxent(projected, temperature=0.5) + CLUSTERING * clustering(tensor[:, 0], loss.centres)
    torch.testing.assert_close(loss(tensor), expected)


def test_the_centres_begin_where_k_means_puts_them():
    loss = Sccl(2, clusters=2)
    loss.begin(torch.tensor([[0.0, 0], [0, 2], [10, 0], [10, 2]]))
    found = sorted(loss.centres.tolist())
    assert [math.dist(a, b) for a, b in zip(found, [[0, 1], [10, 1]], strict=True)] == pytest.approx([0, 0], abs=1e-5)
    assert loss.centres.requires_grad
