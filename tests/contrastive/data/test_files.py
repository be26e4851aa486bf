"""Reading labelled rows: each format gives the same rows, and each mistake is told with its file and place."""

import json
from itertools import product

import pyarrow
import pytest
from pyarrow import parquet

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


@pytest.mark.full
@pytest.mark.parametrize("ending", files.READERS)
def test_ten_megabytes_in_one_row(tmp_path, ending):
    texts = ["short", "long " * 2_000_000]
    rows = files.read_file(write(tmp_path / f"long{ending}", texts, ["a", "b"]), COLUMNS)
    assert [len(text) for text in rows.texts] == [5, 10_000_000]


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


def test_whole_numbers_are_one_class_however_they_are_stored(tmp_path):
    for labels in ([0, 1], [0.0, 1.0], ["0", "1"]):
        assert files.read_file(write(tmp_path / "n.parquet", ["x", "y"], labels), COLUMNS).labels == ["0", "1"]


@pytest.mark.parametrize(
    "name, content, place",
    [
        ("broken.csv", b'text,label\n"two\nlines",a\nbad \xff,b\n', r"row 2 \(line 4\): byte 29 .*0xff"),
        ("broken.csv", b"text,label\nfine,a\n\xff,b\n", r"row 2 \(line 3\): byte 18 "),
        ("broken.csv", b"\xfftext,label\n", "the header: byte 0 "),
        ("broken.tsv", b"text\tlabel\ngut\tb\nsch\xf6n\ta\n", r"row 2 \(line 3\): byte 20 .*0xf6"),
        ("broken.jsonl", b'{"text": "a", "label": 1}\n{"text": "\xe4"}', r"row 2 \(line 2\): byte 36 "),
    ],
)
def test_broken_utf8_is_found_by_row_and_byte(tmp_path, name, content, place):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name}, {place}.*is not UTF-8"):
        files.read_file(tmp_path / name, COLUMNS)


BROKEN = pyarrow.array([b"fine", b"sch\xf6n"], pyarrow.binary()).view(pyarrow.string())
EMPTY = pyarrow.array([], "string")
TWICE = pyarrow.Table.from_arrays([pyarrow.array(["x"])] * 3, names=["text", "text", "label"])


@pytest.mark.parametrize(
    "table, message",
    [
        (TWICE, "has 2 columns `text`"),
        (pyarrow.table({"text": BROKEN, "label": ["a", "b"]}), r"row 2: byte 3 of the value \(0xf6\)"),
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
        ("twice.tsv", "text\tlabel\ttext\na\tb\tc\n", "has 2 columns `text`; rename all but one"),
        ("twice.jsonl", '{"text": "a", "label": "b", "text": "c"}\n', "has 2 columns `text`; rename all but one"),
        ("empty.csv", "", "is empty: its first row must name the columns"),
        ("header.csv", "text,label\n", "has no rows"),
        ("header.tsv", "text\tlabel", "has no rows"),
        ("empty.jsonl", "", "has no rows"),
        ("comma.csv", "text,label\nfine,a\noh, no,b\n", r"row 2 \(line 3\): 3 fields instead of 2"),
        ("open.csv", 'text,label\n"never closed,a\n', "open.csv, line 2: .*quotes inside of a text are doubled"),
        ("wide.csv", 'text,label\n"two\nlines",a,b\n', r"row 1 \(lines 2 to 3\): 3 fields instead of 2"),
        ("wide.jsonl", '{"text": ' * 2000, r"row 1: (not JSON|lists or objects in each other)"),
        ("long.jsonl", '{"text": "a", "label": 1', r"row 1: not JSON \(.*character 25\); each line is one JSON object"),
        ("names.jsonl", '{"te\\u001bxt": 1}', r"has no column `text`; did you mean `te\\u001bxt`\?"),
        ("utf16.csv", "t\0e\0x\0t\0,\0", "begins with NUL characters, as UTF-16 has them; save it as UTF-8"),
        ("infinite.jsonl", '{"text": "a", "label": Infinity}', "the label is inf; give a word or a number"),
        ("line.jsonl", '{"text": "a", "label": 1}\n{"text": ', "row 2: not JSON"),
        ("list.jsonl", '["a", 1]', "row 1: not a JSON object"),
        ("number.jsonl", '{"text": 5, "label": 1}', r"row 1: the text is 5 \(number\)"),
        ("labels.jsonl", '{"text": "a", "label": [1, 2]}', r"row 1: the label is \[1, 2\]"),
        ("half.jsonl", '{"text": "oh \\ud83d", "label": 1}', "row 1: holds half of a surrogate pair"),
        ("no.parquet", "text", "not a readable parquet file"),
        ("reviews.xlsx", "text", r"cannot read `.xlsx` files; give one of .csv, .tsv, .jsonl, .parquet"),
    ],
)
def test_other_damage(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        files.read_file(tmp_path / name, COLUMNS)


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_recognised_with_and_without_its_mark(tmp_path, coding):
    for mark, text in product(("\ufeff", ""), ("好", "fine")):
        (tmp_path / "x.csv").write_bytes(f"{mark}text,label\n{text},a\n".encode(coding))
        with pytest.raises(UserError, match=r"x\.csv begins with NUL characters, as UTF-16 has them; save it as UTF-8"):
            files.read_file(tmp_path / "x.csv", COLUMNS)


def test_a_missing_file_is_told_with_the_nearest_name(tmp_path):
    (tmp_path / "reviews.csv").touch()
    with pytest.raises(UserError, match=r"there is no file .*review.csv in .*; did you mean reviews.csv\?"):
        files.read_file(tmp_path / "review.csv", COLUMNS)
    with pytest.raises(UserError, match="there is no folder"):
        files.read_file(tmp_path / "nowhere" / "review.csv", COLUMNS)


def test_a_byte_order_mark_is_no_part_of_a_column(tmp_path):
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbftext,label\na,b\n")
    assert files.read_file(tmp_path / "excel.csv", COLUMNS).texts == ["a"]


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


SCORED = {"text": "a", "score": "alike", "other": "b", "subset": "year"}


def test_scores_are_numbers_and_subsets_are_named_like_labels(tmp_path):
    path = tmp_path / "scored.jsonl"
    given = ((1, 2012), ("0.5", 2012.0), (2e-7, "s"))
    lines = [{"a": "x", "b": "y", "alike": score, "year": year} for score, year in given]
    path.write_text("\n".join(map(json.dumps, lines)))
    rows = files.read_file(path, SCORED)
    assert [float(score) for score in rows.labels] == [1, 0.5, 2e-7]
    assert rows.partners == [("y", "2012"), ("y", "2012"), ("y", "s")]
    gaps = [line | {"alike": score} for line, score in zip(lines, (1, "nan", None), strict=True)]
    path.write_text("\n".join(map(json.dumps, gaps)))
    with pytest.raises(UserError, match="rows 2, 3 have no score"):
        files.read_file(path, SCORED)
    path.write_text(json.dumps(lines[0] | {"alike": "very"}))
    with pytest.raises(UserError, match="row 1: the score is 'very'; give a number"):
        files.read_file(path, SCORED)
