"""Measure the embeddings of a trained cell: reads arrays, writes scores.json and tsne.npz; needs no model or GPU."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from contrastive import metrics, store
from contrastive.errors import UserError
from contrastive.evaluation import Evaluation
from contrastive.identity import evaluation_key
from contrastive.metrics.types import Inputs

VERSION = 1
PERPLEXITY = 30.0  # neighbours a point; at most a third of the others
FEWEST = 4  # texts, for a perplexity of 1
COLLAPSED = 1e-6  # spread over size: what float32 rounds to nothing


def evaluate(folder: Path, evaluation: Evaluation, *, into: Path) -> None:
    """Scores and t-SNE of a run folder, left in another. One thread: sums split over several differ in last bits."""
    with threadpool_limits(1):
        measure(folder, evaluation, into)


def measure(folder: Path, evaluation: Evaluation, into: Path) -> None:
    embeddings, predictions = arrays(folder / "embeddings.npz"), arrays(folder / "predictions.npz")
    scores = []
    for split in evaluation.splits:
        if split not in embeddings:
            raise UserError(
                f"there are no {split} texts to evaluate on: set data.{split}, or evaluation.splits without it"
            )
        logits = predictions.get(f"{split}.logits")
        inputs = Inputs(
            embeddings[split],
            embeddings[f"{split}.labels"],
            logits,
            evaluation.folds,
        )
        try:
            inputs.check()
            found = metrics.measure(evaluation.metrics, inputs)
            scores += [score.described() | {"name": f"{split}.{score.name}"} for score in found]
        except UserError as error:
            raise UserError(f"{split}: {error}") from error
    write_tsne(into, embeddings, evaluation)
    store.write_json(into / "scores.json", {"version": VERSION, "key": evaluation_key(evaluation), "scores": scores})


def arrays(path: Path) -> dict[str, Any]:
    with np.load(path) as stored:
        return dict(stored)


def write_tsne(folder: Path, embeddings: dict[str, Any], evaluation: Evaluation) -> None:
    """Coordinates of the same texts for every cell: those with the smallest ids. None where there are too few."""
    split = "test" if "test" in embeddings else evaluation.splits[0]
    ids, labels = embeddings[f"{split}.ids"], embeddings[f"{split}.labels"]
    chosen = np.sort(np.argsort(ids, kind="stable")[: evaluation.picture_points])
    vectors = embeddings[split][chosen]
    reason = why_not(vectors)
    if reason:
        chosen, coordinates = chosen[:0], np.zeros((0, 2), np.float32)
    else:
        coordinates = tsne(vectors)
    content = io.BytesIO()
    np.savez(content, x=coordinates, labels=labels[chosen], ids=ids[chosen], reason=np.array(reason))
    store.write_atomic(folder / "tsne.npz", content.getvalue())


def why_not(vectors: Float[np.ndarray, "n d"]) -> str:
    """Why these vectors have no picture, or nothing. On a single point scikit-learn's t-SNE dies by a segfault."""
    texts, dimensions = vectors.shape
    if texts < FEWEST or dimensions < 2:
        return f"t-SNE needs {FEWEST} texts and 2 dimensions, and there are {texts} texts of {dimensions}"
    exact = vectors.astype(np.float64)
    if exact.std(0).max() <= COLLAPSED * np.abs(exact).max():
        return f"the embeddings of all {texts} texts are the same: they have collapsed"
    return ""


def tsne(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    from sklearn.manifold import TSNE

    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    scaled = (centred / centred.std(0).max()).astype(np.float32)  # the picture is the same, and no square overflows
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=0, n_jobs=1).fit_transform(scaled)
    return found.astype(np.float32)
