"""DSCL against the formula as a loop, and SupCon as its special case."""

import pytest
import torch

from contrastive.losses.dscl import dscl
from contrastive.losses.supcon import supcon


def loop(tensor: torch.Tensor, classes: list[int], temperature: float, beta: float) -> torch.Tensor:
    rows = [(row / (row @ row).sqrt(), i) for i, sample in enumerate(tensor) for row in sample]
    alpha, anchors = 1 / (1 + beta), []
    for a, (anchor, i) in enumerate(rows):
        others = [(row, j) for b, (row, j) in enumerate(rows) if b != a]
        own = [row for row, j in others if j == i]
        mates = [row for row, j in others if j != i and classes[j] == classes[i]]
        partition = torch.log(sum(torch.exp(anchor @ row / temperature) for row, _ in others))
        count = len(mates)
        weights = [alpha * (count + 1)] * len(own) + [(1 - alpha) * (count + 1) / max(1, count)] * count
        logs = [anchor @ row / temperature - partition for row in own + mates]
        if logs:
            anchors.append(-sum(w * it for w, it in zip(weights, logs, strict=True)) / sum(weights))
    return sum(anchors) / len(anchors)


@pytest.mark.parametrize("classes", [[0, 1, 0, 1, 1], [0, 1, 2, 0], [3, 3, 3]])
@pytest.mark.parametrize(("views", "beta"), [(2, 8.0), (2, 0.0), (1, 8.0)])
def test_it_is_the_loop(classes, views, beta, drawn, agree):
    tensor = drawn(len(classes), views)
    value = dscl(tensor, labels=torch.tensor(classes), temperature=0.07, beta=beta)
    agree(value, loop(tensor, classes, 0.07, beta), tensor)


@pytest.mark.parametrize("mates", [1, 2, 4])
def test_with_the_weight_of_an_equal_share_it_is_supcon(mates, drawn, agree):
    """α = 1/(|P| + 1), that is β = |P|, with |P| class mates in two views each."""
    tensor, labels = drawn(2 * (mates + 1), 2), torch.arange(2 * (mates + 1)) % 2
    value = dscl(tensor, labels=labels, temperature=0.1, beta=2.0 * mates)
    agree(value, supcon(tensor, labels=labels, temperature=0.1), tensor)


def test_a_large_weight_on_the_own_view_is_ntxent(drawn):
    from contrastive.losses.ntxent import ntxent

    tensor, labels = drawn(4, 2).detach(), torch.tensor([0, 0, 1, 1])
    assert float(dscl(tensor, labels=labels, temperature=0.1, beta=0.0)) == pytest.approx(
        float(ntxent(tensor, temperature=0.1))
    )
