"""The gradient-path audit: what the configuration says is trained is trained, or the cell stops.

Bugs that no accuracy shows: a head left frozen, a term without a path to the encoder, a block that gets no gradient.
At the first steps each term alone must give the encoder a gradient, each trained parameter must get one and must move,
and nothing else may be in the optimizer. A term is looked at until it has shown a gradient, since a batch without a
positive pair rightly gives none; LoRA's A gets its first one at the second step, when B is no longer 0.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from contrastive.config import registry
from contrastive.models.tuning import HEADS
from contrastive.training.gather import any_rank
from contrastive.training.sharding import Shared

PATIENCE = 10  # optimizer steps in which every term and parameter must have shown a gradient


class GradientPathError(RuntimeError):
    """A term or parameter that trains nothing, by name."""


class GradientAudit:
    """Watches the first steps of one cell; afterwards it costs nothing."""

    def __init__(self, shared: Shared, terms: Iterable[str], weights: dict[str, float]):
        trained = {name: p for name, p in shared.model.named_parameters() if p.requires_grad}
        listed = {id(p) for p in shared.listed}
        strangers = [n for n, p in shared.model.named_parameters() if not p.requires_grad and id(p) in listed]
        forgotten = [name for name, p in trained.items() if id(p) not in listed]
        if strangers or forgotten:
            raise GradientPathError(f"optimizer and model disagree on what trains: {', '.join(strangers + forgotten)}")
        if any(registry.loss_entries()[name].facts.supervised for name in weights) and not any(
            name.startswith("head.") for name in trained
        ):
            raise GradientPathError("the objective has a supervised term, and the head is frozen")
        self.shared = shared
        self.encoder = {name: p for name, p in trained.items() if not name.startswith(HEADS)}
        self.silent_terms = {name for name in terms if self.encoder}
        self.silent = list(trained)
        self.resting = {name: shared.held(p).clone() for name, p in trained.items()}
        self.parameters = trained
        self.steps = 0

    def look_at_terms(
        self, values: dict[str, Tensor], gradients: Callable[[Tensor, list[nn.Parameter]], Sequence[Tensor | None]]
    ) -> dict[str, float]:
        """Norm of the gradient that each term alone gives the encoder, or its vectors; `gradients` finds it."""
        encoder = list(self.encoder.values())
        norms = {
            name: gradient_norm(gradients(value, encoder)) if value.requires_grad and encoder else 0.0
            for name, value in values.items()
        }
        self.silent_terms -= {name for name, norm in norms.items() if norm > 0}
        return norms

    def saw_gradients(self) -> None:
        """Call before the optimizer's step."""
        gradients = [self.shared.gradient(self.parameters[name]) for name in self.silent]
        heard = any_rank([gradient is not None and bool(gradient.any()) for gradient in gradients])
        self.silent = [name for name, is_heard in zip(self.silent, heard, strict=True) if not is_heard]

    def saw_step(self) -> None:
        """Call after the optimizer's step; raises once patience is over."""
        self.steps += 1
        now = {name: self.shared.held(self.parameters[name]) for name in self.resting}
        moved = any_rank([not torch.equal(now[name], before) for name, before in self.resting.items()])
        still = [name for name, has_moved in zip(self.resting, moved, strict=True) if not has_moved]
        self.resting = {name: self.resting[name] for name in still}
        if self.steps == PATIENCE:
            self.verdict_on_gradients()

    def verdict_on_gradients(self) -> None:
        if self.silent_terms:
            raise GradientPathError(
                f"{_names(self.silent_terms)} gave the encoder no gradient in {self.steps} steps: it trains nothing"
            )
        if self.silent:
            raise GradientPathError(
                f"no gradient in {self.steps} steps, though it is said to train: {_names(self.silent)}"
            )

    def verdict(self) -> None:
        """Call at the end of training."""
        self.verdict_on_gradients()
        if self.resting:
            raise GradientPathError(f"never moved, though it is said to train: {_names(self.resting)}")


def gradient_norm(gradients: Sequence[Tensor | None]) -> float:
    squares = [gradient.float().pow(2).sum() for gradient in gradients if gradient is not None]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def _names(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
