"""Checks of metrics, which measure vectors, and of poolings and encoders, which make them."""

import math
import re
from functools import partial
from typing import Any

import numpy as np
import torch

from contrastive.config import registry
from contrastive.config.scores import score_facts
from contrastive.contract import Checks, demand
from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.types import Inputs
from contrastive.models.pooling import POOLINGS
from contrastive.models.registered import ENCODERS
from contrastive.views.batches import Batch

TEXTS, WIDTH = 90, 6


def metric_checks(name: str, copy: str) -> Checks:
    return {
        "its scores are numbers with a direction and a count": partial(has_scores, name),
        "equal vectors can be measured": partial(measures_equal_vectors, name),
    }


def clouds(texts: int = TEXTS, size: int = WIDTH, classes: int = 3, noise: float = 1.0) -> Inputs:
    """Return a cloud of vectors for each class, and predictions that are right for most of them."""
    generator = np.random.default_rng(0)
    labels = np.arange(texts) % classes
    vectors = 2 * np.eye(classes, size)[labels] + noise * generator.normal(size=(texts, size))
    guesses = np.where(generator.random(texts) < 0.8, labels, generator.integers(0, classes, texts))
    twice = vectors[:, None] + 0.1 * noise * generator.normal(size=(texts, 2, size))
    logits = np.eye(classes, dtype=np.float32)[guesses] * 5
    return Inputs(vectors.astype(np.float32), labels, logits, 5, twice.astype(np.float32))


def has_scores(name: str) -> None:
    inputs = clouds()
    scores = measure([name], inputs)
    unchanged = (inputs.embeddings == clouds().embeddings).all() and (inputs.labels == clouds().labels).all()
    demand(unchanged, "it changes the embeddings or labels that it is given: copy them")
    declared = tuple(facts.name for facts in registry.metrics()[name].facts.scores) or (name,)
    found = [score.name for score in scores]
    demand(sorted(found) == sorted(declared), f"its scores are {found}, and its facts name {list(declared)}")
    for score in scores:
        facts, value = score_facts(f"test.{score.name}"), score.value
        demand(re.fullmatch(r"[a-z0-9_]+", score.name), f"`{score.name}`: names have a to z, 0 to 9 and _")
        demand(type(value) is float and math.isfinite(value), f"{score.name} is {value!r}: give a finite float")
        low, high = facts.limits
        demand(low <= value <= high, f"{score.name} is {value:.4g}, outside {low} to {high} of its facts")
        directed = not facts.compared or score.higher_is_better is not None
        demand(directed, f"{score.name} is compared: say whether higher_is_better, or compared=False in its facts")
        demand(score.count == TEXTS, f"{score.name} counts {score.count} of {TEXTS} texts")
        demand(score.standard_error is None or score.standard_error >= 0, f"{score.name}: negative standard error")


def measures_equal_vectors(name: str) -> None:
    inputs = clouds()
    equal = Inputs(np.ones_like(inputs.embeddings), inputs.labels, inputs.logits, inputs.folds, inputs.twice)
    for score in measure([name], equal):
        demand(math.isfinite(score.value), f"for equal vectors {score.name} is {score.value}: give a finite float")


def pooling_checks(name: str, copy: str) -> Checks:
    return {
        "it makes one vector of a text": partial(makes_one_vector, name),
        "padding changes nothing": partial(ignores_padding, name),
    }


def batch_of(*lengths: int) -> tuple[torch.Tensor, Batch]:
    """Return outputs for texts of so many tokens, padded with large numbers, and their batch."""
    longest = max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    hidden = torch.randn(len(lengths), 9, WIDTH, generator=torch.Generator().manual_seed(0))[:, :longest]
    hidden = hidden.masked_fill(~mask[..., None], 1e3).requires_grad_()
    return hidden, Batch(torch.where(mask, 7, 0), mask, ~mask, torch.zeros(len(lengths), dtype=torch.long))


def makes_one_vector(name: str) -> None:
    hidden, batch = batch_of(5, 1, 9)
    vectors = POOLINGS[name](hidden, batch)
    arrived = tuple(vectors.shape)
    demand(arrived == (3, WIDTH), f"for 3 texts of width {WIDTH} it returned {arrived}: return texts × dimensions")
    (slope,) = torch.autograd.grad(vectors.square().sum(), hidden, allow_unused=True, materialize_grads=True)
    demand(slope.isfinite().all() and slope.abs().max() > 0, "the gradient to the tokens is 0 or not finite")


def ignores_padding(name: str) -> None:
    hidden, batch = batch_of(5, 1, 9)
    together = POOLINGS[name](hidden, batch)
    for text, length in enumerate((5, 1, 9)):
        rows = slice(text, text + 1)
        ids, mask = batch.input_ids[rows, :length], batch.attention_mask[rows, :length]
        alone = POOLINGS[name](hidden[rows, :length], Batch(ids, mask, ~mask, batch.labels[rows]))
        same = torch.allclose(alone[0], together[text], atol=1e-5)
        demand(same, "a text alone has another vector than in a padded batch: use batch.attention_mask")


def encoder_checks(name: str, copy: str) -> Checks:
    return {"it is built as a BERT of transformers": partial(is_built_as_bert, name)}


def is_built_as_bert(name: str) -> None:
    encoder: Any = ENCODERS[name]
    found = getattr(encoder.config_class, "model_type", "")
    demand(found == name, f"its config_class has the model_type `{found}`: name it `{name}`, as a config.json will")
    with torch.device("meta"):
        model = encoder(encoder.config_class())
    blocks = getattr(getattr(model, "encoder", None), "layer", None)
    built = isinstance(blocks, torch.nn.ModuleList) and hasattr(model, "embeddings")
    demand(built, "it needs `embeddings`, and its blocks in `encoder.layer`, a ModuleList")
