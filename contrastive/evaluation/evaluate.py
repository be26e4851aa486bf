"""Measure the embeddings of a trained cell: reads arrays, writes scores, what each text adds to them, and a picture.

Needs no model and no GPU. What is measured are the vectors that trained, with what the head says of them; and, each a
row of its own, further vectors, and what post-processing makes of either: `mean/whiten:256/test.svm_accuracy`.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.evaluation import Evaluation, Transfer
from contrastive.errors import UserError
from contrastive.evaluation import metrics, parallel, post
from contrastive.evaluation import transfer as transfers
from contrastive.evaluation.metrics.types import Inputs, Score
from contrastive.evaluation.picture import make_picture
from contrastive.evaluation.split_names import stored_split_name
from contrastive.grid.identity import EVALUATION_VERSION, evaluation_key
from contrastive.runs import store

Arrays: TypeAlias = Mapping[str, Any]  # read from their file when they are asked for
Change: TypeAlias = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n k"]]


def evaluate_folder(folder: Path, evaluation: Evaluation, *, into: Path, threads: int = 1) -> None:
    """Scores and picture of a run folder, left in another; the number of threads changes no bit of them."""
    with (
        parallel.thread_limit(threads),
        np.load(folder / "embeddings.npz") as embeddings,
        np.load(folder / "predictions.npz") as predictions,
    ):
        notes: dict[str, str] = {}
        with error_context(folder.name):
            scores = dict(all_scores(embeddings, predictions, evaluation, notes))
        write_arrays(into / "picture.npz", make_picture(embeddings, evaluation))
        each = {name: np.asarray(score.each) for name, score in scores.items() if score.each is not None}
        held: dict[str, str] = {split: stored_split_name(split, evaluation, embeddings) for split in evaluation.splits}
        ids = {f"{split}.ids": embeddings[f"{name}.ids"] for split, name in held.items()}
        counted = {split: embeddings[f"{name}.labels"] for split, name in held.items() if name != split}
    write_arrays(into / "examples.npz", each | ids)
    named = [score.described() | {"name": name} for name, score in scores.items()]
    key = evaluation_key(evaluation)
    document = {"version": EVALUATION_VERSION, "key": key, "scores": named}
    classes = {"class_counts": counts_of_classes(folder, counted)} if counted else {}
    store.write_json(into / "scores.json", document | classes | ({"notes": notes} if notes else {}))


def counts_of_classes(folder: Path, labels: Mapping[str, Integer[np.ndarray, " n"]]) -> dict[str, dict[str, int]]:
    """How many of the texts that are measured each class has, where these are not the cell's own that provenance.json
    counts."""
    own = store.read_json(folder / "provenance.json")["class_counts"]
    numbers = {split: np.bincount(each, minlength=len(own[split])).tolist() for split, each in labels.items()}
    return {split: dict(zip(own[split], counts, strict=True)) for split, counts in numbers.items()}


def all_scores(
    embeddings: Arrays, predictions: Arrays, evaluation: Evaluation, notes: dict[str, str]
) -> Iterator[tuple[str, Score]]:
    """Name and score, row by row: first of the vectors that trained as they are. `notes` get what was left out: the
    row, split and metric, and why."""
    for split in evaluation.splits:
        if stored_split_name(split, evaluation, embeddings) not in embeddings:
            raise UserError(
                f"there are no {split} texts to evaluate on: set data.{split}, or evaluation.splits without it"
            )
    for other in ("", *evaluation.vectors):
        for how in ("", *evaluation.post):
            row = "".join(f"{part}/" for part in (other, how) if part)
            left_out: dict[str, str] = {}
            with error_context(row.rstrip("/")):
                change = fitted_post(how, embeddings, other)
                named_scores = [
                    *split_scores(embeddings, predictions if not row else {}, evaluation, other, change, left_out),
                    *transfer_scores(embeddings, evaluation, other, change),
                ]
            notes |= {f"{row}{name}": why for name, why in left_out.items()}
            yield from ((f"{row}{name}", score) for name, score in named_scores)


def split_scores(
    embeddings: Arrays,
    predictions: Arrays,
    evaluation: Evaluation,
    other: str,
    change: Change,
    notes: dict[str, str],
) -> Iterator[tuple[str, Score]]:
    for split in evaluation.splits:
        with error_context(split):
            held = stored_split_name(split, evaluation, embeddings)
            vectors, labels = embeddings[array_name(held, other)], embeddings[f"{held}.labels"]
            inputs = Inputs(vectors, labels, predictions.get(f"{held}.logits"), evaluation.folds)
            inputs.check()
            twice = embeddings.get(f"{held}.twice") if not other else None
            inputs = Inputs(
                change(vectors), labels, inputs.logits, evaluation.folds, None if twice is None else both(change, twice)
            )
            left_out: dict[str, str] = {}
            for score in metrics.measure(evaluation.metrics, inputs, left_out):
                yield f"{split}.{score.name}", score
            notes |= {f"{split}.{name}": why for name, why in left_out.items()}


def transfer_scores(
    embeddings: Arrays, evaluation: Evaluation, other: str, change: Change
) -> Iterator[tuple[str, Score]]:
    """What a classifier on the embeddings of transfer data finds, or how well they tell which texts are alike."""
    scores: list[Score] = []
    for transfer in evaluation.transfer:
        scores += transfers.score(transfer, transfer_arrays(embeddings, transfer, other, change))
    if len(evaluation.transfer) > 1:
        scores.append(transfers.mean(scores))
    return ((score.name, score) for score in scores)


def transfer_arrays(embeddings: Arrays, transfer: Transfer, other: str, change: Change) -> dict[str, Any]:
    """The arrays of transfer data without their prefix; vectors as this row has them."""
    prefix = f"transfer.{transfer.name}@"
    held = next(name for name in embeddings if name.startswith(prefix))
    prefix += held.removeprefix(prefix).partition(".")[0] + "."  # with the digest of its content
    arrays = {}
    for name in embeddings:
        part, _, kind = name.removeprefix(prefix).partition("/")
        if not name.startswith(prefix) or kind != (other if is_vectors(part) else ""):
            continue
        arrays[part] = change(embeddings[name]) if is_vectors(part) else embeddings[name]
    return arrays


def is_vectors(part: str) -> bool:
    return part in ("train", "test", "train.other", "test.other")


def fitted_post(how: str, embeddings: Arrays, other: str) -> Change:
    """What post-processing does, learned from the training texts."""
    if not how:
        return lambda vectors: vectors
    return post.fit_post(how, embeddings[array_name("train", other)])


def both(change: Change, twice: Float[np.ndarray, "m 2 d"]) -> Float[np.ndarray, "m 2 k"]:
    return np.stack([change(np.ascontiguousarray(twice[:, side])) for side in range(2)], 1)


def array_name(split: str, other: str) -> str:
    return f"{split}/{other}" if other else split


@contextmanager
def error_context(subject: str) -> Iterator[None]:
    """Say in an error for people what it is about."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{subject}: {error}") if subject else error from error


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    store.write_atomic(path, content.getvalue())
