"""Frozen blocks computed apart: no bit differs, nothing that a view reads is hidden, and what is still is told."""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from contrastive.config.cell import Cell
from contrastive.data import locate
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.grid.frozen_readers import separable_blocks
from contrastive.models import model as models
from contrastive.models import tuning
from contrastive.training.gradcache import output_tensors
from contrastive.views import VIEWS
from contrastive.views.batches import Batch, collate
from tests.contrastive.training.trained import make
from tests.tiers import rest_is_full

BLOCKS = 4
SIZES = {"layers": BLOCKS, "hidden": 16, "heads": 2, "vocabulary": 300}
PAIRED = {"positive": "same", "negative": "other"}
MODELS = ("scratch:bert", "scratch:deberta-v2", "roberta")

# A loss for each view, and the settings that say which blocks it reads.
LOSS = {"cls": "supcon", "topk_tokens": "supcon", "cluster": "supcon", "layers": "supcon", "multiview": "supcon"}
LOSS |= {"momentum": "moco", "pair": "simcse_sup", "contextual": "simcse+mlm", "span": "declutr"}
SETTINGS: dict[str, list[dict]] = {
    "layers": [
        *({"layers": blocks, "level": "sentence"} for blocks in ((0,), (3,), (1, 2))),
        *({"layers": blocks, "level": "token", "k": 3} for blocks in ((0, 3), (3,), (2,))),
    ],
    "multiview": [{}, *({"middle": block} for block in range(BLOCKS))],
    "topk_tokens": [{"k": 3}],
    "cluster": [{"k": 4, "clusters": 2}],
    "consert": [{"change": change} for change in ("feature_cutoff", "token_cutoff")],
}
PLAIN = [view for view in VIEWS if view not in SETTINGS and view not in ("backtranslation", "multicrop")]  # no texts
OBJECTIVES = [
    {"loss": LOSS.get(view, "simcse"), "view": view} | settings
    for view in [*PLAIN, *SETTINGS]
    for settings in SETTINGS.get(view, [{}])
]


@pytest.fixture(scope="module")
def roberta(source: str, shared_home: Path) -> str:
    """One begun at random, in a folder with its tokenizer."""
    tokens = tokens_of(cell_of(source, "scratch:bert", {"last_blocks": 1}, loss="ce"))
    shape = {"num_hidden_layers": BLOCKS, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    config = RobertaConfig(
        vocab_size=tokens.vocab_size, pad_token_id=tokens.pad_id, max_position_embeddings=60, type_vocab_size=1, **shape
    )
    torch.manual_seed(0)
    RobertaForMaskedLM(config).save_pretrained(shared_home / "roberta")
    PreTrainedTokenizerFast.from_pretrained(tokens.tokenizer).save_pretrained(shared_home / "roberta")
    return f"file:{shared_home / 'roberta'}"


def cell_of(source: str, model: str, tune: dict, training: dict | None = None, **objective) -> Cell:
    encoder = {"model": model, "tune": tune, "scratch": SIZES if model.startswith("scratch:") else None}
    return make(source, encoder=encoder, data=PAIRED, training=training, **objective)


@cache
def tokens_of(cell: Cell) -> Tokens:
    return token_store.open_tokens(prepare_cell_tokens(cell))


def built(cell: Cell) -> tuple[models.Model, Batch]:
    """In training mode, so with all its dropout, and a few texts of unlike lengths."""
    tokens = tokens_of(cell)
    torch.manual_seed(0)
    model = models.Model(cell, tokens).train()
    return model, collate(tokens.splits["train"], np.arange(5), tokens.pad_id, tokens.special_ids)


def step(model: models.Model, batch: Batch, count: int) -> dict[str, Tensor]:
    """What a batch gives to the losses, and the gradient of the weights that train, with so many blocks apart."""
    model.cut = count
    model.zero_grad()
    torch.manual_seed(7)
    output = model(batch)
    given = output_tensors(output)
    numbers = torch.Generator().manual_seed(3)
    sum((tensor * torch.randn(tensor.shape, generator=numbers)).sum() for tensor in given).backward()
    found = {f"output {i}": tensor.detach() for i, tensor in enumerate(given)}
    found |= {f"targets {i}": g.targets for i, g in enumerate(output.groups) if g.targets is not None}
    found |= {f"mask {i}": group.mask for i, group in enumerate(output.groups)}
    return found | {n: p.grad for n, p in model.named_parameters() if p.grad is not None} | {"next": torch.rand(3)}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


# All views on the first model; on the others what looks into the encoder, or into its attention.
INTO = [
    {"loss": "supcon", "view": "cls"},
    {"loss": "supcon", "view": "topk_tokens", "k": 3},
    *({"loss": "supcon", "view": "multiview", "middle": block} for block in (0, 2)),
    {"loss": "supcon", "view": "layers", "layers": (1, 2), "level": "sentence"},
    {"loss": "supcon", "view": "layers", "layers": (0, 3), "level": "token", "k": 3},
]


@pytest.mark.parametrize(
    ("kind", "objective"),
    rest_is_full(product(MODELS, OBJECTIVES), [*product(MODELS[:1], OBJECTIVES), *product(MODELS[1:], INTO)]),
    ids=lambda o: o if isinstance(o, str) else "-".join(str(v) for v in list(o.values())[1:]),
)
def test_a_cut_changes_no_bit_and_hides_nothing_that_a_view_reads(kind, objective, source, roberta):
    """And one block more apart would hide what the view reads, or is one that trains."""
    name = roberta if kind == "roberta" else kind
    model, batch = built(cell := cell_of(source, name, {"last_blocks": 1}, **objective))
    assert model.cut == separable_blocks(cell) <= BLOCKS - 1
    if model.cut:
        assert_equal(step(model, batch, model.cut), step(model, batch, 0))
    if separable_blocks(cell) < BLOCKS - 1:
        with pytest.raises(IndexError, match="was not computed"):
            step(model, batch, separable_blocks(cell) + 1)
    for tuned in range(2, BLOCKS + 1):
        assert separable_blocks(cell_of(source, name, {"last_blocks": tuned}, **objective)) == min(
            BLOCKS - tuned, separable_blocks(cell)
        )


TUNES = [
    {"last_blocks": 0},
    {"last_blocks": 2},
    {"last_blocks": 3},
    {"last_blocks": 1, "frozen_dropout": False},
    {"last_blocks": 1, "lora": {"r": 2, "dropout": 0.3}},
    {"last_blocks": 2, "lora": {"r": 2}, "frozen_dropout": False},
]


@pytest.mark.parametrize(
    ("kind", "tune"),
    rest_is_full(product(MODELS, TUNES), [*product(MODELS[:1], TUNES), *product(MODELS[1:], TUNES[-1:])]),
    ids=str,
)
def test_a_cut_changes_no_bit_whatever_trains_above_it(kind: str, tune: dict, source: str, roberta: str):
    name = roberta if kind == "roberta" else kind
    model, batch = built(cell_of(source, name, tune, loss="rdrop"))
    assert model.cut == BLOCKS - tune["last_blocks"]
    for name, parameter in model.named_parameters():
        if name.endswith("lora_B.default.weight"):  # which begins as zeros, and would hide what comes from below
            torch.nn.init.normal_(parameter)
    apart = step(model, batch, model.cut)
    assert_equal(apart, step(model, batch, 0))
    trained = {int(name.partition(".layer.")[2].partition(".")[0]) for name in apart if ".layer." in name}
    assert trained == set(range(BLOCKS - tune["last_blocks"], BLOCKS))


def test_nothing_is_apart_where_nothing_is_frozen_or_processes_split_the_weights(source: str, shared_home: Path):
    whole = cell_of(source, "scratch:bert", {}, loss="ce")
    adapted = cell_of(source, "scratch:bert", {"lora": {"r": 2}}, loss="ce")
    assert separable_blocks(whole) == separable_blocks(adapted) == built(whole)[0].cut == built(adapted)[0].cut == 0
    last = {"last_blocks": 1}
    assert separable_blocks(cell_of(source, "scratch:bert", last, {"processes": 2}, loss="ce")) == BLOCKS - 1
    assert separable_blocks(cell_of(source, "scratch:bert", last, {"processes": 2, "sharding": "fsdp"}, loss="ce")) == 0


def test_a_convolution_after_the_first_block_is_read_from_the_configuration(roberta: str, source: str):
    cell = cell_of(source, roberta, {"last_blocks": 1}, loss="ce")
    assert not locate.has_convolution(cell.encoder) and separable_blocks(cell) == BLOCKS - 1
    path = Path(roberta.removeprefix("file:")) / "config.json"  # DeBERTa's largest says it so
    path.write_text((before := path.read_text()).replace("{", '{"conv_kernel_size": 3,', 1))
    assert locate.has_convolution(cell.encoder) and separable_blocks(cell) == 0
    path.write_text(before)


def modes(backbone: nn.Module) -> list[bool]:
    """Of the embeddings and each block: whether all of it is in training mode; an assertion that none is half so."""
    parts = [tuning.without_adapters(backbone).embeddings, *tuning.without_adapters(backbone).encoder.layer]
    found = [{module.training for module in part.modules()} for part in parts]
    assert all(len(of_part) == 1 for of_part in found)
    return [of_part.pop() for of_part in found]


@pytest.mark.parametrize("tune", [{}, {"lora": {"r": 2, "dropout": 0.1}}], ids=["blocks", "adapters"])
@pytest.mark.parametrize("kind", ["scratch:bert", "scratch:deberta-v2"])
def test_frozen_blocks_without_dropout_are_in_evaluation_mode_while_the_others_train(kind, tune, source, shared_home):
    """In the slow copy and in the twin too, and again after each look without dropout."""
    for loss, other in (("moco", "slow"), ("bert_ct", "twin")):
        still, _ = built(cell_of(source, kind, {"last_blocks": 2, "frozen_dropout": False} | tune, loss=loss))
        usual, batch = built(cell_of(source, kind, {"last_blocks": 2} | tune, loss=loss))
        for model, expected in ((still, [False] * 3 + [True] * 2), (usual, [True] * 5)):
            for backbone in (model.backbone, getattr(model, other)):
                assert modes(backbone) == expected
            assert model.dropout.training
            model.predict(batch)
            model.drop_twice(batch)
            assert modes(model.backbone) == modes(getattr(model, other)) == expected
            assert modes(model.eval().backbone) == [False] * 5
            model.train()
