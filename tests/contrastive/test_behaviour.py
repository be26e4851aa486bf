"""A tiny encoder trained with a loss of each kind beats its untrained self.

The texts are three words of one of three topics among seven that mean nothing. A supervised loss is to bring a topic
together (1-NN of held-out texts); one that knows no labels is to tell a text from the others by its own second pass
through dropout, and to spread the texts; one that guesses hidden words is to be less surprised by them.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from contrastive.data import tokens as token_store
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.losses.cross_entropy import mlm
from contrastive.losses.ntxent import simcse
from contrastive.losses.pairwise import align_uniform
from contrastive.models import model
from contrastive.training.train import start_accelerator
from contrastive.views.batches import Batch, collate
from tests.contrastive.training.trained import make, trained_into

ENCODER = {"pooling": "mean", "scratch": {"layers": 1, "hidden": 32, "heads": 2, "vocabulary": 400}}
TRAINING = {"epochs": 3, "batch_size": 32, "encoder_lr": 1e-2}


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(0)
    rows = ["text,label"]
    for topic in "abc" * 200:
        words = [f"{topic}{n}" for n in random.integers(0, 30, 3)] + [f"z{n}" for n in random.integers(0, 60, 7)]
        rows.append(f"{' '.join(random.permutation(words))},{topic}")
    path = tmp_path_factory.mktemp("data") / "topics.csv"
    path.write_text("\n".join(rows) + "\n")
    return f"file:{path}"


def near_the_topic(trained: model.Model, batch: Batch) -> list[float]:
    vectors = torch.nn.functional.normalize(trained.predict(batch).embedding, dim=-1)
    nearest = (vectors @ vectors.T).fill_diagonal_(-1).argmax(1)
    return [float((batch.labels[nearest] == batch.labels).float().mean())]


def told_apart(trained: model.Model, batch: Batch) -> list[float]:
    """How well a text's two passes find each other among those of all texts, and how well they align and spread."""
    views = torch.stack([trained.train().encode(batch).pooled(), trained.encode(batch).pooled()], dim=1)
    return [-float(simcse(views)), -float(align_uniform(views))]


def not_surprised(trained: model.Model, batch: Batch) -> list[float]:
    guesses = trained.eval().masked(trained.encode, batch)
    return [-float(mlm(guesses.surprise, hidden=guesses.hidden))]


@pytest.mark.parametrize(
    ("loss", "judged", "gains"),
    [("supcon", near_the_topic, [0.2]), ("simcse", told_apart, [0.5, 0.15]), ("mlm", not_surprised, [0.2])],
)
def test_training_beats_the_untrained_encoder(loss: str, judged, gains, topics: str, home: Path, tmp_path: Path):
    data = {"train": 320, "validation": 0, "test": 200}
    chosen = make(topics, encoder=ENCODER, data=data, training=TRAINING, loss=loss)
    tokens = token_store.open_tokens(prepare_cell_tokens(chosen))
    held_out = collate(tokens.splits["test"], np.arange(200), tokens.pad_id, tokens.special_ids)
    start_accelerator(chosen)
    scores = []
    for trained in (model.Model(chosen, tokens), trained_into(tmp_path, chosen, tokens).model):
        torch.manual_seed(1)
        with torch.no_grad():
            scores.append(judged(trained, held_out))
    assert all(after > before + gain for before, after, gain in zip(*scores, gains, strict=True)), scores
