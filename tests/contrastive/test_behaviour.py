"""Each loss does what it is made for: a tiny encoder trained with it beats its untrained self, with three seeds.

The texts are three words of one of three topics among seven that mean nothing. A supervised loss is to bring a topic
together (1-NN of held-out texts), and so is one whose pairs of texts are of one topic; one that knows no labels is to
tell a text from the others by its own second pass through dropout, and to spread the texts; one that guesses hidden
words is to be less surprised by them (all of texts that it never saw).
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.objective import Objective
from contrastive.config.registry import entries
from contrastive.data import tokens as token_store
from contrastive.losses import LOSSES
from contrastive.losses.align_uniform import align_uniform
from contrastive.losses.mlm import mlm
from contrastive.losses.simcse import simcse
from contrastive.models import model
from contrastive.stages.prepare import prepare_cell_tokens
from contrastive.training.train import start_accelerator
from contrastive.views.batches import Batch, collate
from tests.contrastive.training.trained import trained_into
from tests.tiers import rest_is_full

SUPERVISED = ("ce", "rdrop", "supcon", "supcon_in", "dscl", "simcse_sup", "ce+dropout-ntxent")
UNSUPERVISED = tuple(name for name in LOSSES if name not in (*SUPERVISED, "dropout-ntxent", "mlm"))
CASES = product((*SUPERVISED, *UNSUPERVISED, "mlm"), range(3))
SLOW_TO_LEARN = "ce+dropout-ntxent"  # its topics take more than twice the steps


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In which the texts are tokenised once for all losses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(0)

    def text(topic: str) -> str:
        words = [f"{topic}{n}" for n in random.integers(0, 30, 3)] + [f"z{n}" for n in random.integers(0, 60, 7)]
        return " ".join(random.permutation(words))

    topics = ["abc"[i % 3] for i in range(700)]
    texts = [text(topic) for topic in topics]
    lines = ["text,label,same,other"]
    for i, topic in enumerate(topics):
        lines.append(f"{texts[i]},{topic},{text(topic)},{text('abc'[(i + 1) % 3])}")
    path = tmp_path_factory.mktemp("data") / "topics.csv"
    path.write_text("\n".join(lines) + "\n")
    return f"file:{path}"


def cell(source: str, loss: str, seed: int) -> Cell:
    heads = {"projector": 64} if "projector" in entries("contrastive.losses", "LOSSES").get(loss, CE).settings else {}
    pairs = {"positive": "same", "negative": "other"} if loss == "simcse_sup" else {}
    return Cell(
        data=Data(source=source, train=320, test=200, max_length=16, **pairs),
        encoder=Encoder(
            model="scratch:bert", pooling="mean", scratch={"layers": 1, "hidden": 32, "heads": 2, "vocabulary": 400}
        ),
        objective=Objective(loss=loss, **heads),
        training=Training(epochs=8 if loss == SLOW_TO_LEARN else 3, batch_size=32, head_lr=1e-2, encoder_lr=1e-2),
        seed=seed,
    ).canonical()


CE = entries("contrastive.losses", "LOSSES")["ce"]


def nearest_of_the_topic(trained: model.Model, batch: Batch) -> float:
    vectors = torch.nn.functional.normalize(trained.predict(batch).embedding, dim=-1)
    nearest = (vectors @ vectors.T).fill_diagonal_(-1).argmax(1)
    return float((batch.labels[nearest] == batch.labels).float().mean())


@torch.no_grad()
def told_apart(trained: model.Model, batch: Batch) -> tuple[float, float]:
    """How badly a text's two passes find each other among those of all texts, and how badly they align and spread."""
    trained.train()
    torch.manual_seed(1)
    views = torch.stack([trained.encode(batch).pooled(), trained.encode(batch).pooled()], dim=1)
    return float(simcse(views)), float(align_uniform(views))


@torch.no_grad()
def surprised(trained: model.Model, batch: Batch) -> float:
    torch.manual_seed(1)
    guesses = trained.eval().masked(trained.encode, batch)
    return float(mlm(guesses.surprise, hidden=guesses.hidden))


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "seed"), rest_is_full(CASES, [("supcon", 0), ("simcse", 0), ("mlm", 0)]))
def test_training_beats_the_untrained_encoder(loss: str, seed: int, source: str, tmp_path: Path):
    chosen = cell(source, loss, seed)
    tokens = token_store.open(prepare_cell_tokens(chosen))
    held_out = collate(tokens.splits["test"], np.arange(200), tokens.pad_id, tokens.special_ids)
    start_accelerator(chosen)
    before = model.Model(chosen, tokens)
    after = trained_into(tmp_path, chosen, tokens).model
    if loss in SUPERVISED:
        assert nearest_of_the_topic(after, held_out) > nearest_of_the_topic(before, held_out) + 0.2
    elif loss == "mlm":
        assert surprised(after, held_out) < surprised(before, held_out) - 0.2
    else:
        (own, spread), (own_before, spread_before) = told_apart(after, held_out), told_apart(before, held_out)
        assert own < own_before - 0.5 and spread < spread_before - 0.15
