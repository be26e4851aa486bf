"""A home with stores of what frozen blocks give, and a home without any."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from tests.contrastive.reuse.frozen_cells import SMALL, opened
from tests.contrastive.training.trained import make


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the store that all cells of the module read."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ABLATE_HOME", str(folder := tmp_path_factory.mktemp("home")))
        yield folder


@pytest.fixture
def home(shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without any store."""
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def bert(source: str, shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pretrained, as far as anyone can tell: in a folder with its tokenizer."""
    folder, tokens = tmp_path_factory.mktemp("bert"), opened(make(source, data=SMALL))
    shape = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=tokens.vocab_size, **shape), add_pooling_layer=False).save_pretrained(folder)
    PreTrainedTokenizerFast.from_pretrained(tokens.tokenizer).save_pretrained(folder)
    return f"file:{folder}"
