"""What goes wrong in a training is said: no number, too little memory, a change since the plan, what trains nothing.

What can, goes on; and a collapse of the embeddings is told with its step.
"""

import functools
import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from contrastive.config.cell import Cell
from contrastive.data import tokens as token_store
from contrastive.errors import UserError
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.losses import LOSSES
from contrastive.losses.projected import Byol
from contrastive.losses.supcon import supcon
from contrastive.models import model
from contrastive.runs import claim, store
from contrastive.training import sharding, train
from contrastive.training.failures import run_stage
from contrastive.training.health import GradientAudit, GradientPathError, collapsed_since
from contrastive.training.job import TrainRequest
from contrastive.training.train_cell import train_cell
from contrastive.views import VIEWS
from contrastive.views.passes import cluster, topk_tokens
from contrastive.views.types import VectorGroup, View
from tests.contrastive.training.trained import folder_of, make, numbers, run


def reported(cell: Cell) -> dict:
    folder = folder_of(cell)
    report = run_stage(train_cell, folder, TrainRequest(cell, "a cell", 1000))
    assert report is not None and store.failure(folder) == report
    return report


def test_a_loss_that_stops_being_a_number_is_a_result_with_its_step(source: str, home: Path):
    report = reported(make(source, training={"encoder_lr": 1e30, "head_lr": 1e30, "clip": 0, "warmup": 0}))
    assert report["kind"] == "diverged" and report["step"] >= 1


def test_weights_that_the_last_step_spoilt_are_a_divergence_with_its_step(source, home, monkeypatch):
    real = model.Model.after_step

    def spoil(self, progress):
        real(self, progress)
        if progress == 1:
            self.head.weight.fill_(float("nan"))

    monkeypatch.setattr(model.Model, "after_step", torch.no_grad()(spoil))
    report = reported(make(source))
    assert report["kind"] == "diverged" and report["step"] == 7
    assert "head.weight became nan at step 7" in report["error"]


def test_out_of_memory_halves_what_is_encoded_at_a_time_and_keeps_the_batch(source, home, monkeypatch):
    real, most = model.Model.forward, [3]

    def small(self, batch):
        if len(batch) > most[0]:
            raise torch.cuda.OutOfMemoryError("a planted one")
        return real(self, batch)

    expected = numbers(run(make(source, loss="ce+simcse", training={"micro_batch": 2})))
    monkeypatch.setattr(model.Model, "forward", small)
    folder = run(make(source, loss="ce+simcse"))  # 8 texts, then 4, then 2
    assert numbers(folder) == expected
    assert store.read_json(folder / "provenance.json")["micro_batch"] == claim.attempts(folder)[0]["micro_batch"] == 2
    most[0] = 0  # even a text alone is too much
    assert reported(make(source))["kind"] == "memory"


def test_a_change_since_the_plan_is_refused(source: str, home: Path):
    planned = folder_of(make(source))
    with pytest.raises(UserError, match="changed since this grid was planned"):
        train_cell(planned, TrainRequest(make(source, loss="rdrop"), "a cell", 1000))


def test_the_audit_finds_a_frozen_head_and_a_parameter_that_the_optimizer_forgot(source: str, home: Path):
    cell = make(source)
    tokens = token_store.open_tokens(prepare_cell_tokens(cell))
    for fault in ("frozen", "forgotten"):
        accelerator = train.start_accelerator(cell)
        shared = sharding.DataParallel(model.Model(cell, tokens), cell, accelerator)
        head = shared.model.head
        if fault == "frozen":
            head.requires_grad_(False)
        else:
            shared.listed = [parameter for parameter in shared.listed if parameter.shape != head.weight.shape]
        with pytest.raises(GradientPathError, match="head"):
            GradientAudit(shared, ["ce"])


def test_the_audit_stops_a_cell_whose_term_or_block_trains_nothing(source, home, monkeypatch):
    clusters = {"loss": "ce+supcon", "view": "cluster", "k": 4, "clusters": 2}
    for objective, name, detached in (
        ({"loss": "ce+supcon"}, "supcon", (LOSSES, "supcon", detached_supcon)),
        (clusters, "supcon", (VIEWS, "cluster", detached_cluster)),
        ({"loss": "supcon", "view": "layers", "layers": (0,)}, "layer.1", (LOSSES, "supcon", supcon)),
    ):
        with monkeypatch.context() as patched, pytest.raises(GradientPathError, match=name):
            patched.setitem(*detached)
            run(make(source, **objective))


def detached_supcon(views, *, labels, mask=None, temperature=0.1):
    return supcon(views.detach(), labels=labels, mask=mask, temperature=temperature)


def detached_cluster(encode, batch, *, k, clusters):
    view = cluster(encode, batch, k=k, clusters=clusters)
    return View([VectorGroup(group.vectors.detach(), group.mask) for group in view.groups], view.sentences)


@pytest.mark.parametrize("fault", [None, "no predictor", pytest.param("no variance", marks=pytest.mark.full)])
def test_a_collapse_behind_the_projector_is_seen(fault: str | None, home: Path, monkeypatch: pytest.MonkeyPatch):
    """BYOL without its predictor and VICReg without variance: the vectors stay apart, their projections do not."""
    made = Byol.__init__

    @functools.wraps(made)  # the signature names its settings
    def without_predictor(self, *sizes, **settings):
        made(self, *sizes, **settings)
        self.predictor = nn.Identity()

    if fault == "no predictor":
        monkeypatch.setattr(Byol, "__init__", without_predictor)
    elif fault == "no variance":
        monkeypatch.setattr(importlib.import_module("contrastive.losses.projected"), "VARIANCE", 0.0)
    folder = run(make(
        "package:digits",
        encoder={"model": "scratch:convnet", "scratch": {"layers": 1, "hidden": 32}, "dropout": 0.0},
        data={"images": {"size": 8, "channels": 1}, "train": 320, "validation": 0, "test": 64},
        training={"batch_size": 80, "epochs": 40, "encoder_lr": 1e-2, "head_lr": 1e-2, "augment": {"shift": 0.2}},
        projector=128,
        **{"loss": "vicreg", "view": "two_stage"} if fault == "no variance" else {"loss": "byol", "decay": 0.9},
    ))  # fmt: skip
    assert (collapsed_since(folder / "metrics.jsonl") is None) == (fault is None)


@pytest.mark.parametrize("collapses", [False, True])
def test_a_collapse_of_the_compared_tokens_is_seen(collapses, source, home, monkeypatch):
    """Tokens that all become equal, beside sentence vectors that stay apart."""

    def equal_tokens(encode, batch, *, k):
        view = topk_tokens(encode, batch, k=k)
        shrink = 1e-3 if collapses else 1.0  # of the differences between the tokens
        groups = [replace(g, vectors=shrink * g.vectors + 1.0 - shrink) for g in view.groups]
        return View(groups, view.sentences)

    monkeypatch.setitem(VIEWS, "topk_tokens", equal_tokens)
    for loss in ("ce", "ce+supcon"):
        log = run(make(source, loss=loss, view="topk_tokens", k=2)) / "metrics.jsonl"
        first = json.loads(log.read_text().splitlines()[0])
        assert first["spread"] > 0.1 and ("spread.compared" in first) == (loss != "ce")
        assert collapsed_since(log) == (0 if collapses and loss != "ce" else None)


COLLAPSES = [  # the measures of each look, and the step since which they have collapsed
    ([{"spread": spread} for spread in (0.5, 0.4)], None),
    ([{"spread": spread} for spread in (0.5, 0.05, 0.01)], 20),
    ([{"spread": spread} for spread in (0.01, 0.5, 0.02)], 40),
    ([{"spread": 0.5, "spread.compared": compared} for compared in (0.8, 0.15)], 20),  # less than a quarter is left
    ([{"spread": 0.5, "spread.compared": compared} for compared in (0.8, 0.25)], None),
    ([{"spread": 0.5, "spread.compared": compared} for compared in (0.3, 0.09)], 20),
    ([{"spread": 0.5, "std.vicreg": deviation} for deviation in (0.4, 0.03, 0.02)], 20),  # less than a tenth
]


@pytest.mark.parametrize(("looks", "since"), COLLAPSES)
def test_a_collapse_counts_when_it_lasts(looks: list[dict[str, float]], since: int | None, tmp_path: Path):
    rows = [{"step": 20 * i} | look for i, look in enumerate(looks)] + [{"step": 99, "loss": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert collapsed_since(tmp_path / "metrics.jsonl") == since
