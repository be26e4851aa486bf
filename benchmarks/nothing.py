"""Cells that compute nothing: every stage is real but for the training and the measuring themselves."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from contrastive.config.evaluation import Evaluation
from contrastive.grid.identity import evaluation_key
from contrastive.runs import store

EXPERIMENT = """
name: nothing
data: {{source: "file:{texts}", train: 40, validation: 10, test: 10}}
encoder: {{model: "scratch:bert", scratch: {{layers: 1, hidden: 16, heads: 2, vocabulary: 100}}}}
seeds: [{seeds}]
sections: [{{title: Nothing, rows: {{ce: {{}}}}}}]
"""


def experiment(folder: Path, cells: int) -> Path:
    """An experiment file of so many cells."""
    texts, file = folder / "texts.csv", folder / "nothing.yaml"
    texts.write_text("text,label\n" + "".join(f"word {i} of {i % 7},{'ab'[i % 2]}\n" for i in range(60)))
    file.write_text(EXPERIMENT.format(texts=texts, seeds=", ".join(map(str, range(cells)))))
    return file


def train(*arguments: Any, **others: Any) -> dict[str, Any] | None:
    from contrastive.training import train_cell
    from tasks import worker_calls

    train_cell.train_here = _train
    return worker_calls.train(*arguments, **others)


def evaluate(*arguments: Any) -> dict[str, Any] | None:
    from contrastive.evaluation import evaluate as evaluation
    from tasks import worker_calls

    evaluation.evaluate_folder = _evaluate
    return worker_calls.evaluate(*arguments)


def _train(request: Any, training: Any, folder: Path, *_: Any) -> int:
    (folder / "metrics.jsonl").write_text('{"step": 0, "epoch": 0, "loss": 1.0, "loss.ce": 1.0}\n')
    (folder / "checkpoint").mkdir()
    for name in ("embeddings.npz", "predictions.npz", "checkpoint/weights.safetensors"):
        content = io.BytesIO()
        np.savez(content, test=np.zeros((2, 2), np.float32))
        (folder / name).write_bytes(content.getvalue())
    return 1


def _evaluate(folder: Path, evaluation: Evaluation, *, into: Path, **_: Any) -> None:
    from contrastive.evaluation.metrics.types import Score  # the processes of other systems import this file, too

    scores = [Score(f"test.{name}", 0.5, True, 10).described() for name in ("accuracy", "macro_f1")]
    store.write_json(into / "scores.json", {"version": 1, "key": evaluation_key(evaluation), "scores": scores})
    content = io.BytesIO()
    np.savez(content, x=np.zeros((0, 2), np.float32))
    store.write_atomic(into / "picture.npz", content.getvalue())
