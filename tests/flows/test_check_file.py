"""`ablate check`: a good loss and a good view pass, and each planted fault is found by the check that looks for it."""

import re
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from contrastive.config import objective, registry, scores
from contrastive.contract import Broken, losses, processes
from contrastive.errors import UserError
from contrastive.evaluation.metrics import METRICS
from contrastive.losses import LOSSES
from contrastive.models.pooling import POOLINGS
from contrastive.runs import plugins
from contrastive.views import VIEWS
from flows import cli

LOSS = """
import torch
import torch.distributed as dist
from jaxtyping import Float
from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import exact

def mine(views: Float[torch.Tensor, "n 2 d"], *, labels, mask=None, chunk: int | None = None):
    kept = torch.ones(views.shape[:2], dtype=torch.bool) if mask is None else mask
    whole = exact(views)[kept.all(1)]
    return (whole[:, 0] - whole[:, 1]).square().sum() / max(1, len(whole))

def mine_oracle(views, *, mask):
    terms = [((x - y) ** 2).sum() for (x, y), both in zip(views, mask.all(1).tolist()) if both]
    return sum(terms) / len(terms)

MINE_FACTS = LossFacts(vectors=2)
LOSSES = {"mine": mine}
"""
STATE = """
import torch
from torch import nn
from contrastive.losses.similarity import exact

class Mine(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, views):
        with torch.no_grad():
            self.mean = 0.9 * self.mean + 0.1 * exact(views).mean((0, 1))
        return (exact(views) - self.mean).square().mean()

LOSSES = {"mine": Mine}
"""
VIEW = """
import random
import torch
from contrastive.config.facts import ViewFacts
from contrastive.views.types import VectorGroup, View

def pair(encode, batch):
    first, second = encode(batch), encode(batch)
    both = torch.stack([first.pooled(), second.pooled()], 1)
    mask = batch.attention_mask.sum(1) > 0
    return View([VectorGroup(both, mask[:, None].expand(-1, 2))], first.dropout(first.pooled())[:, None])

PAIR_FACTS = ViewFacts(vectors=2, passes=2)
VIEWS = {"mine": pair}
"""
OTHERS = """
from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.types import Score

def mine(inputs):
    return [Score("mine", float(inputs.embeddings.std()), True, len(inputs.embeddings))]

def mean(hidden, batch):
    weight = batch.attention_mask[..., None]
    return (hidden * weight).sum(1) / weight.sum(1)

MINE_FACTS = MetricFacts(scores=(ScoreFacts("mine", high=None),))
METRICS = {"mine": mine}
POOLINGS = {"own_mean": mean}
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    yield tmp_path
    for module in registry.PLUGINS:
        sys.modules.pop(module, None)
    registry.PLUGINS.clear()
    for table, name in ((LOSSES, "mine"), (VIEWS, "mine"), (METRICS, "mine"), (POOLINGS, "own_mean")):
        table.pop(name, None)
    for module in (registry, objective, scores):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def check(place: Path, code: str) -> Result:
    (place / "my.py").write_text(code)
    return CliRunner().invoke(cli.app, ["check", str(place / "my.py")])


def changed(code: str, old: str, new: str) -> str:
    assert old in code
    return code.replace(old, new)


@pytest.mark.parametrize(
    ("code", "count"), [(LOSS, 11), (STATE, 8), (VIEW, 5), (OTHERS, 4)], ids=["loss", "state", "view", "others"]
)
def test_what_is_good_passes(place: Path, code: str, count: int, monkeypatch: pytest.MonkeyPatch):
    if code == STATE:  # the two processes of the first take seconds
        monkeypatch.setattr(losses, "equals_one_process", lambda name, copy: None)
    done = check(place, code)
    assert done.exit_code == 0 and len(done.stdout.splitlines()) == count, done.stdout
    assert all(re.match("ok   (mine|own_mean): ", line) for line in done.stdout.splitlines())


FAULTS = [
    (LOSS, ".square().sum()", ".square().sum(-1)", "it returns one number", "it returned (6,)"),
    (LOSS, '"n 2 d"', '"n 3 d"', "it has the shape that its facts say", 'says "n 3 d", and its facts vectors=2'),
    (LOSS, "exact(views)", "views", "it stays in float32 under autocast", "it returned torch.bfloat16"),
    (LOSS, "exact(views)", "exact(views.half())", "it equals its oracle", "on random batch 0 its value differs"),
    (LOSS, "(whole[:, 0] -", "(whole[:, 0] / whole[:, 0].norm(dim=-1, keepdim=True) -", "odd batches stay finite",
     "a vector of zeros: its value is nan"),
    (LOSS, "exact(views)", "exact(views.detach())", "it has a gradient", "something detaches it"),
    (LOSS, "exact(views)", "exact(views.detach() + 0 * views)", "it has a gradient", "no gradient reaches the vectors"),
    (LOSS, ".square()", ".square()[:1]", "the order of texts does not matter", "with the texts in another order"),
    (LOSS, "if mask is None", "if True", "masked vectors change nothing", "with NaN in masked vectors"),
    (LOSS, "max(1, len(whole))", "len(whole)", "all masked is zero", "divide by max(1, count)"),
    (LOSS, "    return (whole", "    return (chunk or 1) * (whole", "chunks change nothing", "with chunk 3 its"),
    (LOSS, "sum(terms)", "2 * sum(terms)", "it equals its oracle", "on random batch 0 its value differs"),
    (LOSS, "    return (whole", "    return (2 if dist.is_initialized() else 1) * (whole", "two processes equal one",
     "in two processes the value is not that of one"),
    (LOSS, "    return (whole", "    if len(whole) == 1:\n        raise RuntimeError('alone')\n    return (whole",
     "odd batches stay finite", "my.py, line 12, in mine: RuntimeError: alone"),
    (LOSS, "LossFacts(vectors=2)", "LossFacts()", "it has the shape that its facts say", "and its facts vectors=None"),
    (STATE, "exact(views) - ", "sum(views.split([1, 1], 1))[:, 0] - ", "it has the shape that its facts say",
     "RuntimeError: split_with_sizes expects split_sizes to sum exactly to 3"),
    (STATE, "zeros(size))", "zeros(size), persistent=False)", "a resumed state continues", "after resuming its"),
    (VIEW, "vectors=2", "vectors=3", "it has shapes and masks", "its facts say 3 vectors, and it makes 2"),
    (VIEW, "pooled()], 1)", "pooled()], 1).detach()", "gradients reach the encoder", "something detaches them"),
    (VIEW, "passes=2", "passes=1", "it asks of the encoder what its facts say", "its facts say (1, 0, 0)"),
    (VIEW, "pooled()], 1)", "pooled()], 1) + random.random()", "the same seed gives the same views", "other vectors"),
    (OTHERS, "float(inputs.embeddings.std())", "float('inf')", "its scores are numbers", "a finite float"),
    (OTHERS, "high=None", "high=0.5", "its scores are numbers", "outside 0.0 to 0.5 of its facts"),
    (OTHERS, ".std())", ".std() / inputs.embeddings.std())", "equal vectors can be", "for equal vectors mine is nan"),
    (OTHERS, "hidden * weight", "hidden", "padding changes nothing", "use batch.attention_mask"),
    (OTHERS, "(hidden * weight).sum(1) / weight.sum(1)", "hidden[:, :1]", "it makes one vector", "texts × dimensions"),
    (VIEW, "sum(1) > 0", "sum(1) > 3", "a text of one word has views", "has no vector that the mask keeps"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "old", "new", "title", "said"), FAULTS, ids=[fault[2] for fault in FAULTS])
def test_a_fault_is_found_by_its_check(
    code: str, old: str, new: str, title: str, said: str, place: Path, monkeypatch: pytest.MonkeyPatch
):
    if title != "two processes equal one":  # which take seconds
        monkeypatch.setattr(losses, "equals_one_process", lambda name, copy: None)
    done = check(place, changed(code, old, new))
    name, lines = "own_mean" if "hidden" in new else "mine", done.stdout.splitlines()
    after = [later for line, later in pairwise(lines) if line.startswith(f"FAIL {name}: {title}")]
    assert done.exit_code == 1 and len(after) == 1 and said in after[0], done.stdout


def test_what_cannot_be_read_is_an_error_of_its_own(place: Path):
    assert isinstance(check(place, "def (").exception, UserError)
    assert "cannot be imported: ZeroDivisionError" in str(check(place, LOSS + "1 / 0\n").exception)


def test_a_check_does_not_allow_the_file_to_run(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place))
    assert check(place, VIEW).exit_code == 0 and not plugins.allowed()


def wait(number: int) -> None:
    while True:
        time.sleep(number)


def test_processes_that_wait_for_ever_are_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "PATIENCE", 1.0)
    with pytest.raises(Broken, match="wait for each other"):
        processes.in_two_processes(wait, 1)
