"""Logistic regression on TF-IDF, or on the raw values of images, as a reference: an encoder that scores lower is badly
trained."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from contrastive.config.cell import Images
from contrastive.config.evaluation import Evaluation
from contrastive.data.images import values_of
from contrastive.errors import UserError
from contrastive.evaluation import metrics
from contrastive.evaluation.metrics.types import Inputs
from contrastive.grid.plan import Plan, tokens_folder
from contrastive.runs import fingerprint, store

OF_TEXTS, OF_IMAGES = "TF-IDF + logistic regression", "Raw pixels + logistic regression"


def reference_folder(tokens: Path, home: Path, test: Path | None = None) -> Path:
    """Return the cache folder of the scores. `test`: folder of the test texts, if they are not in `tokens`."""
    code = fingerprint.code_digest(("contrastive.evaluation.reference",))
    measured = {} if test in (None, tokens) else {"test": test.name}
    return store.cache_folder(
        "references", fingerprint.key("reference", tokens=tokens.name, code=code, **measured), home
    )


def tfidf(tokens: Path, home: Path, test: Path | None = None) -> list[dict[str, Any]]:
    """Return the scores on each non-empty held-out split, computed once per prepared data set and then cached."""

    def make(folder: Path) -> None:
        images = store.read_json(tokens / "meta.json").get("images")
        scores = reference_scores(tokens, test, None if images is None else Images(**images))
        name = OF_TEXTS if images is None else OF_IMAGES
        store.write_json(folder / "scores.json", [{"name": name, "scores": scores}] if scores else [])

    store.make_once(reference_folder(tokens, home, test), make)
    return known_scores(tokens, home, test)


def known_scores(tokens: Path, home: Path, test: Path | None = None) -> list[dict[str, Any]]:
    """Return the cached scores; an empty list if they are missing or damaged (the next run recomputes them)."""
    folder = reference_folder(tokens, home, test)
    return list(store.read_json(folder / "scores.json")) if store.finished(folder) else []


def mean_of_draws(measured: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Average each score over several draws of training texts, using the draws that have been computed."""
    every = [reference for references in measured for reference in references]
    scores = [reference["scores"] for reference in every]
    names = dict.fromkeys(name for by_name in scores for name in by_name)
    means = {name: fmean(by_name[name] for by_name in scores if name in by_name) for name in names}
    return [{"name": every[0]["name"], "scores": means}] if means else []


def reference_scores(tokens: Path, test: Path | None = None, images: Images | None = None) -> dict[str, float]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score

    texts, labels = read_texts(tokens, "train")
    features = word_features(texts) if images is None else partial(pixel_features, images=images)
    if features is None:
        return {}
    model = LogisticRegression(C=10 if images is None else 1, max_iter=1000).fit(features(texts), labels)
    scores = {}
    for split, folder in (("validation", tokens), ("test", test or tokens)):
        held_out, truth = read_texts(folder, split)
        if held_out:
            guesses = model.predict(features(held_out))
            scores[f"{split}.accuracy"] = float(accuracy_score(truth, guesses))
            scores[f"{split}.macro_f1"] = float(f1_score(truth, guesses, average="macro", zero_division=0))
        if held_out and images is not None:  # the values are vectors, as embeddings are
            inputs = Inputs(features(held_out), np.asarray(truth), None, Evaluation.model_fields["folds"].default)
            measured = metrics.measure(("knn", "logistic"), inputs, {})
            scores |= {f"{split}.{score.name}": score.value for score in measured}
    return scores


def pixel_features(texts: list[str], images: Images) -> Any:
    return (values_of(texts, images) / 255).astype(np.float32)


def word_features(texts: list[str]) -> Callable[[list[str]], Any] | None:
    """Return what makes TF-IDF features of texts, fitted on these; None if there are none."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+")
    # Chinese has no spaces
    characters = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=2, sublinear_tf=True)
    fitted = [vectorizer for vectorizer in (words, characters) if fits(vectorizer, texts)]
    return (lambda given: hstack([vectorizer.transform(given) for vectorizer in fitted])) if fitted else None


def fits(vectorizer: Any, texts: list[str]) -> bool:
    """Fit the vectorizer; return False if its vocabulary is empty (no words, or no characters shared by two texts)."""
    try:
        vectorizer.fit(texts)
    except ValueError:
        return False
    return True


def read_texts(tokens: Path, split: str) -> tuple[list[str], list[int]]:
    path = tokens / f"texts.{split}.jsonl"
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        return [row["text"] for row in rows], [row["label"] for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: repair it with `ablate audit EXPERIMENT --mend`") from error


def known_references(plan: Plan) -> list[dict[str, Any]]:
    """Return the references computed so far with the name of their data, each averaged over draws of training texts."""
    references = []
    for name, folders in data_folders(plan).items():
        measured = [known_scores(folder, store.home(), test) for folder, test in folders]
        references += [scored | {"data": name} for scored in mean_of_draws(measured)]
    return references


def data_folders(plan: Plan) -> dict[str, list[tuple[Path, Path]]]:
    """Map each data name to token folders, (data, test texts) for each draw of training texts.

    They are those of the first cell: a reference reads texts only, whatever the tokenizer.
    """
    return {
        name: [(tokens_folder(plan.token_key(cell)), tokens_folder(plan.test_key(cell))) for cell in cells]
        for name, cells in plan.data_cells().items()
    }
