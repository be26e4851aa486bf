"""Glow, a normalising flow, on vectors: an invertible network with a cheap exact log-determinant.

Kingma and Dhariwal, 2018. Each level has several steps; a step is an affine map per dimension (actnorm), an invertible
matrix (the 1×1 convolution in Glow) and an additive coupling. After each level half of the dimensions are output and
the rest enters the next level. Couplings preserve volume and all other maps are linear, so the log-determinant is the
same for all inputs.
"""

import math
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

FLAT = 1e-3  # smallest standard deviation that actnorm divides by at its start


class ActNorm(nn.Module):
    """(x + shift) · exp(log_scale), per dimension."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(size))
        self.log_scale = nn.Parameter(torch.zeros(size))

    @torch.no_grad()
    def start(self, vectors: Float[Tensor, "n d"]) -> None:
        """Initialise so that these vectors get mean 0 and standard deviation 1 per dimension."""
        self.shift.copy_(-vectors.mean(0))
        self.log_scale.copy_(-vectors.std(0).clamp(min=FLAT).log())

    def forward(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return (vectors + self.shift) * self.log_scale.exp()

    def log_det(self) -> Float[Tensor, ""]:
        return self.log_scale.sum()


class Mixing(nn.Module):
    """An invertible matrix P · L · (U + diag(s)), initialised as a random rotation; its log-determinant is Σ log|s|."""

    order: Tensor
    sign: Tensor

    def __init__(self, size: int, generator: torch.Generator) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.randn(size, size, generator=generator))[0]
        permutation, lower, upper = torch.linalg.lu(rotation)
        diagonal = upper.diagonal()
        self.register_buffer("order", permutation.argmax(1))
        self.register_buffer("sign", diagonal.sign())
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_diagonal = nn.Parameter(diagonal.abs().log())

    def triangles(self) -> tuple[Float[Tensor, "d d"], Float[Tensor, "d d"]]:
        lower = self.lower.tril(-1) + torch.eye(len(self.order))
        return lower, self.upper.triu(1) + (self.sign * self.log_diagonal.exp()).diag()

    def forward(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        lower, upper = self.triangles()
        return (vectors @ upper.T @ lower.T)[:, self.order]

    def log_det(self) -> Float[Tensor, ""]:
        return self.log_diagonal.sum()


class Coupling(nn.Module):
    """Add the output of a small network on one half of the dimensions to the other half; starts as the identity."""

    def __init__(self, size: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.kept = size // 2
        widths = (self.kept, hidden, hidden, size - self.kept)
        self.weights = nn.ParameterList(
            torch.randn(wide, narrow, generator=generator) / math.sqrt(narrow) for narrow, wide in pairwise(widths)
        )
        self.biases = nn.ParameterList(torch.zeros(wide) for wide in widths[1:])
        nn.init.zeros_(self.weights[-1])

    def added(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        first, second, last = zip(self.weights, self.biases, strict=True)
        hidden = nn.functional.linear(vectors[:, : self.kept], *first).relu()
        return nn.functional.linear(nn.functional.linear(hidden, *second).relu(), *last)

    def forward(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return torch.cat([vectors[:, : self.kept], vectors[:, self.kept :] + self.added(vectors)], 1)

    def log_det(self) -> Float[Tensor, ""]:
        return torch.zeros(())


class Glow(nn.Module):
    """Map vectors to latents of the same size; the output of the first level comes first."""

    def __init__(self, size: int, *, levels: int, depth: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.sizes = [size]  # input size of each level, at least 2: a coupling needs two halves
        while len(self.sizes) < levels and self.sizes[-1] // 2 >= 2:
            self.sizes.append(self.sizes[-1] // 2)
        self.levels: Any = nn.ModuleList(
            nn.ModuleList(
                layer
                for _ in range(depth)
                for layer in (ActNorm(width), Mixing(width, generator), Coupling(width, hidden, generator))
            )
            for width in self.sizes
        )

    @torch.no_grad()
    def start(self, vectors: Float[Tensor, "n d"]) -> None:
        """Initialise each actnorm from these vectors, as transformed by the layers before it."""
        for level, after in zip(self.levels, [*self.sizes[1:], 0], strict=True):
            for layer in level:
                if isinstance(layer, ActNorm):
                    layer.start(vectors)
                vectors = layer(vectors)
            vectors = vectors[:, vectors.shape[1] - after :]

    def forward(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        done = []
        for level, after in zip(self.levels, [*self.sizes[1:], 0], strict=True):
            for layer in level:
                vectors = layer(vectors)
            finished = vectors.shape[1] - after
            done.append(vectors[:, :finished])
            vectors = vectors[:, finished:]
        return torch.cat(done, 1)

    def log_det(self) -> Float[Tensor, ""]:
        return torch.stack([layer.log_det() for level in self.levels for layer in level]).sum()

    def log_likelihood(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return the log-density of each vector if the latents are N(0, I)."""
        latents = self(vectors)
        return self.log_det() - (latents.square().sum(1) + latents.shape[1] * math.log(2 * math.pi)) / 2
