"""Check that a cell really trains: stop one whose term or parameter trains nothing, and note collapsed vectors.

The gradient-path audit finds bugs that accuracy does not reveal: a frozen head, a term without a path to the encoder, a
block without gradient. In the first steps each term alone must give the encoder a gradient, and each trained parameter
must get one; by the end each must have changed; the optimizer must hold no other parameters. A term is checked until it
has given a gradient, since a batch without a positive pair rightly gives none; LoRA's A gets its first one at the
second step, when B is no longer 0.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from contrastive.config import registry
from contrastive.models.tuning import HEADS
from contrastive.training.gather import any_rank
from contrastive.training.sharding import Shared
from contrastive.views.types import VectorGroup

COLLAPSED = 0.1  # vectors count as collapsed below this fraction of the spread of random directions
SHRUNK = 0.1  # and projections below this fraction of their first standard deviation
NARROWED = 0.25  # and vectors that a term compares below this fraction of their first spread: contrast should widen it
COMPARED = "spread.compared"
STEPS_TO_SHOW_GRADIENTS = 10  # optimizer steps in which every term and parameter must have shown a gradient


class GradientPathError(RuntimeError):
    """A term or parameter trains nothing; the message names it."""


class GradientAudit:
    """Check the gradients of one cell's first steps; afterwards the audit costs nothing."""

    def __init__(self, shared: Shared, terms: Iterable[str]):
        """Check the optimizer's parameters. Each of the objective's terms must give the encoder a gradient."""
        trained = {name: p for name, p in shared.model.named_parameters() if p.requires_grad}
        listed = {id(p) for p in shared.listed}
        wrong = [name for name, p in shared.model.named_parameters() if p.requires_grad != (id(p) in listed)]
        if wrong:
            raise GradientPathError(
                f"the parameters in the optimizer are not the trainable parameters of the model: {', '.join(wrong)}"
            )
        if any(registry.loss_entries()[name].facts.supervised for name in terms) and not any(
            name.startswith("head.") for name in trained
        ):
            raise GradientPathError(
                "the loss has a supervised term, but the head is frozen; train the head, or "
                "choose a loss without that term"
            )
        self.shared = shared
        self.encoder = {name: p for name, p in trained.items() if not name.startswith(HEADS)}
        self.silent_terms = set(terms) if self.encoder else set()
        self.silent = list(trained)
        self.unmoved = {name: shared.local_part(p).clone() for name, p in trained.items()}
        self.parameters = trained
        self.steps = 0

    def look_at_terms(
        self, values: dict[str, Tensor], gradients: Callable[[Tensor, list[nn.Parameter]], Sequence[Tensor | None]]
    ) -> dict[str, float]:
        """Return the norm of each term's own gradient by the encoder, or by its vectors, as `gradients` computes it."""
        encoder = list(self.encoder.values())
        norms = {
            name: gradient_norm(gradients(value, encoder)) if value.requires_grad and encoder else 0.0
            for name, value in values.items()
        }
        self.silent_terms -= {name for name, norm in norms.items() if norm > 0}
        return norms

    def saw_gradients(self) -> None:
        """Note which parameters got a gradient. Call before the optimizer's step."""
        gradients = [self.shared.gradient(self.parameters[name]) for name in self.silent]
        reached = any_rank([gradient is not None and bool(gradient.any()) for gradient in gradients])
        self.silent = [name for name, is_reached in zip(self.silent, reached, strict=True) if not is_reached]

    def saw_step(self) -> None:
        """Note which parameters changed, after the optimizer's step; at STEPS_TO_SHOW_GRADIENTS check all gradients."""
        self.steps += 1
        now = {name: self.shared.local_part(self.parameters[name]) for name in self.unmoved}
        moved = any_rank([not torch.equal(now[name], before) for name, before in self.unmoved.items()])
        still = [name for name, has_moved in zip(self.unmoved, moved, strict=True) if not has_moved]
        self.unmoved = {name: self.unmoved[name] for name in still}
        if self.steps == STEPS_TO_SHOW_GRADIENTS:
            self.raise_if_no_gradient()

    def raise_if_no_gradient(self) -> None:
        if self.silent_terms:
            raise GradientPathError(
                f"{_names(self.silent_terms)} gave the encoder no gradient in {self.steps} steps; check that the "
                "loss depends on the embeddings"
            )
        if self.silent:
            raise GradientPathError(
                f"trainable parameters received no gradient in {self.steps} steps: {_names(self.silent)}. Use them "
                "in the loss, or freeze them"
            )

    def raise_if_untrained(self) -> None:
        """Raise GradientPathError if a gradient is missing or a parameter never changed. Call when training ends."""
        self.raise_if_no_gradient()
        if self.unmoved:
            raise GradientPathError(
                f"trainable parameters did not change during training: {_names(self.unmoved)}. "
                "Check the learning rate, or freeze them"
            )


def gradient_norm(gradients: Sequence[Tensor | None]) -> float:
    squares = [gradient.float().pow(2).sum() for gradient in gradients if gradient is not None]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def _names(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


@torch.no_grad()
def geometry(vectors: Float[Tensor, "n d"]) -> dict[str, float]:
    """Compute mean cosine, effective rank and spread of a batch; empty for fewer than two vectors.

    Effective rank: e to the entropy of the normalised singular values of the centred vectors. Spread: the standard
    deviation of the normalised vectors' dimensions, times √d: 1 for random directions, 0 for a single one.
    """
    if len(vectors) < 2:
        return {}
    rows = F.normalize(vectors.double(), dim=-1)
    n = len(rows)
    cosine = (rows.sum(0).square().sum() - n) / (n * (n - 1))
    centred = rows - rows.mean(0)
    shares = torch.linalg.svdvals(centred)
    shares = shares / shares.sum().clamp(min=1e-6)
    entropy = -(shares * shares.clamp(min=1e-12).log()).sum()
    return {"mean_cosine": float(cosine), "effective_rank": float(entropy.exp()), "spread": spread_of(rows)}


def spread_of(rows: Float[Tensor, "n d"]) -> float:
    """Return the spread of normalised vectors (see `geometry`)."""
    return float(rows.std(0, correction=0).mean() * rows.shape[1] ** 0.5)


def watch_projections(losses: nn.ModuleDict) -> dict[str, Tensor]:
    """Return a dictionary that will hold the last output of each loss's projector. What a loss compares can collapse
    while the vectors below its projector do not."""
    seen: dict[str, Tensor] = {}
    for name, loss in losses.items():
        if isinstance(projector := getattr(loss, "projector", None), nn.Module):
            projector.register_forward_hook(
                lambda _m, _i, output, name=name: seen.update({name: output.detach().flatten(0, -2)})
            )
    return seen


def projected_geometry(projections: dict[str, Tensor]) -> dict[str, float]:
    """Return the spread of each loss's projections, and their standard deviation, which losses of distances shrink."""
    whole = {name: rows.double() for name, rows in projections.items() if len(rows) > 1}
    spreads = {f"spread.{name}": spread_of(F.normalize(rows, dim=-1)) for name, rows in whole.items()}
    return spreads | {f"std.{name}": float(rows.std(0).mean()) for name, rows in whole.items()}


def compared_geometry(groups: Sequence[VectorGroup]) -> dict[str, float]:
    """Return the spread of the vectors that the terms compare, the smallest over the groups (layers). Vectors of tokens
    can collapse while those of the sentences do not."""
    whole = [group.vectors[group.mask].detach().double() for group in groups if group.mask.sum() > 1]
    return {COMPARED: min(spread_of(F.normalize(rows, dim=-1)) for rows in whole)} if whole else {}


def least_of(name: str, first: float) -> float:
    """Return the value below which a measure of `geometry` says that vectors have collapsed, from its first value."""
    if name == COMPARED:
        return max(COLLAPSED, NARROWED * first)
    return COLLAPSED if name.startswith("spread") else SHRUNK * first


def collapsed_since(log: Path) -> int | None:
    """Return the step since which vectors, or those that a term compares, have collapsed until the end, or None."""
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if "spread" in row]
    least = {name: least_of(name, first) for row in rows[:1] for name, first in row.items()
             if name.startswith(("spread", "std."))}  # fmt: skip
    since = None
    for row in reversed(rows):
        if all(row.get(name, limit) >= limit for name, limit in least.items()):
            break
        since = int(row["step"])
    return since
