"""GradCache: train on a batch larger than memory by encoding it in parts, then each part again for its gradient.

Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021. The loss sees every text of
the batch at once, as negatives require, while the graph of only one part exists at a time. The random state is replayed
so that the second pass of a part has the same dropout as the first.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.views.batches import Batch
from contrastive.views.types import Guesses, Output, VectorGroup

GradientList = Sequence[Tensor | None]


@dataclass
class Direct:
    """One pass over the whole batch, with its graph."""

    output: Output

    def gradients(self, value: Tensor, parameters: list[nn.Parameter]) -> GradientList:
        """Compute the gradient of one term, leaving `.grad` and the graph as they are."""
        return torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)

    def finish(self) -> None:
        """Do nothing: `backward` has reached the parameters already."""


@dataclass
class Replayed:
    """Passes over parts of the batch. `output` consists of leaves; `finish` passes their gradients on."""

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

    def gradients(self, value: Tensor, parameters: list[nn.Parameter]) -> GradientList:
        leaves = output_tensors(self.output)
        leaf_gradients = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
        sums: list[Tensor | None] = [None] * len(parameters)
        for tensors, gradient in self._passes(leaf_gradients):
            part_gradients = torch.autograd.grad(tensors, parameters, gradient, allow_unused=True)
            sums = [
                part if total is None else total if part is None else total + part
                for total, part in zip(sums, part_gradients, strict=True)
            ]
        return sums

    def finish(self) -> None:
        for tensors, gradient in self._passes([leaf.grad for leaf in output_tensors(self.output)]):
            torch.autograd.backward(tensors, gradient)

    def _passes(self, leaf_gradients: GradientList) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        """Encode each part again; yield its tensors that receive a gradient, and those gradients."""
        begin = 0
        for part, state in zip(self.parts, self.states, strict=True):
            with replay_random_state(state):
                encoded = output_tensors(self.model(part))
            rows = slice(begin, begin + len(part))
            begin += len(part)
            # a part may be padded less than the whole batch: cut the gradient to its shape
            pairs = [
                (tensor, gradient[(rows, *(slice(size) for size in tensor.shape[1:]))])
                for tensor, gradient in zip(encoded, leaf_gradients, strict=True)
                if gradient is not None and tensor.requires_grad
            ]
            if pairs:
                yield [tensor for tensor, _ in pairs], [gradient for _, gradient in pairs]


def encode_in_parts(model: Callable[[Batch], Output], batch: Batch, part_size: int | None) -> Direct | Replayed:
    """Encode a batch as a whole, or `part_size` texts at a time."""
    if part_size is None or part_size >= len(batch):
        return Direct(model(batch))
    return Replayed(model, [batch[begin : begin + part_size] for begin in range(0, len(batch), part_size)])


def join_outputs(outputs: list[Output]) -> Output:
    """Concatenate the outputs of the parts; pad and mask where a part has fewer vectors per text."""
    groups = []
    for parts in zip(*(output.groups for output in outputs), strict=True):
        width = max(group.mask.shape[1] for group in parts)
        padded = [padded_group(group, width) for group in parts]
        vectors, mask = torch.cat([group.vectors for group in padded]), torch.cat([group.mask for group in padded])
        targets = concatenate_present([group.targets for group in padded])
        negatives = concatenate_present([group.negatives for group in padded])
        groups.append(VectorGroup(vectors, mask, targets, negatives))
    guesses = [output.guesses for output in outputs if output.guesses is not None]
    return Output(
        groups,
        torch.cat([output.sentences for output in outputs]),
        concatenate_present([output.logits for output in outputs]),
        Guesses(torch.cat([g.surprise for g in guesses]), torch.cat([g.hidden for g in guesses])) if guesses else None,
    )


def concatenate_present(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Concatenate the tensors that are not None; return None if there are none."""
    present = [part for part in parts if part is not None]
    return torch.cat(present) if present else None


def padded_group(group: VectorGroup, count: int) -> VectorGroup:
    """Return the group with `count` vectors per text; those added are masked."""
    extra = count - group.mask.shape[1]
    targets = None if group.targets is None else F.pad(group.targets, (0, 0, 0, extra))
    return VectorGroup(F.pad(group.vectors, (0, 0, 0, extra)), F.pad(group.mask, (0, extra)), targets, group.negatives)


def output_tensors(output: Output) -> list[Tensor]:
    """List the tensors that a loss may differentiate by, in a fixed order."""
    vectors = [tensor for group in output.groups for tensor in (group.vectors, group.negatives)]
    surprise = None if output.guesses is None else output.guesses.surprise
    return [tensor for tensor in (*vectors, output.sentences, output.logits, surprise) if tensor is not None]


@contextmanager
def replay_random_state(state: list[Tensor]) -> Iterator[None]:
    """Draw random numbers from `state` inside the block, and restore the previous state afterwards."""
    previous = random_state()
    set_random_state(state)
    try:
        yield
    finally:
        set_random_state(previous)


def random_state() -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [])]


def set_random_state(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state_all(state[1:])
