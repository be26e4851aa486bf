"""A cell that trains less than it says is stopped: a frozen head, a forgotten parameter, a term without gradient."""

from pathlib import Path

import pytest

from contrastive.config.cell import Cell
from contrastive.data import tokens as token_store
from contrastive.losses import LOSSES
from contrastive.losses.supcon import supcon
from contrastive.models import model
from contrastive.stages.prepare import prepare_cell_tokens
from contrastive.training import sharding, train
from contrastive.training.gradient_audit import Audit, GradientPathError
from contrastive.views import VIEWS
from contrastive.views.cluster import cluster
from contrastive.views.types import VectorGroup, View
from tests.contrastive.training.trained import make, run


def pieces(source: str, **objective) -> tuple[sharding.Whole, Cell]:
    cell = make(source, **objective)
    tokens = token_store.open(prepare_cell_tokens(cell))
    accelerator = train.start_accelerator(cell)
    return sharding.Whole(model.build_model(cell, tokens), cell, accelerator), cell


def test_the_audit_finds_a_frozen_head_and_a_parameter_that_the_optimizer_forgot(source: str, home: Path):
    for fault in ("frozen", "forgotten"):
        shared, cell = pieces(source)
        head = shared.model.head
        if fault == "frozen":
            head.requires_grad_(False)
        else:
            shared.listed = [parameter for parameter in shared.listed if parameter.shape != head.weight.shape]
        with pytest.raises(GradientPathError, match="head"):
            Audit(shared, ["ce"], cell.objective.terms())


@pytest.mark.parametrize("fault", ["detached term", "detached centres", "unused block"])
def test_the_audit_stops_a_cell_whose_term_or_block_trains_nothing(
    fault: str, source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    if fault == "detached term":
        cell, name = make(source, loss="ce+supcon"), "supcon"
        monkeypatch.setitem(LOSSES, "supcon", detached_supcon)
    elif fault == "detached centres":
        cell, name = make(source, loss="ce+supcon", view="cluster", k=4, clusters=2), "supcon"
        monkeypatch.setitem(VIEWS, "cluster", detached_cluster)
    else:
        cell, name = make(source, loss="supcon", view="layers", layers=(0,)), "layer.1"
    with pytest.raises(GradientPathError, match=name):
        run(cell)


def detached_supcon(views, *, labels, mask=None, temperature=0.1):
    return supcon(views.detach(), labels=labels, mask=mask, temperature=temperature)


def detached_cluster(encode, batch, *, k, clusters):
    view = cluster(encode, batch, k=k, clusters=clusters)
    return View([VectorGroup(group.vectors.detach(), group.mask) for group in view.groups], view.sentences)
