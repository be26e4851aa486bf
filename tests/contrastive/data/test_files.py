"""Reading labelled rows: each format gives the same rows, and each mistake is told with its file and place."""

import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from contrastive import data
from contrastive.config.cell import Data
from contrastive.data import files
from contrastive.errors import UserError
from tests.contrastive.data.written import COLUMNS, write

PAIRS = COLUMNS | {"positive": "same", "negative": "other"}
TEXTS = ["plain", 'with "quotes", comma', "line\nbreak", "好书\u2028。", "tab\tbed"]
LABELS = ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize("ending", files.READERS)
def test_every_format_gives_the_same_rows_and_names_its_columns_where_one_is_missing(tmp_path, ending):
    path = write(tmp_path / f"reviews{ending}", TEXTS, LABELS)
    rows = files.read_file(path, COLUMNS)
    assert (rows.texts, rows.labels) == (TEXTS, LABELS)
    with pytest.raises(UserError, match="no column `Labels`; did you mean `label`.*`text`.*data.label"):
        files.read_file(path, {"text": "text", "label": "Labels"})


@pytest.mark.parametrize("ending", files.READERS)
def test_empty_texts_and_labels_are_named_together(tmp_path, ending):
    path = write(tmp_path / f"gaps{ending}", ["good", " ", "fine", "bad", ""], ["a", "b", "", "nan", "b"])
    with pytest.raises(UserError, match=rf"gaps\{ending}: rows 2, 5 have no text; rows 3, 4 have no label"):
        files.read_file(path, COLUMNS)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_labels_that_are_not_a_number_or_not_there(tmp_path, ending):
    for label in (float("nan"), None):
        path = write(tmp_path / f"gaps{ending}", ["good", "bad"], [1.0, label])
        with pytest.raises(UserError, match="row 2 has no label"):
            files.read_file(path, COLUMNS)


BROKEN = pyarrow.array([b"fine", b"sch\xf6n"], pyarrow.binary()).view(pyarrow.string())
EMPTY = pyarrow.array([], "string")
TWICE = pyarrow.Table.from_arrays([pyarrow.array(["x"])] * 3, names=["text", "text", "label"])


@pytest.mark.parametrize(
    "table, message",
    [
        (TWICE, "has 2 columns `text`"),
        (
            pyarrow.table({"text": BROKEN, "label": ["a", "b"]}),
            r"row 2: not readable as parquet .*byte 0xf6.*texts in UTF-8",
        ),
        (pyarrow.table({"text": EMPTY, "label": EMPTY}), "has no rows"),
    ],
    ids=["a column twice", "broken UTF-8", "empty"],
)
def test_damage_in_parquet(tmp_path, table, message):
    parquet.write_table(table, tmp_path / "odd.parquet")
    with pytest.raises(UserError, match=message):
        files.read_file(tmp_path / "odd.parquet", COLUMNS)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("twice.csv", "text,label,text\na,b,c\n", "has 2 columns `text`; rename all but one"),
        ("empty.csv", "", "is empty: its first row must name the columns"),
        ("comma.csv", "text,label\nfine,a\noh, no,b\n", r"row 2 \(line 3\): 3 fields instead of 2"),
        ("open.csv", 'text,label\n"never closed,a\n', "open.csv, line 2: .*double the quotes inside a text"),
        ("wide.csv", 'text,label\n"two\nlines",a,b\n', r"row 1 \(lines 2 to 3\): 3 fields instead of 2"),
        (
            "long.jsonl",
            '{"text": "a", "label": 1',
            r"row 1: not a JSON object \(.*column 25 .*write one JSON object a line",
        ),
        ("number.jsonl", '{"text": 5, "label": 1}', r"row 1: the text is 5 \(number\)"),
        ("labels.jsonl", '{"text": "a", "label": [1, 2]}', r"row 1: \[1, 2\] is not a label"),
        ("half.jsonl", '{"text": "oh \\ud83d", "label": 1}', "row 1: contains half of a surrogate pair"),
        ("no.parquet", "text", "not readable as parquet"),
        ("x.csv", b'text,label\n"two\nlines",a\nbad \xff,b\n', "x.csv, line 4: 0xff is not UTF-8; save"),
        ("reviews.xlsx", "text", r"cannot read `.xlsx` files; give one of .csv, .tsv, .jsonl, .parquet"),
    ],
)
def test_other_damage(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message):
        files.read_file(tmp_path / name, COLUMNS)


@pytest.mark.parametrize("ending", files.READERS)
def test_pairs_are_read_and_a_row_without_one_is_named(tmp_path, ending):
    texts, labels, same, other = (*([f"{name}{i}" for i in range(4)] for name in "tlso"),)
    path = write(tmp_path / f"pairs{ending}", texts, labels, same=same, other=other)
    found = files.read_file(path, PAIRS)
    assert found.texts == texts and found.labels == labels
    assert found.partners == [("s0", "o0"), ("s1", "o1"), ("s2", "o2"), ("s3", "o3")]
    assert files.read_file(path, COLUMNS).partners == [()] * 4
    write(path, texts, labels, same=["s0", " ", "s2", "s3"], other=["o0", "o1", "", ""])
    with pytest.raises(UserError, match=r"row 2 has no positive; rows 3, 4 have no negative. Fill or remove"):
        files.read_file(path, PAIRS)
    with pytest.raises(UserError, match=r"no column `some`; did you mean `same`\?.*Set data.positive"):
        files.read_file(path, PAIRS | {"positive": "some"})


def test_scores_are_numbers(tmp_path):
    path = tmp_path / "scored.jsonl"
    columns = {"text": "a", "score": "alike", "other": "b"}

    def read(*scores: object) -> files.Rows:
        path.write_text("\n".join(json.dumps({"a": "x", "b": "y", "alike": score}) for score in scores))
        return files.read_file(path, columns)

    rows = read(1, "0.5", 2e-7)
    assert [float(score) for score in rows.labels] == [1, 0.5, 2e-7] and rows.partners == [("y",)] * 3
    with pytest.raises(UserError, match="rows 2, 3 have no score"):
        read(1, "nan", None)
    with pytest.raises(UserError, match="row 1: the score is 'very'; give a number"):
        read("very")


@pytest.mark.parametrize("row", ['"broken,a\n', 'a,"broken\n', '"two\nlines","broken\n'])
@pytest.mark.parametrize("end", ["", '"closed",b\n'])
def test_a_broken_quote_is_told_by_the_lines_of_its_row(tmp_path, row, end):
    fine = "".join(f"text {number},a\n" for number in range(59))
    (tmp_path / "open.csv").write_text(f"text,label\n{fine}{row}{fine}{end}")
    with pytest.raises(
        UserError, match="open.csv, lines 61 to 12[0-9]: this row has an unclosed or misplaced quote.*double the quotes"
    ):
        files.read_file(tmp_path / "open.csv", COLUMNS)


LINKED = "reviews.csv is a link to gone.csv, which does not exist; name the file itself"
NO_FILES = {
    "a pipe": (os.mkfifo, "", "reviews.csv is a pipe or device, not a file; save its output in a file, and name that"),
    "a dangling link": (lambda path: path.symlink_to("gone.csv"), "", LINKED),
    "a folder": (Path.mkdir, "", "reviews.csv is a folder, not a file; name a file in it"),
    "below a file": (Path.touch, "more.csv", "there is no file .*more.csv in .*reviews.csv"),
    "a long name": (Path.mkdir, "x" * 300 + ".csv", r"cannot be read \(File name too long\)"),
    "a near name": (Path.mkdir, "../review.csv", r"there is no file .*review.csv in .*; did you mean reviews.csv\?"),
    "no folder": (Path.touch, "../nowhere/reviews.csv", "there is no file .* in .*nowhere"),
}


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_told_apart(tmp_path, kind):
    make, below, message = NO_FILES[kind]
    make(tmp_path / "reviews.csv")
    path = tmp_path / "reviews.csv" / below
    with pytest.raises(UserError, match=message):
        files.read_file(path, COLUMNS)
    with pytest.raises(UserError, match=message):
        data.data_digest(Data(source=f"file:{path}", test=1))


ONE_LABEL = [
    (["1", "1.0", "01", "+1", "1e0", "1.", " 1 ", "10e-1"], "1"),
    (["0", "-0", "0.0", "-0e5"], "0"),
    (["1.5", "1.50", "15e-1", "01.5"], "1.5"),
    (["-1", "-1.0"], "-1"),
    (["true", "True", "TRUE"], "true"),
    ([str(2**53 + 1), f"{2**53 + 1}.0"], str(2**53 + 1)),
    (["1e400", "10e399"], "1E+400"),
    (["a", " a", "a  "], "a"),
]
SEVERAL_LABELS = [str(2**53), str(2**53 + 1), "1", "1.1", "-1", "1_000", "1000", "0x1", "\uff11", "inf", "1e9999999999"]


@pytest.mark.parametrize("ending", files.READERS)
def test_spellings_of_a_label_are_one_and_labels_that_differ_stay_apart_in_every_format(tmp_path, ending):
    written = [(way, label) for spellings, label in ONE_LABEL for way in spellings]
    ways, labels = map(list, zip(*written, strict=True))
    rows = files.read_file(write(tmp_path / f"one{ending}", [f"t {way}" for way in ways], ways), COLUMNS)
    assert rows.labels == labels
    assert rows.spelled == ways
    texts = [f"t {label}" for label in SEVERAL_LABELS]
    rows = files.read_file(write(tmp_path / f"several{ending}", texts, SEVERAL_LABELS), COLUMNS)
    assert len(set(rows.labels)) == len(SEVERAL_LABELS)


@pytest.mark.parametrize("number", ["1", "1.0", "1e0", "-0", "1.50", "1e400", str(2**53 + 1), "9" * 5000, "true"])
def test_a_number_in_json_and_parquet_is_the_label_that_it_is_in_a_csv_file(tmp_path, number):
    (tmp_path / "n.csv").write_text(f"text,label\na,{number}\n")
    (tmp_path / "n.jsonl").write_text(f'{{"text": "a", "label": {number}}}\n')
    in_csv, in_json = (files.read_file(tmp_path / name, COLUMNS) for name in ("n.csv", "n.jsonl"))
    assert in_csv == replace(in_json, name=in_csv.name)
    for value in (1.0, 1e22, True, Decimal("2.50")):
        in_parquet = files.read_file(write(tmp_path / "v.parquet", ["x"], [value]), COLUMNS)
        assert in_parquet.labels == files.read_file(write(tmp_path / "v.csv", ["x"], [str(value)]), COLUMNS).labels
