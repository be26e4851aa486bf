"""Throughput is compared where the same is computed: equal losses of each step, on the same batches without dropout.

The judge of pictures is scikit-learn's own, where that is exact.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.manifold import TSNE

from benchmarks import peers, texts, throughput, token_views
from benchmarks.pictures import affinities, divergence, judge
from contrastive.sources import locate

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


@pytest.fixture
def small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of MiniLM: with its tokenizer, and random weights that are computed with in no time."""
    import torch
    from transformers import BertConfig, BertModel

    shipped = locate.model_folder(peers.MODEL)
    folder = tmp_path / "small"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(shipped / name, folder)
    torch.manual_seed(0)
    settings = json.loads((shipped / "config.json").read_text(encoding="utf-8")) | SMALL
    BertModel(BertConfig(**settings)).save_pretrained(folder)
    monkeypatch.setattr(peers, "MODEL", f"file:{folder}")


@pytest.mark.full
@pytest.mark.usefixtures("small_model")
@pytest.mark.parametrize(("loss", "peer"), [("simcse_sup", "sentence-transformers"), ("ce", "transformers")])
def test_our_losses_are_the_peers(loss: str, peer: str):
    own, other = (throughput.measure(system, loss, "tweets", 32, True) for system in ("ours", peer))
    assert own["step 0"] == pytest.approx(other["step 0"], rel=1e-6)
    assert own["held out"] == pytest.approx(other["held out"], rel=1e-5)  # after a step of the same optimizer
    assert own["held out"] != pytest.approx(own["step 0"], rel=1e-3)


def test_mixed_texts_have_the_lengths_they_are_said_to_have():
    tweets = ["one two three four five"] * 20_000
    words = [len(text.split()) for text in texts.mixed(tweets, seed=0)]
    mean = sum(words) / len(words)
    deviation = (sum((count - mean) ** 2 for count in words) / len(words)) ** 0.5
    assert mean * texts.TOKENS_A_WORD == pytest.approx(texts.MEAN, rel=0.05)
    assert deviation * texts.TOKENS_A_WORD == pytest.approx(texts.DEVIATION, rel=0.1)


@pytest.mark.full
@pytest.mark.usefixtures("small_model")
def test_the_recipe_of_token_views_runs_both_ways():
    for way in token_views.WAYS:
        run = token_views.measure(way, token_views.RECIPE, 24, 16)
        assert run["seconds"] > 0


def test_the_divergence_is_that_of_exact_t_sne_and_affinities_are_shares_and_symmetric():
    vectors = np.random.default_rng(0).normal(size=(200, 10)).astype(np.float32) + 3
    model = TSNE(init="pca", random_state=0, method="exact")
    points = model.fit_transform(vectors)
    assert judge(vectors, points)["kl"] == pytest.approx(model.kl_divergence_, rel=1e-4)
    joint = affinities(vectors)
    assert joint.sum() == pytest.approx(1) and abs(joint - joint.T).max() < 1e-15


def test_a_picture_of_the_affinities_themselves_has_no_divergence_by_hand():
    """Three texts at the corners of a triangle are three points at the corners of a triangle."""
    corners = np.array([[0, 0], [1, 0], [0.5, 3**0.5 / 2]])
    even = np.full((3, 3), 1 / 6)
    np.fill_diagonal(even, 0)
    assert divergence(csr_array(even), corners) == pytest.approx(0, abs=1e-12)
