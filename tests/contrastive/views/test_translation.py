"""Texts there and back: what is known to come out, once a text, with nothing else disturbed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from contrastive.data.tokens import Tokens, train_tokenizer
from contrastive.errors import UserError
from contrastive.views import translation
from contrastive.views.batches import Batch
from contrastive.views.translation import CPU, Rephrase, back_and_forth, load_translator, translated
from tests.contrastive.views.toy_translation import ENGLISH, paraphrased, untrained

TEXTS = ["good", "bad rainy sad", "happy quick fine sunny", "slow dark poor bad rainy", "bright good"]


@pytest.fixture
def forgotten():
    """Nothing translated and nothing loaded so far."""
    translation._remembered.clear()
    load_translator.cache_clear()


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch, forgotten) -> list[int]:
    """The number of texts of each call of the real models."""
    from transformers import T5ForConditionalGeneration

    real, counts = T5ForConditionalGeneration.generate, []

    def counted(self, **given):
        counts.append(len(given["input_ids"]))
        return real(self, **given)

    monkeypatch.setattr(T5ForConditionalGeneration, "generate", counted)
    return counts


@pytest.mark.full
def test_a_text_is_translated_once(translators, generated):
    back_and_forth(TEXTS + TEXTS[:2], translators, CPU)
    assert generated == [5, 5]
    assert back_and_forth(["sad sunny", *TEXTS], translators, CPU)[0] == paraphrased("sad sunny")
    assert generated == [5, 5, 1, 1]
    back_and_forth(TEXTS, (translators[1], translators[0]), CPU)  # other models
    assert len(generated) > 4


@pytest.mark.full
def test_random_state_precision_and_gradient_mode_are_left_alone(translators, forgotten):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert back_and_forth(TEXTS, translators, CPU) == [paraphrased(text) for text in TEXTS]
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


@pytest.mark.full
def test_a_batch_is_rephrased_as_the_encoder_would_have_read_the_other_texts(translators, tmp_path: Path):
    tokens = prepared(tmp_path)
    batch, expected = batch_of(tokens, [*TEXTS, ""]), batch_of(tokens, [*(paraphrased(text) for text in TEXTS), ""])
    found = Rephrase(tokens, 64)(batch, translators)
    for name in ("input_ids", "attention_mask", "special", "labels"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
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
