"""Train LoRA adapters of several cells as one product over their common frozen encoder, to see what it gains.

It is measured to decide; cells do not train this way. `python -m benchmarks.gpu adapters packing` shows it beside
processes that share the GPU.
"""

import time
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from benchmarks.gpu_speed import device, synchronize
from flows.gpu_check import MINILM, TINY, Row, Sizes

RANK, SCALE = 8, 2.0


class Adapted(nn.Module):
    """A frozen linear map with an adapter for each of several cells, whose texts stand cell after cell."""

    def __init__(self, linear: nn.Linear, cells: range) -> None:
        super().__init__()
        self.linear, self.cells = linear, len(cells)
        self.down = nn.Parameter(torch.stack([drawn(linear.in_features, RANK, cell) for cell in cells]))
        self.up = nn.Parameter(torch.zeros(len(cells), RANK, linear.out_features))

    def forward(self, states: Tensor) -> Tensor:
        own = states.reshape(self.cells, -1, states.shape[-1])
        return self.linear(states) + SCALE * (own @ self.down @ self.up).reshape(*states.shape[:-1], -1)


class Cells(nn.Module):
    """A frozen random BERT with adapters and a head for each of several cells."""

    def __init__(self, cells: range, shape: Row) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=shape["vocabulary"], num_hidden_layers=shape["layers"], hidden_size=shape["hidden"],
            num_attention_heads=shape["heads"], intermediate_size=4 * shape["hidden"],
        )  # fmt: skip
        self.cells, self.encoder = len(cells), BertModel(config, add_pooling_layer=False).requires_grad_(False)
        for block in self.encoder.encoder.layer:
            attention = block.attention.self
            attention.query, attention.value = Adapted(attention.query, cells), Adapted(attention.value, cells)
        self.heads = nn.Parameter(torch.stack([drawn(shape["hidden"], 2, cell) for cell in cells]))

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        """Return each cell's loss."""
        states = self.encoder(input_ids=ids).last_hidden_state[:, 0]
        logits = (states.reshape(self.cells, -1, states.shape[-1]) @ self.heads).float()
        return F.cross_entropy(logits.flatten(0, 1), labels, reduction="none").view(self.cells, -1).mean(1)


def drawn(rows: int, columns: int, seed: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) / rows**0.5


def trained(model: Cells, batches: list[tuple[Tensor, Tensor]]) -> Iterator[Tensor]:
    """Train all cells, each with clipping and AdamW of its own; yield their losses at each step."""
    own = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(own, lr=1e-3, fused=torch.cuda.is_available())
    for ids, labels in batches:
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.is_cuda):
            losses = model(ids, labels)
        losses.sum().backward()
        squares = sum(gradient(parameter).flatten(1).square().sum(1) for parameter in own)
        shrink = (1 / torch.as_tensor(squares).sqrt()).clamp(max=1)
        for parameter in own:
            gradient(parameter).mul_(shrink[:, None, None])
        optimizer.step()
        optimizer.zero_grad()
        yield losses.detach()


def gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def batches_of(cells: range, steps: int, texts: int, tokens: int, vocabulary: int) -> list[tuple[Tensor, Tensor]]:
    """Draw each cell's texts by its own seed, and put those of one step cell after cell."""
    generators = [torch.Generator().manual_seed(cell) for cell in cells]
    each = []
    for _ in range(steps):
        ids = torch.cat([torch.randint(5, vocabulary, (texts, tokens), generator=of) for of in generators])
        labels = torch.cat([torch.randint(0, 2, (texts,), generator=of) for of in generators])
        each.append((ids.to(device()), labels.to(device())))
    return each


def seconds_a_step(cells: range, sizes: Sizes) -> float:
    shape = TINY if sizes.quick else MINILM
    model = Cells(cells, shape).to(device())
    warm, steps = sizes.of(10, 2), sizes.of(50, 3)
    training = trained(model, batches_of(cells, warm + steps, sizes.of(32, 8), 40, shape["vocabulary"]))
    for _ in range(warm):
        next(training)
    synchronize()
    began = time.perf_counter()
    for _ in training:
        pass
    synchronize()
    return (time.perf_counter() - began) / steps
