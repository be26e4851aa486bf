"""What every entry of LOSSES keeps, whatever it computes: a new loss meets this contract without a test of its own."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

from contrastive.config import registry
from contrastive.config.objective import Objective
from contrastive.losses import LOSSES
from contrastive.losses.similarity import least
from contrastive.training.terms import call_signature

SAMPLES, VIEWS, SIZE = 6, 2, 4
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])

# mlm is given no vectors: tests/contrastive/views/test_hidden_words.py.
every_loss = pytest.mark.parametrize("name", [n for n in LOSSES if n != "mlm"])
# In half precision of both kinds: a loss of cosines, one of logits, and those with a queue, a projector, prototypes.
BOTH_HALVES = ("supcon", "ce", "moco", "vicreg", "swav")
any_number = pytest.mark.parametrize(
    "name",
    [n for n, line in registry.loss_entries().items() if line.input_name == "views" and line.facts.vectors is None],
)
masked = pytest.mark.parametrize("name", [n for n, loss in LOSSES.items() if "mask" in call_signature(loss)[1]])


@pytest.mark.parametrize("name", LOSSES)
def test_the_shape_in_the_signature_has_as_many_vectors_as_it_says(name):
    called = inspect.signature(getattr(LOSSES[name], "forward", LOSSES[name])).parameters
    first = next(p for p in called.values() if p.name != "self")
    number = first.annotation.dim_str.split()[1:2]
    said = registry.loss_entries()[name].facts.vectors
    assert number == [str(said)] if said else not number or not number[0].isdigit()


def count(name: str) -> int:
    """How many views a loss takes: what it says, else two."""
    return registry.loss_entries()[name].facts.vectors or VIEWS


def values(
    name: str, samples: int = SAMPLES, dtype: torch.dtype = torch.float32, norm: float = 3.0, seed: int = 0
) -> torch.Tensor:
    """Vectors of one norm, in the shape of views and of logits alike."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(samples, count(name), SIZE, generator=generator, dtype=torch.float64)
    return (norm * drawn / drawn.norm(dim=-1, keepdim=True)).to(dtype).requires_grad_()


def compute(
    name: str, tensor: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor | None = None, **settings
) -> torch.Tensor:
    """Call a loss with what its signature names, as the training does."""
    available = {name: value for name, value in Objective() if value is not None}
    available |= {"labels": labels, "mask": torch.ones(tensor.shape[:2], dtype=torch.bool) if mask is None else mask}
    available |= settings
    available |= {"targets": tensor.detach().flip(-1), "negatives": tensor[:, 0].roll(1, -1)}
    loss = made(name, tensor, settings)
    return loss(tensor, **{key: available[key] for key in call_signature(LOSSES[name])[1] if key in available})


def made(name: str, tensor: torch.Tensor, settings: dict[str, Any]) -> Callable[..., torch.Tensor]:
    """The loss; one that is a module always with the same weights, in the precision of the vectors, and in use."""
    if not isinstance(LOSSES[name], type):
        return LOSSES[name]
    torch.manual_seed(0)
    sizes = {key: settings[key] for key in settings.keys() & inspect.signature(LOSSES[name]).parameters.keys()}
    module = LOSSES[name](tensor.shape[-1], **sizes)
    module.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    if hasattr(module, "remember"):
        module.remember(torch.nn.functional.normalize(torch.randn(8, tensor.shape[-1]), dim=-1))
    return module


def gradient(value: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(value, tensor)[0]


@every_loss
def test_the_order_of_samples_does_not_matter(name):
    tensor, order = values(name, dtype=torch.float64), torch.tensor([3, 0, 5, 1, 4, 2])
    value, other = compute(name, tensor, LABELS), compute(name, tensor[order], LABELS[order])
    torch.testing.assert_close(value, other, atol=1e-12, rtol=0)
    slope = gradient(value, tensor)
    torch.testing.assert_close(slope, gradient(other, tensor), atol=1e-12, rtol=0)
    assert value.shape == () and value != 0 and slope.abs().max() > 1e-4


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.bfloat16) for name in LOSSES if name != "mlm"] + [(name, torch.float16) for name in BOTH_HALVES],
)
def test_long_vectors_at_a_low_temperature_stay_finite_under_autocast(name, dtype):
    tensor = values(name, dtype=dtype, norm=100.0)
    with torch.autocast("cpu", dtype):
        value = compute(name, tensor, LABELS, temperature=0.01)
    assert value.dtype == torch.float32 and value.isfinite()
    exact = compute(name, tensor.detach().double(), LABELS, temperature=0.01)
    assert float(value.detach()) == pytest.approx(float(exact.detach()), rel=1e-4), "computed in half precision"
    assert gradient(value, tensor).isfinite().all()


@every_loss
def test_odd_batches_stay_finite(name):
    """Equal vectors; one of zeros; a batch of one class, and of one text."""
    shape, one_class = (SAMPLES, count(name), SIZE), torch.ones(SAMPLES, dtype=torch.long)
    zeros = torch.cat([torch.zeros(1, *shape[1:]), values(name).detach()[1:]]).requires_grad_()
    for tensor, labels in (
        (torch.ones(shape, requires_grad=True), LABELS),
        (zeros, LABELS),
        (values(name), one_class),
        (values(name, 1), one_class[:1]),
    ):
        value = compute(name, tensor, labels)
        assert value.isfinite() and gradient(value, tensor).isfinite().all()


def most_kept(name: str) -> torch.Tensor:
    mask = torch.ones(SAMPLES, count(name), dtype=torch.bool)
    mask[1], mask[3, 1] = False, False
    return mask


@any_number
def test_without_positives_it_is_exactly_zero_with_a_zero_gradient(name):
    for samples in (SAMPLES, 1):
        tensor = values(name, samples)
        single = tensor[:, :1]
        value = compute(name, single, torch.arange(samples))
        assert float(value.detach()) == 0.0
        assert gradient(value, tensor).tolist() == torch.zeros_like(tensor).tolist()


@masked
def test_masked_vectors_change_nothing(name):
    tensor, mask = values(name, dtype=torch.float64), most_kept(name)
    value = compute(name, tensor, LABELS, mask)
    filled = torch.where(mask[..., None], tensor, torch.nan)
    other = compute(name, filled, LABELS, mask)
    assert float(value.detach()) == float(other.detach()) != float(compute(name, tensor, LABELS).detach())
    slope = gradient(other, filled)
    assert slope[~mask].abs().max() == 0.0
    assert slope[mask].tolist() == gradient(value, tensor)[mask].tolist()


@masked
def test_all_masked_is_zero(name):
    tensor = torch.full((SAMPLES, count(name), SIZE), float("nan"), requires_grad=True)
    value = compute(name, tensor, LABELS, torch.zeros(SAMPLES, count(name), dtype=torch.bool))
    assert float(value.detach()) == 0.0 and gradient(value, tensor).abs().max() == 0.0


@pytest.mark.parametrize("name", [n for n, line in registry.loss_entries().items() if line.facts.positives is not None])
def test_no_value_is_below_the_floor(name):
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        mask = torch.rand(SAMPLES, count(name), generator=generator) < 0.8
        labels = torch.randint(0, 3, (SAMPLES,), generator=generator)
        floor = least(registry.loss_entries()[name].facts.positives, labels, mask)
        value = compute(name, values(name, dtype=torch.float64, seed=seed), labels, mask)
        assert value >= floor - 1e-6, seed  # a floor is in fp32
