"""Compute the scores of a run folder from its stored embeddings; also writes scores per text and a picture.

Needs no model and no GPU. Measures the trained vectors with the head's logits, further vectors, and both after
post-processing; the score name says which: `mean/whiten:256/test.svm_accuracy`.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation, Transfer
from contrastive.data.tokens import open_tokens
from contrastive.errors import UserError
from contrastive.evaluation import metrics, parallel, post
from contrastive.evaluation import transfer as transfers
from contrastive.evaluation.metrics.geometry import all_equal
from contrastive.evaluation.metrics.types import Inputs, Score
from contrastive.evaluation.picture import make_picture, nearest_images
from contrastive.evaluation.prepare import (
    array_name,
    larger_split_name,
    prepare_cell_tokens,
    with_larger_test,
)
from contrastive.grid.identity import EVALUATION_VERSION, evaluation_key
from contrastive.runs import store

Arrays: TypeAlias = Mapping[str, Any]  # an npz file: arrays are read on access
Transform: TypeAlias = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n k"]]


def evaluate_folder(
    folder: Path, evaluation: Evaluation, *, into: Path, threads: int = 1, cell: Cell | None = None
) -> None:
    """Write scores and picture of a run folder into `into`; the results do not depend on `threads`. `cell`: to show
    its images, if its data are images."""
    with (
        parallel.thread_limit(threads),
        np.load(folder / "embeddings.npz") as embeddings,
        np.load(folder / "predictions.npz") as predictions,
    ):
        notes: dict[str, str] = {}
        with error_context(folder.name):
            scores = list(all_scores(embeddings, predictions, evaluation, notes))
        test = stored_split_name("test", evaluation, embeddings)
        near = {} if cell is None else images_near(cell, evaluation, embeddings, test)
        write_arrays(into / "picture.npz", make_picture(embeddings, evaluation, test) | near)
        per_example = {s.name: np.asarray(s.per_example) for s in scores if s.per_example is not None}
        names: dict[str, str] = {split: stored_split_name(split, evaluation, embeddings) for split in evaluation.splits}
        ids = {f"{split}.ids": embeddings[f"{name}.ids"] for split, name in names.items()}
        counted = {split: embeddings[f"{name}.labels"] for split, name in names.items() if name != split}
    write_arrays(into / "examples.npz", per_example | ids)
    described, key = [score.described() for score in scores], evaluation_key(evaluation)
    document = {"version": EVALUATION_VERSION, "key": key, "scores": described}
    classes = {"class_counts": counts_of_classes(folder, counted)} if counted else {}
    store.write_json(into / "scores.json", document | classes | ({"notes": notes} if notes else {}))


def images_near(cell: Cell, evaluation: Evaluation, embeddings: Arrays, test: str) -> dict[str, Any]:
    """Return the nearest neighbours of some test images; nothing for texts, or without test images."""
    if cell.data.images is None or test not in embeddings:
        return {}
    tokens = with_larger_test(open_tokens(prepare_cell_tokens(cell)), evaluation)
    return nearest_images(embeddings[test], embeddings[f"{test}.labels"], tokens.splits[test], cell.data.images)


def stored_split_name(split: str, evaluation: Evaluation, names: Iterable[str]) -> str:
    """Return the name among `names` under which the texts that `evaluation` measures as `split` are stored."""
    if split != "test" or evaluation.test is None:
        return split
    prefix = larger_split_name(evaluation.test, "").removesuffix(".test")
    return next((name for name in names if name.startswith(prefix) and name.endswith(".test")), prefix)


def counts_of_classes(folder: Path, labels: Mapping[str, Integer[np.ndarray, " n"]]) -> dict[str, dict[str, int]]:
    """Count the texts per class for larger test sets; provenance.json has the counts of the cell's own splits."""
    class_counts = store.read_json(folder / "provenance.json")["class_counts"]
    numbers = {split: np.bincount(each, minlength=len(class_counts[split])).tolist() for split, each in labels.items()}
    return {split: dict(zip(class_counts[split], counts, strict=True)) for split, counts in numbers.items()}


def all_scores(
    embeddings: Arrays, predictions: Arrays, evaluation: Evaluation, notes: dict[str, str]
) -> Iterator[Score]:
    """Yield the scores for each kind of vectors and post-processing, the plain trained vectors first.

    `notes` receives undefined scores (row, split and metric) with the reason.
    """
    for split in evaluation.splits:
        if stored_split_name(split, evaluation, embeddings) not in embeddings:
            raise UserError(
                f"there are no {split} texts to evaluate on: set data.{split}, or remove {split} from evaluation.splits"
            )
    for vectors_name in ("", *evaluation.vectors):
        for post_name in ("", *evaluation.post):
            row = "".join(f"{part}/" for part in (vectors_name, post_name) if part)
            left_out: dict[str, str] = {}
            with error_context(row.rstrip("/")):
                transform, logits = fitted_post(post_name, embeddings, vectors_name), predictions if not row else {}
                scores = [
                    *split_scores(embeddings, logits, evaluation, vectors_name, transform, left_out),
                    *transfer_scores(embeddings, evaluation, vectors_name, transform),
                ]
            if not row:
                scores += equal_vectors(embeddings, evaluation, {score.name for score in scores})
            notes |= {f"{row}{name}": reason for name, reason in left_out.items()}
            yield from (replace(score, name=f"{row}{score.name}") for score in scores)


def split_scores(
    embeddings: Arrays,
    predictions: Arrays,
    evaluation: Evaluation,
    vectors_name: str,
    transform: Transform,
    notes: dict[str, str],
) -> Iterator[Score]:
    for split in evaluation.splits:
        with error_context(split):
            stored = stored_split_name(split, evaluation, embeddings)
            vectors, labels = embeddings[array_name(stored, vectors_name)], embeddings[f"{stored}.labels"]
            inputs = Inputs(vectors, labels, predictions.get(f"{stored}.logits"), evaluation.folds)
            inputs.check()
            twice = embeddings.get(f"{stored}.twice") if not vectors_name else None
            if twice is not None:
                twice = np.stack([transform(np.ascontiguousarray(twice[:, side])) for side in range(2)], 1)
            inputs = Inputs(transform(vectors), labels, inputs.logits, evaluation.folds, twice)
            left_out: dict[str, str] = {}
            for score in metrics.measure(evaluation.metrics, inputs, left_out):
                yield replace(score, name=f"{split}.{score.name}")
            notes |= {f"{split}.{name}": reason for name, reason in left_out.items()}


def equal_vectors(embeddings: Arrays, evaluation: Evaluation, measured: Set[str]) -> Iterator[Score]:
    """Yield an alarm for each split whose trained vectors are all the same, unless it has been measured."""
    for split in evaluation.splits:
        vectors = embeddings[array_name(stored_split_name(split, evaluation, embeddings), "")]
        if f"{split}.collapsed" not in measured and all_equal(vectors):
            yield Score(f"{split}.collapsed", 1.0, False, len(vectors), "alarm")


def transfer_scores(embeddings: Arrays, evaluation: Evaluation, vectors_name: str, transform: Transform) -> list[Score]:
    """Score the transfer data: classification, or correlation of cosines with similarity scores."""
    scores: list[Score] = []
    for transfer in evaluation.transfer:
        scores += transfers.score(transfer, transfer_arrays(embeddings, transfer, vectors_name, transform))
    if len(evaluation.transfer) > 1:
        scores.append(transfers.mean(scores))
    return scores


def transfer_arrays(embeddings: Arrays, transfer: Transfer, vectors_name: str, transform: Transform) -> dict[str, Any]:
    """Return the arrays of a transfer data set by their names without prefix: the vectors of one kind, transformed."""
    prefix = f"transfer.{transfer.name}@"
    first = next(name for name in embeddings if name.startswith(prefix))
    prefix += first.removeprefix(prefix).partition(".")[0] + "."  # now with the digest of the content
    arrays = {}
    for name in embeddings:
        part, _, kind = name.removeprefix(prefix).partition("/")
        if not name.startswith(prefix) or kind != (vectors_name if is_vectors(part) else ""):
            continue
        arrays[part] = transform(embeddings[name]) if is_vectors(part) else embeddings[name]
    return arrays


def is_vectors(part: str) -> bool:
    return part in ("train", "test", "train.other", "test.other")


def fitted_post(post_name: str, embeddings: Arrays, vectors_name: str) -> Transform:
    """Return the post-processing, fitted on the training texts; the identity for an empty name."""
    if not post_name:
        return lambda vectors: vectors
    return post.fit_post(post_name, embeddings[array_name("train", vectors_name)])


@contextmanager
def error_context(subject: str) -> Iterator[None]:
    """Prefix a UserError with its subject."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{subject}: {error}") if subject else error from error


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    store.write_atomic(path, content.getvalue())
