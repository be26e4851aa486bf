"""How far each loss is from its oracle: the largest difference over random batches in float64, as a Markdown table.

    python -m benchmarks.oracles [BATCHES]

Shapes, lengths, classes, masks and settings differ from batch to batch, see tests/contrastive/losses/draws.py.
"""

import sys

import torch

from contrastive.losses import LOSSES
from tests.contrastive.losses.draws import difference
from tests.contrastive.losses.oracles import ORACLES


def main(batches: int = 50) -> None:
    print("| loss | oracle | largest value difference | largest gradient difference |\n|---|---|---|---|")
    for name in LOSSES:
        found = torch.tensor([difference(name, seed) for seed in range(batches)], dtype=torch.float64)
        value, gradient = found.amax(0).tolist()
        print(f"| `{name}` | {ORACLES[name][0]} | {value:.1e} | {gradient:.1e} |", flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
