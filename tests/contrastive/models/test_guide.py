"""A guide says of each text what its model says of it alone; what it finds is what a search over all texts finds."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.data import locate
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.models import frozen_store
from contrastive.models.guide import with_guide
from contrastive.runs import store
from tests.contrastive.training import trained

SMALL = {"train": 24, "validation": 0, "test": 16}


def opened(cell: Cell) -> Tokens:
    return token_store.open_tokens(prepare_cell_tokens(cell))


def texts_of(tokens: Tokens, name: str) -> list[str]:
    return [json.loads(line)["text"] for line in (tokens.folder / f"texts.{name}.jsonl").read_text().splitlines()]


def test_its_vectors_are_those_of_the_model_for_each_text_alone(source: str, home: Path):
    cell = trained.make(source, data=SMALL, loss="gist")
    tokens = opened(cell)
    guided = with_guide(tokens, cell).splits["train"]
    folder = locate.model_folder(trained.GUIDE)
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    for name, split in zip(("train", "train.positive", "train.negative"), (guided, *guided.partners), strict=True):
        for text, found in list(zip(texts_of(tokens, name), split.guide, strict=True))[:8]:
            with torch.no_grad():
                hidden = model(**tokenizer(text, return_tensors="pt", truncation=True, max_length=16)).last_hidden_state
            expected = torch.nn.functional.normalize(hidden[0].mean(0), dim=0)
            torch.testing.assert_close(torch.from_numpy(found.copy()), expected, rtol=1e-4, atol=1e-5)


def test_a_file_is_a_guide_and_must_have_every_text(source: str, home: Path, tmp_path: Path):
    cell = trained.make(source, data=SMALL, loss="gist")
    tokens = opened(cell)
    every = [text for name in ("train", "train.positive", "train.negative") for text in texts_of(tokens, name)]
    texts = list(dict.fromkeys(every))
    vectors = np.random.default_rng(0).normal(size=(len(texts), 5))
    path = tmp_path / "vectors.parquet"
    pd.DataFrame({"text": texts, "embedding": list(vectors)}).to_parquet(path)
    by_file = trained.make(source, data=SMALL, loss="gist", guide=f"file:{path}")
    guided = with_guide(tokens, by_file).splits["train"].guide
    of_text = dict(zip(texts, vectors, strict=True))
    expected = np.stack([of_text[text] / np.linalg.norm(of_text[text]) for text in texts_of(tokens, "train")])
    np.testing.assert_allclose(guided, expected, rtol=1e-6)
    pd.DataFrame({"text": texts[1:], "embedding": list(vectors[1:])}).to_parquet(path)
    with pytest.raises(UserError, match="lacks 1 of 24 training texts"):
        with_guide(tokens, by_file)
    wrong = {
        "needs the columns `text`, a text in each row, and `embedding`": {"text": texts},
        "a text in each row": {"text": [*texts, None], "embedding": [*vectors, vectors[0]]},
        "vectors are lists of numbers": {"text": texts, "embedding": [[vector, vector] for vector in vectors]},
        "several vectors for one text": {"text": [*texts, texts[0]], "embedding": [*vectors, vectors[1]]},
        "zeros, or with numbers that are not finite": {"text": texts, "embedding": list(vectors * np.nan)},
    }
    for message, columns in wrong.items():
        pd.DataFrame(columns).to_parquet(path)
        with pytest.raises(UserError, match=message):
            with_guide(tokens, by_file)


@pytest.mark.parametrize(("margin", "strategy"), [(0.0, "absolute"), (0.1, "absolute"), (0.1, "relative")])
def test_a_mined_negative_is_the_closest_that_is_no_positive(source: str, home: Path, margin: float, strategy: str):
    settings = {"guide_margin": margin, "guide_margin_strategy": strategy, "mine": True}
    cell = trained.make(source, data=SMALL, loss="simcse_sup", guide=trained.GUIDE, **settings)
    train = with_guide(tokens := opened(cell), cell).splits["train"]
    texts, positives = (texts_of(tokens, name) for name in ("train", "train.positive"))
    for i, mined in enumerate(train.mined):
        by_guide = train.guide[i] @ train.partners[0].guide.T
        limit = by_guide[i] - margin * (abs(by_guide[i]) if strategy == "relative" else 1)
        others = [j for j, other in enumerate(positives) if other not in (texts[i], positives[i])]
        allowed = [j for j in others if by_guide[j] < limit] or [min(others, key=lambda j: by_guide[j])]
        assert by_guide[mined] == pytest.approx(max(by_guide[allowed]), abs=1e-6) and mined in others


def test_mined_negatives_train_alike_from_the_store_of_frozen_blocks(source: str, home: Path, tmp_path: Path):
    still = {"model": trained.GUIDE, "scratch": None, "tune": {"last_blocks": 1, "frozen_dropout": False}}
    settings = {"loss": "gist+simcse_sup", "mine": True, "encoder": still}
    cell = trained.make(source, data=SMALL, training={"encoder_lr": 1e-4}, **settings)
    curves = {}
    for reuse in ("none", "full"):
        tokens = frozen_store.with_stored_training_outputs(opened(cell), cell, Speed(reuse=reuse))
        assert (tokens.splits["train"].frozen_outputs is None) == (reuse == "none")
        (tmp_path / reuse).mkdir()
        trained.trained_into(tmp_path / reuse, cell, tokens, Speed(reuse=reuse))
        curves[reuse] = trained.curve(tmp_path / reuse, "loss.gist", "loss.simcse_sup")
    np.testing.assert_allclose(curves["none"], curves["full"], rtol=1e-4)


def test_a_guide_is_computed_once_for_all_cells(source: str, home: Path):
    first, second = (
        trained.make(source, data=SMALL, loss=loss, seed=seed) for seed, loss in enumerate(("gist", "distil_kl"))
    )
    for cell in (first, second):
        trained.run(cell)
    folders = [path.parent for path in (store.home() / "cache" / "guides").rglob("DONE")]
    assert len(folders) == 2  # the pairs of one, and the texts of the other
    trained.run(trained.make(source, data=SMALL, loss="gist", seed=5))
    assert [path.parent for path in (store.home() / "cache" / "guides").rglob("DONE")] == folders
