"""The files of a split in a hub repository. Downloads are tested in tests/contrastive/sources/test_locate.py."""

from pathlib import Path

import pytest
from huggingface_hub import constants

from contrastive import data
from contrastive.config.cell import Data
from contrastive.data import hub
from contrastive.errors import UserError
from tests.contrastive.data.written import COLUMNS

COMMIT = "0123456789" * 4
SOURCE = f"hf:owner/books@{COMMIT}"


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """The snapshot folder of a repository that was downloaded earlier, on a machine without a network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub" / "datasets--owner--books" / "snapshots" / COMMIT


def write(folder: Path, name: str, count: int) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{name} {i},{i % 2}\n" for i in range(count))
    (folder / name).write_text("text,label\n" + rows)


def test_splits_are_found_by_the_names_of_the_files(cached):
    write(cached, "books/train-00000-of-00002.csv", 10)
    write(cached, "books/train-00001-of-00002.csv", 10)
    write(cached, "books/test-00000-of-00001.csv", 6)
    write(cached, "books/unsupervised-00000-of-00001.csv", 7)
    splits = data.load_splits(Data(source=SOURCE, test="test", validation=4))
    assert {name: len(split) for name, split in splits.named().items()} == {"train": 16, "validation": 4, "test": 6}


def test_a_folder_of_the_repository(cached):
    write(cached, "small/train.csv", 4)
    write(cached, "large/train.csv", 8)
    assert len(hub.read_split(f"hf:owner/books/large@{COMMIT}", "train", COLUMNS).texts) == 8
    with pytest.raises(UserError, match="lies in large, small; name one, hf:OWNER/NAME/FOLDER@REVISION"):
        hub.read_split(SOURCE, "train", COLUMNS)


def test_a_split_whose_name_begins_another(cached):
    """As GLUE's MNLI has them: `validation_matched` is no `validation`, and is found by its whole name."""
    for name, count in {"train": 8, "validation_matched": 4, "validation_mismatched": 6}.items():
        write(cached, f"mnli/{name}-00000-of-00001.csv", count)
    for name, count in {"train": 8, "validation": 5, "validation_matched": 7}.items():
        write(cached, f"both/{name}.csv", count)
    for split, count in {"validation_matched": 4, "validation_mismatched": 6}.items():
        assert len(hub.read_split(f"hf:owner/books/mnli@{COMMIT}", split, COLUMNS).texts) == count
    said = "has no split `validation`; its files are train-00000.*validation_matched-00000"
    with pytest.raises(UserError, match=said):
        hub.read_split(f"hf:owner/books/mnli@{COMMIT}", "validation", COLUMNS)
    assert len(hub.read_split(f"hf:owner/books/both@{COMMIT}", "validation", COLUMNS).texts) == 5
    for name in ("validation_matched", "validation_mismatched"):
        write(cached, f"plain/{name}.csv", 4)
    with pytest.raises(UserError, match="`validation` could be validation_matched or validation_mismatched; name one"):
        hub.read_split(f"hf:owner/books/plain@{COMMIT}", "validation", COLUMNS)


@pytest.mark.parametrize(
    "names",
    [
        "train_1.csv train_2.csv",
        "imdb-train.csv",
        "train_data.csv test_data.csv",
        "default/train/0000.csv default/train/0001.csv default/partial-test/0000.csv",
        "data-train/a.csv data-train/b.csv",
    ],
)
def test_a_split_whose_name_is_a_word_of_the_names_of_files(cached, names):
    for name in names.split():
        write(cached, name, 3)
    assert len(hub.read_split(SOURCE, "train", COLUMNS).texts) == 3 * sum("train" in name for name in names.split())


@pytest.mark.parametrize(
    "name, split, message",
    [
        ("train-00000-of-00003.csv", "train", "1 of 3 files of the split `train` are there"),
        ("train.csv", "dev", "has no split `dev`; its files are train.csv"),
        ("books.py", "train", "no .csv, .tsv, .jsonl, .parquet file at that revision.*refs/convert/parquet"),
    ],
)
def test_a_split_that_is_not_there_or_only_in_part(cached, name, split, message):
    write(cached, name, 4)
    with pytest.raises(UserError, match=message):
        hub.read_split(SOURCE, split, COLUMNS)


def test_no_network_and_nothing_cached(cached):
    with pytest.raises(UserError, match=f"{SOURCE} is not in the local cache and could not be downloaded"):
        hub.read_split(SOURCE, "train", COLUMNS)
