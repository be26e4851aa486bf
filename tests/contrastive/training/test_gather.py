"""Two processes equal one: loss and gradient of the whole batch, for every loss."""

import pytest
import torch

from contrastive.contract import processes
from contrastive.contract.processes import SHARES, WHOLE
from contrastive.losses import LOSSES
from contrastive.training import gather
from contrastive.views.types import VectorGroup

Found = dict[str, dict[str, torch.Tensor]]


def share() -> Found:
    found = {name: processes.compute(name, SHARES[gather.rank()]) for name in LOSSES}
    number = 1 + gather.rank()
    uneven = VectorGroup(torch.ones(2, number, 3), torch.ones(2, number, dtype=torch.bool))
    return found | {"uneven": {"mask": gather._group(uneven).mask}}


@pytest.fixture(scope="module")
def ranks() -> list[Found]:
    return processes.in_two_processes(share)


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_equal_one(name: str, ranks: list[Found]):
    alone = processes.compute(name, WHOLE)
    for found, rows in zip(ranks, SHARES, strict=True):
        processes.compare(alone, found[name], rows)


def test_where_one_process_has_fewer_vectors_a_text_the_others_are_masked(ranks: list[Found]):
    for found in ranks:
        assert found["uneven"]["mask"].tolist() == [[True, False], [True, False], [True, True], [True, True]]
