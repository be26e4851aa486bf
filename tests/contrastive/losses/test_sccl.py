"""SCCL: one centre, and centres where k-means puts them."""

import math

import pytest
import torch

from contrastive.errors import UserError
from contrastive.losses.sccl import Sccl, clustering


def test_more_clusters_than_texts_are_refused():
    with pytest.raises(UserError, match="sccl has 5 clusters, and there are 4 training texts"):
        Sccl(3).begin(torch.randn(4, 3))


def test_one_centre_has_nothing_to_sharpen(drawn):
    assert float(clustering(drawn(6, 1).detach()[:, 0], drawn(1, 1).detach()[:, 0])) == pytest.approx(0.0, abs=1e-12)


def test_the_centres_begin_where_k_means_puts_them():
    loss = Sccl(2, clusters=2)
    loss.begin(torch.tensor([[0.0, 0], [0, 2], [10, 0], [10, 2]]))
    found = sorted(loss.centres.tolist())
    assert [math.dist(a, b) for a, b in zip(found, [[0, 1], [10, 1]], strict=True)] == pytest.approx([0, 0], abs=1e-5)
    assert loss.centres.requires_grad
