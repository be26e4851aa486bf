"""A batch larger than memory: encode it in parts without a graph, then each part again with the gradient it was given.

Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021. The loss sees every text of
the batch at once, as negatives need, while the graph of one part exists at a time. Random state is replayed, so that
the second pass of a part has the dropout of the first one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.models.frozen import random_state, set_random_state
from contrastive.views.batches import Batch
from contrastive.views.types import Guesses, Output, VectorGroup

Gradients = Sequence[Tensor | None]


@dataclass
class Direct:
    """One pass over the whole batch, with its graph."""

    output: Output

    def gradients(self, value: Tensor, parameters: list[nn.Parameter]) -> Gradients:
        """Of one term, leaving `.grad` and the graph as they are."""
        return torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)

    def finish(self) -> None:
        """After `backward` nothing is left to do."""


@dataclass
class Replayed:
    """Passes over parts of the batch; `output` is made of leaves, whose gradient is carried on by `finish`."""

    model: Callable[[Batch], Output]
    parts: list[Batch]
    states: list[list[Tensor]] = field(init=False)
    output: Output = field(init=False)

    def __post_init__(self) -> None:
        outputs, self.states = [], []
        with torch.no_grad():
            for part in self.parts:
                self.states.append(random_state())
                outputs.append(self.model(part))
        self.output = join_outputs(outputs)
        for leaf in output_tensors(self.output):
            leaf.requires_grad_()

    def gradients(self, value: Tensor, parameters: list[nn.Parameter]) -> Gradients:
        leaves = output_tensors(self.output)
        given = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
        sums: list[Tensor | None] = [None] * len(parameters)
        for reached, gradient in self._passes(given):
            of_part = torch.autograd.grad(reached, parameters, gradient, allow_unused=True)
            sums = [
                new if old is None else old if new is None else old + new
                for old, new in zip(sums, of_part, strict=True)
            ]
        return sums

    def finish(self) -> None:
        for reached, gradient in self._passes([leaf.grad for leaf in output_tensors(self.output)]):
            torch.autograd.backward(reached, gradient)

    def _passes(self, given: Gradients) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        """Of each part again: the tensors that a gradient reached, and that gradient."""
        begin = 0
        for part, state in zip(self.parts, self.states, strict=True):
            with replay_random_state(state):
                made = output_tensors(self.model(part))
            rows = slice(begin, begin + len(part))
            begin += len(part)
            pairs = [
                (tensor, gradient[(rows, *(slice(size) for size in tensor.shape[1:]))])
                for tensor, gradient in zip(made, given, strict=True)
                if gradient is not None and tensor.requires_grad
            ]
            if pairs:
                yield [tensor for tensor, _ in pairs], [gradient for _, gradient in pairs]


def encode_in_parts(model: Callable[[Batch], Output], batch: Batch, at_a_time: int | None) -> Direct | Replayed:
    """The output of a batch, whole or `at_a_time` texts after one another."""
    if at_a_time is None or at_a_time >= len(batch):
        return Direct(model(batch))
    return Replayed(model, [batch[begin : begin + at_a_time] for begin in range(0, len(batch), at_a_time)])


def join_outputs(outputs: list[Output]) -> Output:
    """One output of those of the parts; where a part has fewer vectors a text, the missing ones are masked."""
    groups = []
    for parts in zip(*(output.groups for output in outputs), strict=True):
        most = max(group.mask.shape[1] for group in parts)
        padded = [_padded(group, most) for group in parts]
        groups.append(
            VectorGroup(
                torch.cat([group.vectors for group in padded]),
                torch.cat([group.mask for group in padded]),
                concatenate_present([group.targets for group in padded]),
                concatenate_present([group.negatives for group in padded]),
            )
        )
    guesses = [output.guesses for output in outputs if output.guesses is not None]
    return Output(
        groups,
        torch.cat([output.sentences for output in outputs]),
        concatenate_present([output.logits for output in outputs]),
        Guesses(torch.cat([g.surprise for g in guesses]), torch.cat([g.hidden for g in guesses])) if guesses else None,
    )


def concatenate_present(parts: Sequence[Tensor | None]) -> Tensor | None:
    """What every part has, or none of them."""
    there = [part for part in parts if part is not None]
    return torch.cat(there) if there else None


def _padded(group: VectorGroup, count: int) -> VectorGroup:
    more = count - group.mask.shape[1]
    targets = None if group.targets is None else F.pad(group.targets, (0, 0, 0, more))
    return VectorGroup(F.pad(group.vectors, (0, 0, 0, more)), F.pad(group.mask, (0, more)), targets, group.negatives)


def output_tensors(output: Output) -> list[Tensor]:
    """What a loss may take a gradient of, in one order."""
    vectors = [tensor for group in output.groups for tensor in (group.vectors, group.negatives)]
    surprise = None if output.guesses is None else output.guesses.surprise
    return [tensor for tensor in (*vectors, output.sentences, output.logits, surprise) if tensor is not None]


@contextmanager
def replay_random_state(state: list[Tensor]) -> Iterator[None]:
    """Draw what was drawn from `state` on, and go on afterwards as if nothing had been drawn."""
    now = random_state()
    set_random_state(state)
    try:
        yield
    finally:
        set_random_state(now)
