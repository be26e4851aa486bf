"""Checks of a loss: on small batches, against its oracle, and in two processes."""

import inspect
import math
import sys
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from contrastive.config import registry
from contrastive.config.objective import Objective
from contrastive.contract import Checks, demand
from contrastive.contract.processes import equals_one_process, fill_queue, objective_of
from contrastive.losses import LOSSES
from contrastive.losses.similarity import exact
from contrastive.models.model import loss_modules
from contrastive.training.terms import call_signature, loss_arguments
from contrastive.views.types import VectorGroup

SAMPLES, VIEWS, SIZE = 6, 2, 4
GUIDE_SIZE = 7
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])
ORACLE_BATCHES = 20
SCALES = (0.03, 1.0, 30.0)  # of a batch's vectors; within it their lengths differ by some e
TOLERANCE = 1e-8
IN_FLOAT32 = "compute on `exact(views)` (contrastive.losses.similarity), inside `torch.autocast(…, enabled=False)`"
SELECT = "select by it, as `views[mask]` or `torch.where` do; a product with 0 keeps NaN"


def checks_of(name: str) -> Checks:
    """Return the checks that a loss can be given, the first of which the others need."""
    first, keywords = call_signature(LOSSES[name])
    checks = {"it has the shape that its facts say": has_the_shape_of_its_facts}
    if first != "surprise":  # guesses of hidden words are no vectors
        checks = {"it returns one number": returns_one_number} | checks | {
            "it stays in float32 under autocast": stays_in_float32,
            "odd batches stay finite": odd_batches_stay_finite,
            "it has a gradient": has_a_gradient,
            "the order of texts does not matter": order_does_not_matter,
        }  # fmt: skip
    if "mask" in keywords:
        checks |= {"masked vectors change nothing": masked_vectors_change_nothing, "all masked is zero": all_masked}
    if "chunk" in keywords:
        checks["chunks change nothing"] = chunks_change_nothing
    if isinstance(LOSSES[name], type):
        checks["a resumed state continues the same"] = resumes
    if oracle_of(name) is not None:
        checks["it equals its oracle"] = equals_its_oracle
    return {title: partial(check, name) for title, check in checks.items()}


def checks_of_file(name: str, copy: str) -> Checks:
    """Return the checks of a loss in the copy of a user's file."""
    return checks_of(name) | {"two processes equal one": partial(equals_one_process, name, copy)}


def count(name: str) -> int:
    """Return how many vectors a loss takes: what it says, else two."""
    return registry.loss_entries()[name].facts.vectors or VIEWS


def values(
    name: str,
    samples: int = SAMPLES,
    dtype: torch.dtype = torch.float32,
    norm: float = 3.0,
    seed: int = 0,
    vectors: int | None = None,
) -> Tensor:
    """Return vectors of one norm, in the shape of views and of logits alike."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(samples, vectors or count(name), SIZE, generator=generator, dtype=torch.float64)
    return (norm * drawn / drawn.norm(dim=-1, keepdim=True)).to(dtype).requires_grad_()


def compute(
    name: str,
    tensor: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    loss: Any = None,
    quiet: bool = False,
    **settings: Any,
) -> Tensor:
    """Call a loss with what its signature names, as the training does; a new one unless `loss` is given. `quiet`:
    without dropout."""
    objective = objective_of(name, **settings)
    first, keywords = call_signature(LOSSES[name])
    mask = torch.ones(tensor.shape[:2], dtype=torch.bool) if mask is None else mask
    group = VectorGroup(tensor, mask, tensor.detach().flip(-1), tensor[:, 0].roll(1, -1))
    known = {"labels": labels, "grades": labels.double(), "guide": directions(tensor)}
    arguments = loss_arguments(name, keywords, known, None if first == "logits" else group, objective)
    called: Any = loss_of(objective, tensor) if loss is None else loss
    if quiet and isinstance(called, nn.Module):
        called.eval()
    return called(tensor, **arguments)


def directions(tensor: Tensor) -> Tensor:
    """Return a guide's unit vectors of a text, its positive and its negative, which depend on the text alone."""
    text = exact(tensor.detach()).reshape(len(tensor), -1)[:, :SIZE].nan_to_num() + 0.1
    return nn.functional.normalize(torch.stack([text, text.flip(-1), text.roll(1, -1)], 1), dim=-1)


def loss_of(objective: Objective, tensor: Tensor, seed: int = 0) -> Any:
    """Return a loss; one that is a module with the weights of a seed, in the precision of the vectors, and in use."""
    torch.manual_seed(seed)
    module: Any = loss_modules(objective, tensor.shape[-1]).get(objective.loss)
    if module is None:
        return LOSSES[objective.loss]
    module.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    fill_queue(module, tensor.shape[-1])
    return module


def gradient(value: Tensor, tensor: Tensor) -> Tensor:
    demand(value.requires_grad, "its value has no gradient, since something detaches it: compute it from the vectors")
    return torch.autograd.grad(value, tensor, allow_unused=True, materialize_grads=True)[0]


def has_the_shape_of_its_facts(name: str) -> None:
    called: Any = getattr(LOSSES[name], "forward", LOSSES[name])
    first = next(p for p in inspect.signature(called).parameters.values() if p.name != "self")
    shape, said = getattr(first.annotation, "dim_str", ""), registry.loss_entries()[name].facts.vectors
    number = shape.split()[1:2]
    fits = number == [str(said)] if said else not number or not number[0].isdigit()
    demand(fits or not shape, f'its signature says "{shape}", and its facts vectors={said}: make them agree')
    if said is None and first.name != "surprise":  # then any number may arrive
        value = compute(name, values(name, vectors=3), LABELS)
        demand(value.isfinite(), f"for three vectors of a text its value is {float(value.detach())}")


def returns_one_number(name: str) -> None:
    value: Any = compute(name, values(name), LABELS)
    shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
    demand(shape == (), f"it returned {shape}: return one number, for example with .mean()")
    demand(value.isfinite(), f"its value is {float(value.detach())} on a usual batch")


def stays_in_float32(name: str, dtype: torch.dtype = torch.bfloat16) -> None:
    """Also for long vectors at a low temperature."""
    tensor = values(name, dtype=dtype, norm=100.0)
    with torch.autocast("cpu", dtype):
        value = compute(name, tensor, LABELS, temperature=0.01)
    demand(value.dtype == torch.float32, f"under autocast it returned {value.dtype}: {IN_FLOAT32}")
    exact = float(compute(name, tensor.detach().double(), LABELS, temperature=0.01).detach())
    found = float(value.detach())
    close = math.isclose(found, exact, rel_tol=1e-4, abs_tol=1e-12)
    demand(close, f"under autocast long vectors give {found:.6g}, not {exact:.6g}: {IN_FLOAT32}")
    demand(gradient(value, tensor).isfinite().all(), "under autocast the gradient of long vectors is not finite")


def odd_batches_stay_finite(name: str) -> None:
    shape, one_class = (SAMPLES, count(name), SIZE), torch.ones(SAMPLES, dtype=torch.long)
    zeros = torch.cat([torch.zeros(1, *shape[1:]), values(name).detach()[1:]]).requires_grad_()
    batches = {
        "equal vectors": (torch.ones(shape, requires_grad=True), LABELS),
        "a vector of zeros": (zeros, LABELS),
        "texts of one class": (values(name), one_class),
        "one text": (values(name, 1), one_class[:1]),
    }
    for batch, (tensor, labels) in batches.items():
        value = compute(name, tensor, labels)
        demand(value.isfinite(), f"{batch}: its value is {float(value.detach())}; where nothing is left, return 0")
        slope = gradient(value, tensor)
        demand(slope.isfinite().all(), f"{batch}: its gradient has {float(slope.sum())}; add an ε to norms and roots")


def has_a_gradient(name: str) -> None:
    tensor = values(name, dtype=torch.float64)
    loss = loss_of(objective_of(name), tensor)
    compute(name, tensor, LABELS, loss=loss)  # it may begin with nothing to compare, such as an empty queue
    value = compute(name, tensor, LABELS, loss=loss)
    demand(value != 0, "its value is 0 on a usual batch, of vectors of length 3")
    largest = float(gradient(value, tensor).abs().max())
    demand(largest > 1e-8, f"no gradient reaches the vectors (at most {largest:.1e}): does something detach them?")


def order_does_not_matter(name: str) -> None:
    tensor, order = values(name, dtype=torch.float64), torch.tensor([3, 0, 5, 1, 4, 2])
    value, other = compute(name, tensor, LABELS, quiet=True), compute(name, tensor[order], LABELS[order], quiet=True)
    numbers = f"{float(value.detach()):.9g} became {float(other.detach()):.9g}"
    advice = "treat all texts of a batch alike"
    demand(torch.isclose(value, other, atol=1e-12, rtol=1e-12), f"with the texts in another order {numbers}: {advice}")
    slopes = gradient(value, tensor), gradient(other, tensor)
    demand(torch.allclose(*slopes, atol=1e-12, rtol=1e-12), f"the gradient depends on the order of texts: {advice}")


def masked_vectors_change_nothing(name: str) -> None:
    tensor, mask = values(name, dtype=torch.float64), torch.ones(SAMPLES, count(name), dtype=torch.bool)
    mask[1], mask[3, -1] = False, False
    filled = torch.where(mask[..., None], tensor, torch.nan)
    value, other = compute(name, tensor, LABELS, mask), compute(name, filled, LABELS, mask)
    numbers = f"{float(value.detach()):.9g} became {float(other.detach()):.9g}"
    demand(torch.equal(value, other), f"with NaN in masked vectors {numbers}: {SELECT}")
    demand(value != compute(name, tensor, LABELS), f"the mask has no effect: {SELECT}")
    slope = gradient(other, filled)
    demand((slope[~mask] == 0).all(), f"masked vectors have a gradient: {SELECT}")
    demand(torch.equal(slope[mask], gradient(value, tensor)[mask]), f"masked vectors change the gradient: {SELECT}")


def all_masked(name: str) -> None:
    tensor = torch.full((SAMPLES, count(name), SIZE), torch.nan, requires_grad=True)
    value = compute(name, tensor, LABELS, torch.zeros(SAMPLES, count(name), dtype=torch.bool))
    demand(value == 0, f"where all vectors are masked its value is {float(value.detach())}: divide by max(1, count)")
    demand((gradient(value, tensor) == 0).all(), "where all vectors are masked it has a gradient")


def chunks_change_nothing(name: str) -> None:
    tensor = values(name, dtype=torch.float64)
    whole, parts = compute(name, tensor, LABELS), compute(name, tensor, LABELS, chunk=3)
    numbers = f"{float(parts.detach()):.9g}, not {float(whole.detach()):.9g}"
    demand(torch.isclose(whole, parts, atol=1e-10, rtol=1e-10), f"with chunk 3 its value is {numbers}")
    slopes = gradient(whole, tensor), gradient(parts, tensor)
    demand(torch.allclose(*slopes, atol=1e-10, rtol=1e-10), "with chunk 3 its gradient is another")


def resumes(name: str) -> None:
    """The state of an instance that has trained makes a new instance continue with the same bits."""
    objective, tensors = objective_of(name), [values(name, seed=seed) for seed in range(4)]
    trained = loss_of(objective, tensors[0])
    for tensor in tensors[:2]:
        step(name, trained, tensor)
    resumed = loss_of(objective, tensors[0], seed=1)
    resumed.load_state_dict(trained.state_dict())
    for tensor in tensors[2:]:
        before, after = step(name, trained, tensor), step(name, resumed, tensor)
        advice = "keep what changes in `register_buffer` or parameters"
        demand(torch.equal(before, after), f"after resuming its value is {after:.9g}, not {before:.9g}: {advice}")


def step(name: str, module: nn.Module, tensor: Tensor) -> Tensor:
    """Train a loss for a step; return its value."""
    torch.manual_seed(0)
    value = compute(name, tensor, LABELS, loss=module)
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    slopes = torch.autograd.grad(value, [tensor, *weights], allow_unused=True, materialize_grads=True)
    with torch.no_grad():
        for weight, slope in zip(weights, slopes[1:], strict=True):
            weight.sub_(0.1 * slope)
    if hasattr(module, "after_step"):
        after_step: Any = module.after_step
        after_step(0.5)
    return value.detach()


def oracle_of(name: str) -> Any:
    """Return the function NAME_oracle that stands beside the loss, or None."""
    entry = registry.loss_entries()[name]
    return getattr(sys.modules[entry.module], f"{entry.function}_oracle", None)


def equals_its_oracle(name: str) -> None:
    for seed in range(ORACLE_BATCHES):
        torch.manual_seed(seed)
        tensor = random_vectors(name, SCALES[seed % 3])
        loss = loss_of(objective_of(name), tensor, seed)
        given = random_arguments(tensor) | {"module": loss}
        found = difference(loss, oracle_of(name), tensor, given)
        apart = f"by {found.value:.1e}, and its gradient by {found.gradient:.1e}; {TOLERANCE} is allowed"
        demand(max(found) <= TOLERANCE, f"on random batch {seed} its value differs from its oracle's {apart}")


class Difference(NamedTuple):
    value: float
    gradient: float  # by the vectors, and by the loss's own weights


def difference(loss: Any, oracle: Any, tensor: Tensor, given: dict[str, Any]) -> Difference:
    """Compare a loss with its oracle on one batch."""
    wanted = call_signature(loss)[1]
    if "mask" not in wanted:
        given["mask"] = torch.ones_like(given["mask"])
    expected = call(oracle, tensor, given)  # before the loss, which may change what it keeps
    if given["mask"].all():  # the oracle has a mask always, the loss none where nothing is masked
        del given["mask"]
    value = call(loss, tensor, given)
    weights = loss.parameters() if isinstance(loss, nn.Module) else ()
    inputs = [tensor, *(given[name] for name in wanted if name in given), *weights]
    by = [it for it in inputs if isinstance(it, Tensor) and it.requires_grad]
    ours, theirs = (torch.autograd.grad(it, by, allow_unused=True, materialize_grads=True) for it in (value, expected))
    slopes = [relative(*both) for both in zip(ours, theirs, strict=True)]
    return Difference(relative(value.detach(), expected.detach()), float(torch.tensor(slopes).amax()))  # keeps NaN


def relative(value: Tensor, expected: Tensor) -> float:
    """Return the largest difference; of numbers beyond 1, as a share of the largest."""
    return float((value - expected).abs().max() / expected.abs().max().clamp(min=1))


def call(function: Any, tensor: Tensor, given: dict[str, Any]) -> Tensor:
    return function(tensor, **{name: given[name] for name in call_signature(function)[1] if name in given})


def random_vectors(name: str, scale: float) -> Tensor:
    """Return vectors in float64 in the shape that the loss reads; texts, vectors and dimensions are random, too."""
    line = registry.loss_entries()[name]
    middle = str(line.facts.vectors or ("p" if line.input_name == "logits" else "v"))
    shape = {"logits": ["n", middle, "c"], "surprise": ["n"]}.get(line.input_name, ["n", middle, "d"])
    labelled = "labels" in call_signature(LOSSES[name])[1]
    size = {"n": torch.randint(3, 9, ()), "v": torch.randint(1 if labelled else 2, 5, ()),
            "p": torch.randint(1, 3, ()), "d": torch.randint(2, 9, ()), "c": torch.randint(2, 6, ())}  # fmt: skip
    drawn = torch.randn([int(axis) if axis.isdigit() else int(size[axis]) for axis in shape], dtype=torch.float64)
    lengths = torch.randn(len(drawn), *[1] * (drawn.ndim - 1), dtype=torch.float64).exp()
    return (scale * drawn * lengths).requires_grad_()


def random_arguments(tensor: Tensor) -> dict[str, Any]:
    """Return a mask of all or most vectors, labels of one to four classes (no more than there are logits), and what
    views may add. Two texts are whole, and of one class: the contract has the batch without any positive."""
    kept = torch.rand(tensor.shape[:2]) < (0.7 if torch.rand(()) < 0.6 else 1.0)
    classes = min(int(torch.randint(1, 5, ())), tensor.shape[-1])
    return {
        "mask": kept.index_fill(0, torch.arange(2), True),
        "labels": torch.randint(0, classes, (len(tensor),)).index_fill(0, torch.arange(2), 0),
        "grades": torch.randint(0, 4, (len(tensor),)).double(),
        "guide": nn.functional.normalize(torch.randn(len(tensor), 3, GUIDE_SIZE, dtype=torch.float64), dim=-1),
        "targets": torch.randn_like(tensor),
        "negatives": torch.randn(len(tensor), tensor.shape[-1], dtype=torch.float64, requires_grad=True),
        "hidden": torch.randint(1, 9, (len(tensor),)),
    }
