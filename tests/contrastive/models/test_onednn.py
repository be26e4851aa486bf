"""Quick products: the plain ones but for rounding, with their gradients; and nothing else of a model is touched."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from contrastive.config.cell import Cell
from contrastive.config.speed import Speed
from contrastive.data import tokens as token_store
from contrastive.models import model as models
from contrastive.models import onednn
from contrastive.runs import store
from contrastive.stages.prepare import prepare_cell_tokens
from contrastive.stages.request import Asked
from contrastive.stages.train_cell import speed_used, train_cell
from tests.contrastive.training.trained import curve, folder_of, make
from tests.tiers import rest_is_full

FAST = Speed(kernels="fast", reuse="none")
PLAIN = Speed(reuse="none")
ONEDNN_PAYS = onednn.onednn_pays
CLOSE = {"atol": 2e-5, "rtol": 1e-5}


@pytest.fixture(autouse=True)
def maker(monkeypatch: pytest.MonkeyPatch):
    """Of a processor on which it pays, whosever this one is."""
    monkeypatch.setattr(onednn, "onednn_pays", lambda: True)


@pytest.mark.parametrize(("processor", "pays"), [("AMD EPYC 9654", True), ("Intel(R) Xeon(R) Processor", False)])
def test_products_are_left_to_mkl_where_it_is_as_quick(processor: str, pays: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onednn.provenance, "processor", lambda: processor)
    monkeypatch.setattr(onednn, "onednn_pays", ONEDNN_PAYS)
    ONEDNN_PAYS.cache_clear()
    model = nn.Sequential(nn.Linear(4, 4))
    onednn.quicken(model)
    ONEDNN_PAYS.cache_clear()
    assert type(model[0]) is (onednn.Linear if pays else nn.Linear)


def quick(*shape: int, bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    linear = nn.Sequential(nn.Linear(*shape, bias=bias))
    onednn.quicken(linear)
    assert type(linear[0]) is onednn.Linear
    return linear[0]


def inputs() -> dict[str, Tensor]:
    """Of 24 numbers each, laid out in memory in all the ways that a model may give them."""
    torch.manual_seed(1)
    whole = torch.randn(6, 7, 24)
    return {
        "one text": torch.randn(1, 24),
        "three axes": whole,
        "first tokens": whole[:, 0],
        "one row": torch.randn(24),
        "turned": torch.randn(24, 5).t(),
        "spread": torch.randn(1, 24).expand(5, 24),
        "every other": torch.randn(5, 48)[:, ::2],
        "four axes": torch.randn(2, 3, 4, 24),
    }


@pytest.mark.parametrize("name", inputs())
@pytest.mark.parametrize(("bias", "end"), [(True, "product"), (False, "sum"), (True, "rows")])
def test_a_product_and_its_gradients_are_those_of_float64(name: str, bias: bool, end: str):
    linear = quick(24, 10, bias=bias)
    exact, given = copy.deepcopy(linear).double(), inputs()[name]
    found: list[list[Tensor]] = []
    for module, x in ((linear, given.requires_grad_()), (exact, given.detach().double().requires_grad_())):
        y = module(x)
        torch.manual_seed(2)
        weights = torch.randn(y.shape, dtype=torch.float64).to(y.dtype)
        value = {"product": (y * weights).sum(), "sum": y.sum(), "rows": y.select(-1, 3).sum()}[end]
        leaves = [x, *module.parameters()]
        found.append([y, *torch.autograd.grad(value, leaves)])
    for quickly, exactly in zip(*found, strict=True):
        assert quickly.dtype == torch.float32 and quickly.shape == exactly.shape
        torch.testing.assert_close(quickly.double(), exactly, **CLOSE)


def test_a_large_product_is_that_of_float64_and_always_the_same():
    x, linear = torch.randn(64, 768), quick(768, 768)
    with torch.no_grad():
        torch.testing.assert_close(linear(x).double(), copy.deepcopy(linear).double()(x.double()), **CLOSE)
        assert torch.equal(linear(x), linear(x))


def test_what_has_no_gradient_keeps_nothing_for_one():
    """As a frozen weight under an adapter, whose input would be kept for nothing."""
    linear, kept = quick(24, 10), []
    x = torch.randn(6, 24, requires_grad=True)

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        linear.requires_grad_(False)(x).sum().backward()
        assert kept == [(10, 24)] and x.grad is not None
        kept.clear()
        linear.requires_grad_(True)(x.detach()).sum().backward()
        assert kept == [(6, 24)] and linear.weight.grad is not None
        with torch.no_grad():
            assert linear(x).grad_fn is None and kept == [(6, 24)]


@pytest.mark.parametrize("case", ["bf16", "float64", "empty"])
def test_other_than_float32_is_left_to_pytorch(case: str, monkeypatch: pytest.MonkeyPatch):
    def never(*_):
        raise AssertionError("a quick product")

    linear = quick(24, 10)
    monkeypatch.setattr(onednn, "product", never)
    with pytest.raises(AssertionError, match="a quick product"):
        linear(torch.randn(5, 24))
    expected, x = nn.Linear.forward, torch.randn(0 if case == "empty" else 5, 24, requires_grad=True)
    if case == "float64":
        linear, x = linear.double(), x.detach().double().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=case == "bf16"):
        y, plain = linear(x), expected(linear, x)
    assert torch.equal(y, plain) and y.dtype == {"bf16": torch.bfloat16, "float64": torch.float64}.get(case, x.dtype)
    y.sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


class Own(nn.Linear):
    """Of another library, with a way of its own."""


def test_a_model_keeps_its_weights_their_names_and_what_is_no_plain_product():
    torch.manual_seed(0)
    model = nn.ModuleDict({"plain": nn.Linear(4, 4), "own": Own(4, 4), "attention": nn.MultiheadAttention(4, 2)})
    model["shared"] = model["plain"]
    before = {name: (id(p), p.detach().clone()) for name, p in model.named_parameters()}
    kinds = {name: type(module) for name, module in model.named_modules()}
    for _ in range(2):  # the second time nothing is left to do
        onednn.quicken(model)
        now = {name: type(module) for name, module in model.named_modules()}
        assert {name for name in kinds if now[name] is not kinds[name]} == {"plain"}
        assert now["plain"] is onednn.Linear and model["shared"] is model["plain"]
        assert all(id(p) == before[n][0] and torch.equal(p, before[n][1]) for n, p in model.named_parameters())
    assert type(copy.deepcopy(model)["plain"]) is onednn.Linear


def train_with(cell: Cell, speed: Speed, home: Path) -> Path:
    """In a home of its own, since how a cell is computed is no part of its name."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ABLATE_HOME", str(home / speed.kernels / speed.reuse))
        folder = folder_of(cell)
        train_cell(folder, Asked(cell, "a cell", 1000, speed=speed))
    return folder


# At rates of a size that people train with: large ones make of a rounding error another cell, whatever the products.
RATES = {"encoder_lr": 1e-4, "head_lr": 1e-3}
CELLS = [
    {"loss": "ce+supcon", "view": "topk_tokens", "k": 3},
    {"loss": "moco"},
    {"loss": "rdrop", "encoder": {"tune": {"lora": {"r": 2, "dropout": 0.1}}}},
    {"loss": "ce+barlow", "encoder": {"model": "scratch:deberta-v2", "tune": {"last_blocks": 1}}},
    {"loss": "clear+mlm", "training": {"micro_batch": 3}},
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", rest_is_full(CELLS, CELLS[:1]), ids=lambda settings: settings["loss"])
def test_a_cell_has_the_curve_of_plain_products_but_for_rounding(
    settings: dict, source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[tuple[int, ...]] = []
    real = onednn.product
    monkeypatch.setattr(onednn, "product", lambda *given: asked.append(given[0].shape) or real(*given))
    training = RATES | settings.get("training", {})
    cell = make(source, data={"train": 24}, **settings | {"training": training})
    plain = train_with(cell, PLAIN, home)
    assert not asked
    fast = train_with(cell, FAST, home)
    assert len(asked) > 100
    np.testing.assert_allclose(curve(fast, "loss"), curve(plain, "loss"), rtol=1e-6)
    names = [set(load_file(folder / "checkpoint" / "weights.safetensors")) for folder in (plain, fast)]
    assert names[0] == names[1]
    told = [store.read_json(folder / "provenance.json")["speed"]["kernels"] for folder in (plain, fast)]
    assert told == ["plain", "fast"]


def test_cells_whose_weights_are_split_are_left_as_they_are(source: str, home: Path):
    split = make(source, training={"sharding": "fsdp"}, loss="ce")
    tokens = token_store.open(prepare_cell_tokens(split))
    assert speed_used(Asked(split, "a cell", 1000, speed=FAST), tokens)["kernels"] == "plain"
    for training, kind in (({}, onednn.Linear), ({"processes": 2, "sharding": "fsdp"}, nn.Linear)):
        cell = make(source, training=training, loss="moco")
        model = models.build_model(cell, token_store.open(prepare_cell_tokens(cell)), FAST)
        found = {type(module) for module in model.modules() if isinstance(module, nn.Linear)}
        assert found == {kind}  # of the slow copy and the head too
