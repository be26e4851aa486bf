"""Average the weights of trained cells that began from the same weights (Wortsman et al., "Model soups", 2022)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from contrastive.runs import store

WEIGHTS = "checkpoint/weights.safetensors"


def mix(folder: Path, members: Sequence[Path]) -> dict[str, Any]:
    """Write the mean weights of trained cells to a folder, and return how it was made, for provenance.json.

    Losses are left out: an evaluation does not read them. The evaluation embeds the texts.
    """
    every = [load_file(member / WEIGHTS) for member in members]
    shared = set.intersection(*(set(weights) for weights in every))
    kept = sorted(name for name in shared if not name.startswith("losses."))
    mean = {
        name: torch.stack([weights[name].double() for weights in every]).mean(0).to(every[0][name].dtype)
        for name in kept
    }
    (folder / WEIGHTS).parent.mkdir()
    save_file(mean, folder / WEIGHTS)
    (folder / "metrics.jsonl").touch()
    of_first = store.read_json(members[0] / "provenance.json")
    copied = ("threads", "processes", "micro_batch", "speed", "trained_parameters", "class_counts")
    return {name: of_first[name] for name in copied} | {"collapsed_since": None}
