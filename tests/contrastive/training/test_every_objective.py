"""Every loss on every view, and what else an objective may be: it trains what it says."""

import contextlib
import json
from itertools import product
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from transformers import BertForMaskedLM, PreTrainedTokenizerFast

from contrastive.config.cell import Cell
from contrastive.config.objective import Objective
from contrastive.config.registry import entries
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.losses import LOSSES
from contrastive.models import model
from contrastive.models.guide import with_guide
from contrastive.models.tuning import HEADS
from contrastive.training import train
from contrastive.views import VIEWS
from tests.contrastive.training.trained import GUIDE, LAST_BLOCK, make, run, trained_into
from tests.contrastive.views.toy_translation import ENGLISH, untrained
from tests.tiers import rest_is_full

NAMES = ("file:there", "file:back")  # the test has real ones
TWO_STEPS = {"train": 16, "validation": 0, "test": 16}
SETTINGS = {"k": 4, "clusters": 2, "layers": (0, 1), "translators": NAMES, "guide": GUIDE}


def combinations() -> list[dict]:
    """Every loss on every view that it can be computed on."""
    found = [{"loss": "ce"}, {"loss": "mlm"}, {"loss": "simcse", "view": "consert", "change": "position_shuffle"}]
    for loss, view in product(LOSSES, VIEWS):
        for level in ("token", "sentence") if view == "layers" else ("token",):
            given = {"loss": f"{loss}+mlm" if view == "contextual" else loss, "view": view}
            given |= {"level": level} if view == "layers" else {}
            with contextlib.suppress(ValidationError):
                if Objective(**given, **SETTINGS).canonical().view == view:
                    found.append(given)
    return found


def one_of_each_class(found: list[dict]) -> list[dict]:
    """One of each pair of a class of losses (what they are given) and one of views (their facts); no name left out."""
    losses, views = entries("contrastive.losses", "LOSSES"), entries("contrastive.views", "VIEWS")
    seen: set[object] = set()
    chosen = []
    for names_too in (False, True):
        for objective in found:
            loss, view = objective["loss"].removesuffix("+mlm"), objective.get("view")
            given = {"labels", "targets", "negatives", "guide", "grades"} & {*losses[loss].settings}
            kind = (losses[loss].input_name, losses[loss].is_class, losses[loss].facts.vectors, *given)
            facts = (views[view].tools[1:], views[view].facts, objective.get("level")) if view else ()
            news = {(kind, str(facts))} | ({loss, view} if names_too else set())
            if not news <= seen:
                chosen.append(objective)
                seen |= news | {loss, view}
    return chosen


CHANGES = ("token_cutoff", "span_cutoff", "dropout", "adversarial")
# What the product of losses and views leaves out: sums of terms, changes, levels.
OBJECTIVES = [
    *({"loss": loss} for loss in ("ce", "rdrop", "mlm", "ce+mlm", "simcse+mlm", "rdrop+mlm", "ce+supcon+mlm")),
    *({"loss": f"ce+{loss}"} for loss in LOSSES if loss not in ("ce", "rdrop", "mlm")),
    {"loss": "rdrop+byol"},  # two predictions and slow vectors, both of one view
    {"loss": "declutr+mlm"},
    {"loss": "clear+mlm"},
    {"loss": "ce+simcse", "view": "pair"},
    *({"loss": "ce+simcse", "view": "consert", "change": change} for change in CHANGES),
    {"loss": "ce+ntxent", "view": "multiview"},
    {"loss": "ce+dcl", "view": "topk_tokens", "k": 4},
    {"loss": "ce+supcon", "view": "topk_tokens", "k": 4},
    {"loss": "ce+supcon", "view": "cluster", "k": 6, "clusters": 2},
    {"loss": "ce+supcon", "view": "layers", "layers": (0, 1), "level": "sentence"},
    {"loss": "ce+supcon", "view": "layers", "layers": (1,), "level": "token", "k": 4},
]
OF_DEBERTA = [*OBJECTIVES[:3], *OBJECTIVES[-6:]]  # losses of logits, and the views that look into the encoder


OF_TEXTS = [objective for objective in combinations() if objective.get("view") != "multicrop"]
PAIRED = [("bert", objective) for objective in OF_TEXTS]
USUAL = [("bert", objective) for objective in one_of_each_class(OF_TEXTS)]
SUMS = [*product(["bert"], OBJECTIVES), *product(["deberta-v2"], OF_DEBERTA)]


@pytest.mark.parametrize(
    ("architecture", "objective"),
    [*rest_is_full(PAIRED, USUAL), *SUMS],
    ids=lambda o: o if isinstance(o, str) else "-".join(str(v) for v in o.values()),
)
def test_every_objective_trains_what_it_says(architecture, objective, source, shared_home, tmp_path):
    """Two steps: each term alone gives the encoder a gradient, all that is said to train moves, and nothing else.

    The audit runs inside; besides, what moved is exactly what the configuration says.
    """
    asked = entries("contrastive.views", "VIEWS")[objective["view"]].settings if "view" in objective else ()
    settings = {name: SETTINGS[name] for name in asked if name in SETTINGS} | objective
    if "translators" in settings:
        settings["translators"] = [untrained(tmp_path / str(seed), ENGLISH, seed=seed) for seed in range(2)]
    encoder = LAST_BLOCK | {"model": f"scratch:{architecture}"}
    cell, folder = make(source, encoder=encoder, data=TWO_STEPS, **settings), tmp_path
    tokens = token_store.open_tokens(prepare_cell_tokens(cell))
    assert_trains_what_it_says(cell, tokens, folder)


def assert_trains_what_it_says(cell: Cell, tokens: Tokens, folder: Path) -> None:
    train.start_accelerator(cell)
    before = model.Model(cell, with_guide(tokens, cell))
    after = dict(trained_into(folder, cell, tokens).model.named_parameters())
    moved = {name for name, old in before.named_parameters() if not torch.equal(old, after[name].cpu())}
    expected = {n for n, p in after.items() if p.requires_grad and n.startswith(HEADS)}
    expected |= {n for n in after if ".layer.1." in n and not n.startswith("slow.")}
    assert {name for name in moved if not name.startswith("slow.") and ".target." not in name} == expected
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for term in cell.objective.term_weights():
        assert all(f"loss.{term}" in row for row in rows)
        assert (rows[0][f"gradient_norm.{term}"] > 0) != (term == "moco")  # whose queue is empty at the first step
    if "supcon" in cell.objective.term_weights():
        assert all(row["excess.supcon"] > -1e-5 for row in rows)


IMAGES = {"images": {"size": 8, "channels": 1}, "train": 160, "validation": 0, "test": 16}
SIMCLR = {"crop": (0.5, 1.0), "shift": 0.1}


def of_images(objective: dict, kind: str) -> Cell:
    encoder = LAST_BLOCK | {"model": f"scratch:{kind}"}
    return make(
        "package:digits", encoder=encoder, data=IMAGES, training={"augment": SIMCLR, "batch_size": 80}, **objective
    )


def fitting_images() -> list[tuple[str, dict]]:
    found = []
    for kind, objective in product(("convnet", "vit"), combinations()):
        with contextlib.suppress(ValidationError):
            of_images({name: SETTINGS[name] for name in SETTINGS if name == "layers"} | objective, kind)
            found.append((kind, objective))
    return found


PICTURED = fitting_images()
USUAL_PICTURED = [("convnet", objective) for objective in one_of_each_class([o for k, o in PICTURED if k == "vit"])]


@pytest.mark.parametrize(
    ("kind", "objective"),
    rest_is_full(PICTURED, USUAL_PICTURED),
    ids=lambda o: o if isinstance(o, str) else "-".join(str(v) for v in o.values()),
)
def test_every_objective_of_images_trains_what_it_says(kind: str, objective: dict, shared_home: Path, tmp_path: Path):
    asked = entries("contrastive.views", "VIEWS")[objective["view"]].settings if "view" in objective else ()
    cell = of_images({name: SETTINGS[name] for name in asked if name in SETTINGS} | objective, kind)
    tokens = token_store.open_tokens(prepare_cell_tokens(cell))
    assert_trains_what_it_says(cell, tokens, tmp_path)


def test_a_frozen_head_for_hidden_words_guesses_and_stays(source: str, home: Path, tmp_path: Path):
    """The view contextual without the term mlm, on an encoder with a head of its own; and one without is refused."""
    learnt = make(source, loss="simcse+mlm")
    tokens = token_store.open_tokens(prepare_cell_tokens(learnt))
    train.start_accelerator(learnt)
    built = model.Model(learnt, tokens)
    whole = BertForMaskedLM(built.backbone.config)
    whole.bert.load_state_dict(built.backbone.state_dict())
    for name, parts in (("with", whole), ("without", whole.bert)):
        parts.save_pretrained(tmp_path / name)
        PreTrainedTokenizerFast.from_pretrained(tokens.tokenizer).save_pretrained(tmp_path / name)
    with_one, without = (
        make(source, encoder={"model": f"file:{tmp_path / name}", "scratch": None}, loss="simcse", view="contextual")
        for name in ("with", "without")
    )
    tokens = token_store.open_tokens(prepare_cell_tokens(with_one))
    train.start_accelerator(with_one)
    before = model.Model(with_one, tokens)
    torch.testing.assert_close(before.masked.head.state_dict(), whole.cls.state_dict())
    (home / "cell").mkdir()
    after = trained_into(home / "cell", with_one, tokens).model
    own = [name for name, _ in before.named_parameters() if name.startswith("masked.")]
    assert own and all(torch.equal(before.get_parameter(n), after.get_parameter(n).cpu()) for n in own)
    with pytest.raises(UserError, match="no masked-LM head: its weights lack cls.predictions"):
        run(without)
