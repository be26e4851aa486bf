"""A small real encoder, and a pass of numbers that are known."""

from collections.abc import Callable

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import nn
from transformers import PreTrainedTokenizerFast

from contrastive.contract.views import CLS, PAD, SEP, tiny_encoder
from contrastive.data.tokens import Tokens
from contrastive.views.batches import Batch
from contrastive.views.lexicon import Lexicon
from contrastive.views.translation import Rephrase
from contrastive.views.types import Encode, Encoded, Hidden
from tests.contrastive.views.toy_translation import untrained, word_tokenizer

VOCABULARY = """
[PAD] [UNK] [CLS] [SEP] [MASK] the car auto automobile machine big large happy glad felicitous film movie picture motion
buy purchase error mistake fault kid child stone rock begin start quick fast sofa couch lounge zebra of , .
motor ##car ##ish
"""
PIECES = VOCABULARY.split()  # fewer than 64, which is the encoder's vocabulary
WORDS = tuple(f"w{number}" for number in range(4, 64))  # the tokens 4 to 63


def set_dropout(model: nn.Module, share: float) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        elif hasattr(module, "dropout_prob"):
            module.dropout_prob = share


@pytest.fixture(scope="session")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Lexicon:
    """A real one over PIECES."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    return Lexicon(folder, 512)


@pytest.fixture(scope="session")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two translators between the words of `batch_of`, who understand nothing."""
    folder = tmp_path_factory.mktemp("talkative")
    return untrained(folder / "there", WORDS, seed=0), untrained(folder / "back", WORDS, seed=1)


@pytest.fixture(scope="session")
def rephrase(tmp_path_factory: pytest.TempPathFactory) -> Rephrase:
    """Reads and writes the tokens of `batch_of`."""
    folder, names = tmp_path_factory.mktemp("tokenizer"), ("<pad>", "<unk>", "[CLS]", "[SEP]")
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    word_tokenizer((*names, *WORDS), "[CLS] $A [SEP]", **special).save_pretrained(folder)
    return Rephrase(Tokens(("a", "b"), PAD, None, (PAD, CLS, SEP), 64, {}, folder), 16)


@pytest.fixture(params=["bert", "deberta-v2"])
def encode(request: pytest.FixtureRequest) -> Encode:
    return tiny_encoder(request.param)


@pytest.fixture
def known() -> Callable[..., Encoded]:
    """A pass whose blocks and attention are given; dropout negates, so that its outputs are told apart."""

    def make(batch: Batch, hidden: list[torch.Tensor], attention: list[torch.Tensor] | None = None) -> Encoded:
        rows = attention or []
        return Encoded(
            Hidden((torch.zeros_like(hidden[0]), *hidden), 0),
            batch,
            lambda states, _: states[:, 0],
            torch.neg,
            lambda _, block: rows[block],
        )

    return make
