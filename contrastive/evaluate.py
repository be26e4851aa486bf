"""Measure the embeddings of a trained cell: reads arrays, writes scores.json and tsne.npz; needs no model and no GPU."""

import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from contrastive import store
from contrastive.config import Evaluation
from contrastive.errors import UserError
from contrastive.identity import evaluation_key
from contrastive.metrics import METRICS
from contrastive.metrics.types import Inputs

VERSION = 1
PERPLEXITY = 30.0


def evaluate(folder: Path, evaluation: Evaluation) -> None:
    embeddings, predictions = arrays(folder / "embeddings.npz"), arrays(folder / "predictions.npz")
    scores = []
    for split in evaluation.splits:
        if split not in embeddings:
            raise UserError(f"there are no {split} texts to evaluate on: set data.{split}, or evaluation.splits without it")
        logits = predictions.get(f"{split}.logits")
        inputs = Inputs(
            embeddings[split],
            embeddings[f"{split}.labels"],
            None if logits is None else logits.argmax(1),
            evaluation.folds,
        )
        inputs.check()
        for name in evaluation.metrics:
            scores += [asdict(score) | {"name": f"{split}.{score.name}"} for score in METRICS[name](inputs)]
    write_tsne(folder, embeddings, evaluation)
    store.write_json(
        folder / "scores.json", {"version": VERSION, "key": evaluation_key(evaluation), "scores": scores}
    )


def arrays(path: Path) -> dict[str, Any]:
    with np.load(path) as stored:
        return dict(stored)


def write_tsne(folder: Path, embeddings: dict[str, Any], evaluation: Evaluation) -> None:
    """Coordinates of the same texts for every cell: those with the smallest content ids."""
    split = "test" if "test" in embeddings else evaluation.splits[0]
    ids, labels = embeddings[f"{split}.ids"], embeddings[f"{split}.labels"]
    chosen = np.sort(np.argsort(ids, kind="stable")[: evaluation.tsne_points])
    content = io.BytesIO()
    np.savez(content, x=tsne(embeddings[split][chosen]), labels=labels[chosen], ids=ids[chosen])
    store.write_atomic(folder / "tsne.npz", content.getvalue())


def tsne(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    found = TSNE(perplexity=max(1.0, perplexity), init="pca", random_state=0, n_jobs=1).fit_transform(vectors)
    return found.astype(np.float32)
