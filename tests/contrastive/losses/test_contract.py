"""What every entry of LOSSES keeps, whatever it computes: a new loss meets this contract without a test of its own."""

import pytest
import torch

from contrastive.config import registry
from contrastive.contract import losses
from contrastive.contract.losses import SAMPLES, compute, count, gradient, values
from contrastive.losses import LOSSES
from contrastive.losses.similarity import least

# In half precision of both kinds: a loss of cosines, one of logits, and those with a queue, a projector, prototypes.
BOTH_HALVES = ("supcon", "ce", "moco", "vicreg", "swav")
any_number = pytest.mark.parametrize(
    "name",
    [n for n, line in registry.loss_entries().items() if line.input_name == "views" and line.facts.vectors is None],
)


@pytest.mark.parametrize(("name", "holds"), [(name, holds) for name in LOSSES for holds in losses.checks_of(name)])
def test_every_loss_keeps_the_contract(name: str, holds: str):
    losses.checks_of(name)[holds]()


@pytest.mark.parametrize("name", BOTH_HALVES)
def test_it_stays_in_float32_under_autocast_to_the_other_half_precision(name: str):
    losses.stays_in_float32(name, torch.float16)


@any_number
def test_without_positives_it_is_exactly_zero_with_a_zero_gradient(name):
    for samples in (SAMPLES, 1):
        tensor = values(name, samples)
        single = tensor[:, :1]
        value = compute(name, single, torch.arange(samples))
        assert float(value.detach()) == 0.0
        assert gradient(value, tensor).tolist() == torch.zeros_like(tensor).tolist()


@pytest.mark.parametrize("name", [n for n, line in registry.loss_entries().items() if line.facts.positives is not None])
def test_no_value_is_below_the_floor(name):
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        mask = torch.rand(SAMPLES, count(name), generator=generator) < 0.8
        labels = torch.randint(0, 3, (SAMPLES,), generator=generator)
        floor = least(registry.loss_entries()[name].facts.positives, labels, mask)
        value = compute(name, values(name, dtype=torch.float64, seed=seed), labels, mask)
        assert value >= floor - 1e-6, seed  # a floor is in fp32
