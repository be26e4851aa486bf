"""Cells that split their training state: the numbers of one process, in whatever way they do it."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from contrastive import losses
from contrastive.config.cell import Training
from contrastive.config.objective import Objective
from contrastive.errors import UserError
from contrastive.grid import deepspeed_file
from contrastive.losses import LOSSES
from tests.contrastive.training.launched import Case, make, run, train_in_two, write_sources
from tests.contrastive.training.trained import curve
from tests.tiers import rest_is_full

SHIPPED = Path(__file__).parents[3] / "configs" / "deepspeed"
KINDS = {path.stem: f"deepspeed:{path}" for path in SHIPPED.glob("*.json")} | {"fsdp": "fsdp"}
SPLIT = ("zero3", "zero3_offload", "fsdp")  # in which no process holds all weights
SLOWLY = {"head_lr": 1e-4, "encoder_lr": 1e-5, "epochs": 1}  # else Adam makes much of the last bits

# Recipes that weights are read in different ways for.
RECIPES: dict[str, dict] = {
    "pair": {},
    "tokens": {"loss": "ce+supcon", "view": "topk_tokens", "k": 3, "training": {"accumulate": 2, "clip": 0.1}},
    "clusters": {"loss": "sccl", "projection": 16, "clusters": 3},
    "slow copy": {"loss": "moco", "view": "momentum", "queue": 16},
    "adapters": {"tune": {"lora": {"r": 2}}},
    "last block": {"tune": {"last_blocks": 1}, "training": {"precision": "bf16"}},
}
USUAL = [("tokens", "zero3"), ("tokens", "fsdp")]  # which read tokens, accumulate and clip
EQUAL = [
    *(("pair", kind) for kind in ("zero1", "zero2_offload", "zero3", "zero3_offload", "fsdp")),
    *itertools.product(("tokens",), ("zero2", "zero3", "fsdp")),
    *itertools.product(("clusters",), ("zero1", "zero3", "fsdp")),
    *itertools.product(("slow copy",), ("zero2", "fsdp")),
    *itertools.product(("adapters", "last block"), ("zero3", "fsdp")),
]
STOPPED = ("zero2_offload", "zero3_offload", "fsdp")
FAULTS = ("zero1", "zero3", "fsdp")


def cell(sources: tuple[str, str], recipe: str, kind: str | None, processes: int = 2):
    chosen = dict(RECIPES[recipe])
    training = SLOWLY | chosen.pop("training", {}) | ({"sharding": KINDS[kind]} if kind else {})
    return make(sources, processes, training=training, **chosen)


class Stop:
    """Ends a training before its sixth step, after the checkpoint of three."""

    def __init__(self):
        self.steps = 0

    def __call__(self) -> None:
        self.steps += 1
        if self.steps == 6:
            raise KeyboardInterrupt


def detach_simcse() -> None:
    real = losses.LOSSES["simcse"]

    def detached(views, *, mask=None, temperature=0.05):
        return real(views.detach(), mask=mask, temperature=temperature) + 0.0 * views.sum()

    LOSSES["simcse"] = detached


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest):
    """Every recipe trained alone, and in two processes that share it; all of the latter in one pair of processes."""
    into = tmp_path_factory.mktemp("sharded")
    whole = "not full" not in request.config.getoption("-m")
    equal, stopped, faults = (EQUAL, STOPPED, FAULTS) if whole else (USUAL, (), ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(into))
        (into / "sources").mkdir()
        sources = write_sources(into / "sources")
        for recipe in dict(equal):
            folder, failed = run(cell(sources, recipe, None, processes=1))
            assert failed is None, failed
            (into / recipe).symlink_to(folder)
        cases = [Case(f"{recipe}-{kind}", cell(sources, recipe, kind)) for recipe, kind in equal]
        for kind in stopped:
            same = cell(sources, "pair", kind)
            cases += [Case(f"stopped-{kind}", same, each_step=Stop()), Case(f"stopped-{kind}", same)]
        cases += [Case(f"fault-{kind}", cell(sources, "pair", kind), before=detach_simcse) for kind in faults]
        train_in_two(cases, into)
    return into


@pytest.mark.parametrize(("recipe", "kind"), rest_is_full(EQUAL, USUAL), ids=lambda value: value)
def test_two_processes_that_share_the_state_train_as_one(recipe: str, kind: str, trained: Path):
    alone, shared = trained / recipe, trained / f"{recipe}-{kind}"
    assert not list(shared.glob("failed.*")), next(shared.glob("failed.*")).read_text()
    precise = RECIPES[recipe].get("training", {}).get("precision") != "bf16"
    together, apart = (curve(folder, "loss", "gradient_norm", "lr.encoder") for folder in (shared, alone))
    np.testing.assert_allclose(together[:, [0, 2]], apart[:, [0, 2]], rtol=1e-4 if precise else 1e-2)
    rounding = 2e-6  # of a norm: those of `clusters` are below 1e-3, and on an AMD EPYC 6e-7 apart
    np.testing.assert_allclose(together[:, 1], apart[:, 1], rtol=1e-3 if precise else 5e-2, atol=rounding)
    with np.load(alone / "embeddings.npz") as one, np.load(shared / "embeddings.npz") as two:
        assert one.files == two.files
        for name in ("test", "test/cls", "train", "train/first_last", "test.twice"):
            np.testing.assert_allclose(two[name], one[name], atol=1e-4 if precise else 1e-2, err_msg=name)
    weights, others = (load_file(folder / "checkpoint" / "weights.safetensors") for folder in (alone, shared))
    assert {n: (w.shape, w.dtype) for n, w in weights.items()} == {n: (w.shape, w.dtype) for n, w in others.items()}
    for name, weight in weights.items():
        np.testing.assert_allclose(others[name], weight, atol=1e-4, err_msg=name)
    logs = ((folder / "metrics.jsonl").read_text().splitlines() for folder in (alone, shared))
    keys, others = ({key for line in log for key in json.loads(line)} for log in logs)
    by_term = {key for key in keys if key.startswith("gradient_norm.")}
    assert keys - others == (by_term if kind in SPLIT else set()) and not others - keys


@pytest.mark.full
@pytest.mark.parametrize("kind", STOPPED)
def test_a_shared_cell_that_was_stopped_ends_with_the_numbers_of_an_undisturbed_one(kind: str, trained: Path):
    undisturbed, stopped = trained / f"pair-{kind}", trained / f"stopped-{kind}"
    assert "KeyboardInterrupt" in (stopped / "failed.0").read_text() and (stopped / "resume" / "state.pt").exists()
    names = ("step", "loss", "gradient_norm")
    assert (curve(stopped, *names) == curve(undisturbed, *names)).all()
    for name in ("checkpoint/weights.safetensors", "embeddings.npz"):
        assert (stopped / name).read_bytes() == (undisturbed / name).read_bytes()


@pytest.mark.full
@pytest.mark.parametrize("kind", FAULTS)
def test_the_audit_stops_a_shared_cell_with_a_dead_term(kind: str, trained: Path):
    for rank in (0, 1):
        said = (trained / f"fault-{kind}" / f"failed.{rank}").read_text()
        assert "GradientPathError: simcse gave the encoder no gradient" in said


def test_each_shipped_file_says_only_how_the_state_is_shared():
    assert {path.stem for path in SHIPPED.glob("*.json")} == {
        f"zero{stage}{more}" for stage in (1, 2, 3) for more in ("", "_offload")
    }
    assert len({deepspeed_file.sharding_digest(KINDS[kind]) for kind in KINDS if kind != "fsdp"}) == 6
    for kind in KINDS.keys() - {"fsdp"}:
        said = deepspeed_file.file_settings(KINDS[kind])["zero_optimization"]
        assert said["stage"] == int(kind[4]) and ("offload_optimizer" in said) == kind.endswith("_offload")


ZERO = {"zero_optimization": {"stage": 2}}


REFUSED = [
    (None, "there is no file"),
    ("{", "the file is not readable JSON"),
    ("[]", "expected a JSON object"),
    ("{}", "zero_optimization.stage must be 1, 2 or 3"),
    ({"zero_optimization": {"stage": 0}}, "without ZeRO, leave `sharding` out"),
    (ZERO | {"optimizer": {"type": "AdamW"}}, "remove `optimizer`; set it in the experiment file, training.head"),
    (ZERO | {"tensorboard": {"enabled": True}}, "remove `tensorboard`; only ZeRO is supported"),
    ({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}, "offload_param.device must be cpu"),
]


@pytest.mark.parametrize(("content", "said"), REFUSED)
def test_a_file_that_cannot_be_used_is_refused_with_what_to_do(content, said: str, tmp_path: Path):
    path = tmp_path / "zero.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match=said):
        deepspeed_file.file_settings(f"deepspeed:{path}")


def test_what_a_file_leaves_to_others_is_left_out(tmp_path: Path):
    auto = {"optimizer": {"type": "auto", "params": {"lr": "auto"}}, "train_batch_size": "auto", **ZERO}
    (tmp_path / "auto.json").write_text(json.dumps(auto))
    (tmp_path / "plain.json").write_text(json.dumps(ZERO, indent=4))
    given, same = (f"deepspeed:{tmp_path / name}.json" for name in ("auto", "plain"))
    assert deepspeed_file.file_settings(given) == ZERO
    assert deepspeed_file.sharding_digest(given) == deepspeed_file.sharding_digest(same)


@pytest.mark.parametrize(
    ("kind", "objective", "said"),
    [
        ("zero3", {"loss": "ce+moco", "view": "momentum"}, "the view momentum .* take ZeRO 1 or 2"),
        ("fsdp", {"loss": "ce+simcse", "view": "consert", "change": "adversarial"}, "adversarial .* take ZeRO 1 or 2"),
        ("zero3", {"loss": "ce+simcse", "view": "contextual"}, "contextual .* take ZeRO 1 or 2"),
        ("zero1", {"loss": "swav"}, "swav cannot be trained with .* its prototypes are frozen .* take sharding fsdp"),
    ],
)
def test_an_objective_that_cannot_be_shared_is_refused(kind: str, objective: dict, said: str):
    assert deepspeed_file.sharding_conflict(Objective(**objective), Training()) == ""
    assert re.search(said, deepspeed_file.sharding_conflict(Objective(**objective), Training(sharding=KINDS[kind])))
