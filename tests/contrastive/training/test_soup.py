"""A soup has the mean weights of its cells, trains nothing itself, and a soup of one is that one."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.evaluation.evaluate_cell import evaluate_cell
from contrastive.runs import claim, store
from tests.contrastive.training.trained import LAST_BLOCK, folder_of, make, run

SMALL = {"train": 16, "validation": 0, "test": 16}


def soup_of(*members: Cell) -> Cell:
    return members[0].model_copy(update={"soup": members})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoint" / "weights.safetensors")


def vectors(folder: Path) -> np.ndarray:
    with np.load(folder / "embeddings.npz") as arrays:
        return arrays["test"]


def test_its_weights_are_the_mean_and_its_members_are_trained_where_they_are_not(source: str, home: Path):
    first = make(source, loss="ce", encoder=LAST_BLOCK, data=SMALL)
    second = make(source, loss="ce+byol", encoder=LAST_BLOCK, data=SMALL)  # with weights of a loss
    run(first)
    mixed = run(soup_of(first, second))
    assert store.damage(folder_of(second), "TRAINED") is None
    ours, one, other = weights(mixed), weights(folder_of(first)), weights(folder_of(second))
    assert ours.keys() == one.keys() < other.keys() and "head.weight" in ours
    for name, weight in ours.items():
        expected = (one[name].double() + other[name].double()) / 2
        torch.testing.assert_close(weight.double(), expected, rtol=0, atol=1e-7)
    before = {path: path.stat().st_mtime_ns for path in (home / "runs").rglob("weights.safetensors")}
    evaluate_cell(mixed, Evaluation(metrics=("accuracy",)))
    assert [each.get("outcome") for each in claim.attempts(mixed)] == ["done"] * 3  # train, embed, evaluate
    assert {path: path.stat().st_mtime_ns for path in (home / "runs").rglob("weights.safetensors")} == before
    assert not np.allclose(vectors(mixed), vectors(folder_of(first)))


def test_a_soup_of_one_is_that_one(source: str, home: Path):
    cell = make(source, loss="simcse", encoder=LAST_BLOCK, data=SMALL)
    alone, mixed = run(cell), run(soup_of(cell))
    assert mixed != alone
    evaluate_cell(mixed, Evaluation(metrics=("anisotropy",)))
    np.testing.assert_array_equal(vectors(mixed), vectors(alone))
