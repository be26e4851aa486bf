"""Two processes equal one: loss and gradient of the whole batch, for every loss."""

import os
import socket
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn

from contrastive.config import registry
from contrastive.config.objective import Objective
from contrastive.losses import LOSSES
from contrastive.models.model import loss_modules
from contrastive.training import gather
from contrastive.training.terms import loss_terms
from contrastive.views.types import Guesses, Output, VectorGroup

SAMPLES, VIEWS, SIZE, CLASSES = 7, 2, 6, 3
SHARES = (slice(0, 4), slice(4, 7))  # of the samples, for each process: not equally many
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0])
HIDDEN = torch.tensor([2, 0, 5, 1, 1, 3, 2])


def leaves(name: str) -> dict[str, torch.Tensor]:
    line = registry.loss_entries()[name]
    views = line.facts.vectors if line.input_name == "views" and line.facts.vectors else VIEWS
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return {
        "vectors": drawn(SAMPLES, views, SIZE),
        "targets": drawn(SAMPLES, views, SIZE),
        "negatives": drawn(SAMPLES, SIZE),
        "surprise": drawn(SAMPLES).abs(),
        "sentences": drawn(SAMPLES, VIEWS, SIZE),
        "logits": drawn(SAMPLES, VIEWS, CLASSES),
    }


def compute(name: str, share: slice) -> dict[str, torch.Tensor]:
    """Every term of a loss on the whole batch, of which this process has a share, and the gradients of its share."""
    own = {key: tensor[share].clone().requires_grad_() for key, tensor in leaves(name).items()}
    mask = torch.ones(own["vectors"].shape[:2], dtype=torch.bool)
    group = VectorGroup(own["vectors"], mask, own["targets"], own["negatives"])
    output = Output([group], own["sentences"], own["logits"], Guesses(own["surprise"], HIDDEN[share]))
    torch.manual_seed(0)
    objective = Objective(loss=name)
    modules = nn.ModuleDict(loss_modules(objective, SIZE)).double()
    for module in modules.values():
        if hasattr(module, "remember"):
            module.remember(torch.nn.functional.normalize(torch.randn(5, SIZE), dim=-1))
    together, labels = gather.gather_batch(output, LABELS[share])
    values = loss_terms(together, labels, objective, modules)
    total = torch.stack(list(values.values())).sum()
    total.backward()
    gradients = {key: leaf.grad for key, leaf in own.items() if leaf.grad is not None}
    heads = {key: p.grad for key, p in modules.named_parameters() if p.grad is not None}
    return {"loss": total.detach()} | gradients | heads


def work(rank: int, folder: str, port: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    found = {name: compute(name, SHARES[rank]) for name in LOSSES}
    uneven = VectorGroup(torch.ones(2, 1 + rank, 3), torch.ones(2, 1 + rank, dtype=torch.bool))
    found["uneven"] = {"mask": gather._group(uneven).mask}
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, torch.Tensor]]]:
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    multiprocessing.spawn(work, (str(folder), port), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_equal_one(name: str, ranks: list[dict[str, dict[str, torch.Tensor]]]):
    alone = compute(name, slice(0, SAMPLES))
    for rank, share in enumerate(SHARES):
        found = ranks[rank][name]
        assert found.keys() == alone.keys()
        for key, expected in alone.items():
            if key in leaves(name):  # the launcher takes the mean of two processes
                torch.testing.assert_close(found[key] / 2, expected[share], atol=1e-10, rtol=1e-10)
            else:
                torch.testing.assert_close(found[key], expected, atol=1e-10, rtol=1e-10)


def test_where_one_process_has_fewer_vectors_a_text_the_others_are_masked(ranks: list):
    for found in ranks:
        assert found["uneven"]["mask"].tolist() == [[True, False], [True, False], [True, True], [True, True]]
