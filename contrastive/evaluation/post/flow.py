"""BERT-flow: fit an invertible map (Glow) that turns the training embeddings into a standard normal distribution.

Li et al., "On the Sentence Embeddings from Pre-trained Language Models", 2020; repository bohanli/BERT-flow. The model
is a small Glow of 3 levels with 3 steps each and additive couplings, fitted by maximum likelihood. Halves that leave
the flow early have the prior N(0, I), like the last one, not one that depends on the remaining dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from contrastive.errors import UserError
from contrastive.evaluation.post.whiten import COLLAPSED

if TYPE_CHECKING:
    from contrastive.evaluation.post.glow import Glow

LEVELS, DEPTH, HIDDEN = 3, 3, 128
STEPS = 200  # at most; 18 s for 768 dimensions on one core, for any number of vectors
EPOCHS = 10  # at most; with 40, 600 vectors of 384 dimensions overfit and the held-out likelihood falls
BATCH = 128
RATE = 2e-3  # learning rate of Adam at the first step; decays to 0 along half a cosine
MATRIX_RATE = 0.1  # learning rate of a matrix times its columns: with 768, RATE makes it explode
FIRST = 2048  # texts that initialise the flow
ROWS = 1024  # texts that go through the flow at a time


def flow(train: Float[np.ndarray, "n d"]) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m d"]]:
    """Return a function from vectors to latents. It first centres them and divides them by their overall spread."""
    if train.shape[1] < 2:
        raise UserError(
            "flow needs embeddings of at least 2 dimensions, since it splits them into halves; leave it out"
        )
    mean = train.mean(0, dtype=np.float64)
    centred = train - mean
    spread = math.sqrt(np.square(centred).mean())
    if spread <= COLLAPSED * np.abs(train).max():
        spread = math.inf  # all texts are alike: only rounding is left, so map it to 0
    glow = fit_flow((centred / spread).astype(np.float32))

    def apply(vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        return latents(glow, ((vectors - mean) / spread).astype(np.float32))

    return apply


def fit_flow(train: Float[np.ndarray, "n d"], steps: int | None = None) -> Glow:
    """Fit the flow; `steps` defaults to ten epochs, at most 200 steps."""
    import torch

    from contrastive.evaluation.post.glow import Glow

    steps = min(STEPS, math.ceil(len(train) * EPOCHS / BATCH)) if steps is None else steps
    with one_thread():
        generator = torch.Generator().manual_seed(0)
        vectors = torch.from_numpy(train)
        glow = Glow(vectors.shape[1], levels=LEVELS, depth=DEPTH, hidden=HIDDEN, generator=generator)
        glow.start(vectors[torch.randperm(len(vectors), generator=generator)[:FIRST]])
        optimizer = torch.optim.Adam({"params": [p], "lr": rate(tuple(p.shape))} for p in glow.parameters())
        rates = [group["lr"] for group in optimizer.param_groups]
        for step in range(steps):
            for group, first in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = first * (1 + math.cos(math.pi * step / steps)) / 2
            chosen = torch.randint(len(vectors), (BATCH,), generator=generator)
            loss = -glow.log_likelihood(vectors[chosen]).mean() / vectors.shape[1]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return glow.requires_grad_(False)


def rate(shape: tuple[int, ...]) -> float:
    return RATE if len(shape) == 1 else min(5 * RATE, MATRIX_RATE / shape[1])


def latents(glow: Glow, vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
    import torch

    with one_thread():
        parts = [glow(part).numpy() for part in torch.from_numpy(vectors).split(ROWS)]
    return np.concatenate(parts)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run PyTorch in one thread: sums split over several threads differ in their last bits."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
