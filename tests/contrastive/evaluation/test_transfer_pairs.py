"""Transfer data of pairs: correlations of their cosines, by hand and beside other implementations."""

import numpy as np
import pytest
from scipy import stats

from contrastive.evaluation import transfer
from tests.contrastive.evaluation.tasks_made import pairs, scored, values


def test_pairs_by_hand():
    """Cosines 1, 0, −1 and scores 3, 1, 2: ranks 3, 2, 1 against 3, 1, 2."""
    vectors = {
        "test": np.array([[2, 0], [1, 0], [1, 1]], np.float32),
        "test.other": np.array([[1, 0], [0, 5], [-3, -3]], np.float32),
        "test.scores": np.array([3.0, 1.0, 2.0]),
    }
    assert values(scored(), vectors) == {"spearman_all": pytest.approx(0.5), "pearson_all": pytest.approx(0.5)}


def test_correlations_are_those_of_scipy_with_ties():
    vectors = pairs()
    for side in ("test", "test.other"):
        vectors[side] = np.concatenate([vectors[side], vectors[side][:20] * 4])  # 20 cosines twice
    vectors["test.scores"] = np.concatenate([vectors["test.scores"], np.arange(20) % 4])
    first, second = vectors["test"].astype(np.float64), vectors["test.other"].astype(np.float64)
    cosines = [float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in zip(first, second, strict=True)]
    found = values(scored(), vectors)
    assert found["spearman_all"] == pytest.approx(stats.spearmanr(np.round(cosines, 9), vectors["test.scores"])[0])
    assert found["pearson_all"] == pytest.approx(stats.pearsonr(cosines, vectors["test.scores"])[0])


def test_pairs_of_equal_texts_tie():
    """Whatever the rounding: of most vectors x·x / (|x| |x|) is not quite 1."""
    vectors = pairs(200, size=32)
    vectors["test.other"][:50] = vectors["test"][:50]
    sizes = np.linalg.norm(vectors["test"].astype(np.float64), axis=1) * np.linalg.norm(vectors["test.other"], axis=1)
    cosines = (vectors["test"].astype(np.float64) * vectors["test.other"]).sum(1) / sizes
    cosines[:50] = 1
    expected = stats.spearmanr(cosines, vectors["test.scores"])[0]
    assert values(scored(), vectors)["spearman_all"] == pytest.approx(expected, abs=1e-12)


def test_the_mean_over_subsets_does_not_weigh_them():
    vectors = pairs(90, subsets=("2012", "2013", "2013"))
    found = {score.name: score for score in transfer.score(scored("year", "pearson"), vectors)}
    assert [name.rpartition(".")[2] for name in found] == [
        "pearson_all",
        "spearman_all",
        "pearson_mean",
        "spearman_mean",
    ]
    by_year = []
    for year in ("2012", "2013"):
        rows = vectors["test.subsets"] == year
        part = {name: array[rows] for name, array in vectors.items() if name != "test.subsets"}
        by_year.append(values(scored(), part))
    assert {np.sum(vectors["test.subsets"] == year) for year in ("2012", "2013")} != {45}
    for kind in ("spearman", "pearson"):
        mean = found[f"transfer.sts.{kind}_mean"]
        assert mean.value == pytest.approx(sum(values[f"{kind}_all"] for values in by_year) / 2)
        assert (mean.count, mean.unit) == (90, "")
        assert found[f"transfer.sts.{kind}_all"].value == pytest.approx(values(scored(), vectors)[f"{kind}_all"])


def test_sentence_transformers_finds_the_same():
    """Its evaluator, on a real model without a download: a random vector a word, the mean of them a text."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [f"word{i}" for i in range(50)]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="word0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = torch.randn(50, 16, generator=torch.Generator().manual_seed(0)).numpy()
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    generator = np.random.default_rng(0)
    first, second = ([" ".join(generator.choice(words[:25], 4)) for _ in range(80)] for _ in range(2))
    shared = [len(set(a.split()) & set(b.split())) for a, b in zip(first, second, strict=True)]
    expected = EmbeddingSimilarityEvaluator(first, second, shared, name="", write_csv=False)(model)
    vectors = {"test": model.encode(first), "test.other": model.encode(second), "test.scores": np.array(shared) / 1.0}
    found = values(scored(), vectors)
    assert found["spearman_all"] == pytest.approx(expected["spearman_cosine"], abs=1e-6)
    assert found["pearson_all"] == pytest.approx(expected["pearson_cosine"], abs=1e-6)


def test_collapsed_embeddings_of_pairs_have_no_correlation():
    """Nor have embeddings that differ by rounding alone, nor scores that are all the same."""
    collapsed = np.full((60, 5), 0.3, np.float32)
    rounded = np.nextafter(collapsed, np.where(pairs()["test"] > 0, 1, 0).astype(np.float32))
    for changed in ({"test": collapsed, "test.other": collapsed}, {"test": collapsed, "test.other": rounded},
                    {"test": collapsed * 0}, {"test.scores": np.ones(60)}):  # fmt: skip
        for score in transfer.score(scored(), pairs() | changed):
            assert (score.value, score.unit) == (0.0, transfer.UNDEFINED)
    subsets = pairs(90, subsets=("a", "b", "b"))
    subsets["test.scores"][subsets["test.subsets"] == "a"] = 3
    means = transfer.score(scored("year"), subsets)[2:]
    part = {name: array[subsets["test.subsets"] == "b"] for name, array in subsets.items()}
    for mean, other in zip(means, transfer.score(scored(), part), strict=True):
        assert mean.value == pytest.approx(other.value / 2) and mean.unit == f"{transfer.UNDEFINED} in 1 of 2 subsets"
