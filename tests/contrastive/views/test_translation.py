"""Texts there and back: what is known to come out, once a text, with nothing else disturbed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MarianMTModel

from contrastive.data.tokens import Tokens, train_tokenizer
from contrastive.errors import UserError
from contrastive.views import translation
from contrastive.views.batches import Batch
from contrastive.views.translation import CPU, Rephrase, back_and_forth, load_translator, translated
from tests.contrastive.views.toy_translation import ENGLISH, untrained

TEXTS = ["good", "bad rainy sad", "happy quick fine sunny", "slow dark poor bad rainy", "bright good"]


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("translators")
    return untrained(folder / "there", ENGLISH, seed=0), untrained(folder / "back", ENGLISH, seed=1)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts of each call of the real models; nothing is translated or loaded so far."""
    translation._remembered.clear()
    load_translator.cache_clear()
    real, counts = MarianMTModel.generate, []

    def counted(self, **given):
        counts.append(len(given["input_ids"]))
        return real(self, **given)

    monkeypatch.setattr(MarianMTModel, "generate", counted)
    return counts


def test_a_text_is_translated_once(translators, generated):
    first = back_and_forth(TEXTS + TEXTS[:2], translators, CPU)
    assert generated[0] == 5 and len(generated) == 2
    assert back_and_forth(["sad sunny", *TEXTS], translators, CPU)[1:] == first[:5]
    assert generated[2:] in ([1], [1, 1])
    back_and_forth(TEXTS, (translators[1], translators[0]), CPU)  # other models
    assert len(generated) > 4


def test_random_state_precision_and_gradient_mode_are_left_alone(translators, generated):
    expected = back_and_forth(TEXTS, translators, CPU)
    translation._remembered.clear()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert back_and_forth(TEXTS, translators, CPU) == expected
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    assert torch.equal(torch.get_rng_state(), before) and torch.is_grad_enabled()
    model = load_translator(translators[0], "any", CPU).model
    assert not model.training and torch.equal(torch.get_rng_state(), before)


WORDS = tuple(f"w{i}" for i in range(40))


@pytest.fixture(scope="module")
def babbler(tmp_path_factory: pytest.TempPathFactory) -> str:
    return untrained(tmp_path_factory.mktemp("babbler"), WORDS, positions=64)


def drawn(count: int) -> list[str]:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [" ".join(WORDS[i] for i in torch.randint(0, 40, (n,), generator=generator)) for n in lengths]


@pytest.mark.full
def test_what_is_translated_beside_a_text_does_not_matter(babbler: str, monkeypatch: pytest.MonkeyPatch):
    """Neither its padding nor its length, which bounds how much is written, nor the place of the end."""
    texts = drawn(100)
    together = translated(load_translator(babbler, "", CPU), texts)
    monkeypatch.setattr(translation, "AT_A_TIME", 1)
    assert translated(load_translator(babbler, "", CPU), texts) == together
    assert len(set(together)) > 30 and len({len(text.split()) for text in together}) > 10


def prepared(folder: Path) -> Tokens:
    """The tokenizer of a scratch encoder as `prepare` leaves it."""
    tokenizer = train_tokenizer([" ".join(ENGLISH), "你好 吗", "unfinely"], 300)
    tokenizer.save_pretrained(folder)
    special = tuple(sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}))
    return Tokens(("a",), tokenizer.pad_token_id, tokenizer.mask_token_id, special, len(tokenizer), {}, folder)


def batch_of(tokens: Tokens, texts: list[str]) -> Batch:
    rows = Rephrase(tokens, 64).tokenizer(texts)["input_ids"]
    ids, mask = translation.padded(rows, tokens.pad_id)
    return Batch(ids, mask, ~mask | torch.isin(ids, torch.tensor(tokens.special_ids)), torch.arange(len(texts)))


def test_a_batch_is_rephrased_as_the_encoder_would_have_read_the_other_texts(translators, tmp_path: Path):
    tokens = prepared(tmp_path)
    batch, other = batch_of(tokens, [*TEXTS, ""]), back_and_forth(TEXTS, translators, CPU)
    expected = batch_of(tokens, [*other, ""])
    rephrased = Rephrase(tokens, 64)(batch, translators)
    assert not torch.equal(rephrased.input_ids, batch.input_ids)
    for name in ("input_ids", "attention_mask", "special", "labels"):
        assert torch.equal(getattr(rephrased, name), getattr(expected, name))
    short = Rephrase(tokens, 4)(batch, translators)
    assert torch.equal(short.input_ids[:, :3], expected.input_ids[:, :3]) and short.input_ids.shape[1] == 4


def cut_a_layer(weights: Path) -> None:
    kept = {name: tensor for name, tensor in load_file(weights).items() if "decoder.layers.0.encoder" not in name}
    save_file(kept, weights, metadata={"format": "pt"})


UNLOADED = "no translation model could be loaded from"
DAMAGE: list[tuple[str, Callable[[Path], object], str]] = [
    ("model.safetensors", lambda path: os.truncate(path, 1000), UNLOADED),
    ("config.json", lambda path: path.write_text('{"model_type": "bert"}'), UNLOADED),
    ("model.safetensors", cut_a_layer, "lacks the weights .*: the translation model is incomplete"),
]


@pytest.mark.parametrize(("file", "harm", "message"), DAMAGE)
def test_a_model_that_does_not_translate(file: str, harm: Callable, message: str, babbler: str, tmp_path: Path):
    folder = shutil.copytree(babbler.removeprefix("file:"), tmp_path / "model")
    harm(folder / file)
    with pytest.raises(UserError, match=message):
        back_and_forth(["good"], (f"file:{folder}", babbler), CPU)
