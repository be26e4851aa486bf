"""Files of another form than expected: other delimiters, broken quotes, what is no file; labels in other spellings."""

import json
import os
import re
import socket
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from contrastive import data
from contrastive.config.cell import Data
from contrastive.data import files
from contrastive.errors import UserError
from tests.contrastive.data.written import COLUMNS, write

SEMICOLONS = "text;label;note, free\nfine, good;a;b\n"


@pytest.mark.parametrize(
    "name, content, advice",
    [
        ("x.csv", "text;label\nfine, good;a\n", "seems to be `;` instead of `,`: save the file with `,` between the"),
        ("x.csv", "text|label\nfine, good|a\n", "seems to be `|` instead of `,`: save the file with `,` between the"),
        ("x.csv", "text\tlabel\nfine, good\ta\n", "seems to be a tab instead of `,`: rename the file to .tsv"),
        ("x.tsv", "text,label\nfine, good,a\n", "seems to be `,` instead of a tab: rename the file to .csv"),
        (
            "x.csv",
            SEMICOLONS,
            "its first row is 2 columns, `text;label;note, free`. The delimiter seems to be `;` inst",
        ),
        ("x.csv", "text,note; free\nfine,good\n", "has no column `label`; It has `text`, `note; free`. Set data.label"),
    ],
)
def test_another_delimiter_is_recognised_and_told(tmp_path, name, content, advice):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=re.escape(advice)):
        files.read_file(tmp_path / name, COLUMNS)


@pytest.mark.parametrize("row", ['"broken,a\n', 'a,"broken\n', '"two\nlines","broken\n'])
@pytest.mark.parametrize("end", ["", '"closed",b\n'])
def test_a_broken_quote_is_told_by_the_line_on_which_it_begins(tmp_path, row, end):
    fine = "".join(f"text {number},a\n" for number in range(59))
    (tmp_path / "open.csv").write_text(f"text,label\n{fine}{row}{fine}{end}")
    line = 61 + row.count("\n", 0, row.index("broken"))
    noticed = "noticed on line 12[0-9]"
    with pytest.raises(UserError, match=f"open.csv, line {line}: a quote begins there .*{noticed}.*are doubled"):
        files.read_file(tmp_path / "open.csv", COLUMNS)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


LINKED = "reviews.csv is a link to gone.csv, which is not there; name the file itself"
LOOP = "reviews.csv is a link that leads back to itself; name the file itself"
NO_FILES = {
    "a pipe": (os.mkfifo, "", "reviews.csv is a pipe; write what it gives into a file, and name that"),
    "a socket": (bind, "", "reviews.csv is a socket; "),
    "a loop": (lambda path: path.symlink_to(path.name), "", LOOP),
    "a dangling link": (lambda path: path.symlink_to("gone.csv"), "", LINKED),
    "a folder": (Path.mkdir, "", "reviews.csv is a folder; name a file in it"),
    "below a file": (Path.touch, "more.csv", "there is no file .*more.csv: .*reviews.csv is no folder"),
    "a long name": (Path.mkdir, "x" * 300 + ".csv", "a name as long as this one no file can have; write a shorter one"),
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
    assert {label: rows.spellings[label] for label in labels} == {label: set(some) for some, label in ONE_LABEL}
    texts = [f"t {label}" for label in SEVERAL_LABELS]
    rows = files.read_file(write(tmp_path / f"several{ending}", texts, SEVERAL_LABELS), COLUMNS)
    assert len(set(rows.labels)) == len(SEVERAL_LABELS)


@pytest.mark.parametrize("number", ["1", "1.0", "1e0", "-0", "1.50", "1e400", str(2**53 + 1), "9" * 5000, "true"])
def test_a_number_in_json_is_the_label_that_it_is_in_a_csv_file(tmp_path, number):
    (tmp_path / "n.csv").write_text(f"text,label\na,{number}\n")
    (tmp_path / "n.jsonl").write_text(f'{{"text": "a", "label": {number}}}\n')
    in_csv, in_json = (files.read_file(tmp_path / name, COLUMNS) for name in ("n.csv", "n.jsonl"))
    assert in_csv == replace(in_json, name=in_csv.name)


@pytest.mark.parametrize("labels", [[1, 2**53 + 1], [1.0, 1e22], [True, False], [Decimal("1.00"), Decimal("2.50")]])
def test_a_number_in_parquet_is_the_label_that_it_is_in_a_csv_file(tmp_path, labels):
    found = files.read_file(write(tmp_path / "n.parquet", ["x", "y"], labels), COLUMNS).labels
    assert found == files.read_file(write(tmp_path / "n.csv", ["x", "y"], [str(one) for one in labels]), COLUMNS).labels


@pytest.mark.parametrize("value", ["\x1b[31m", "\x07", "\x9b2J", "\u202eevil", "x" * 5_000_000])
def test_no_message_repeats_what_commands_a_terminal_or_is_long(tmp_path, value):
    path = tmp_path / "odd.jsonl"
    for line in ({value: 1}, {"text": "a", "label": [value]}, {"text": [value], "label": "a"}):
        path.write_text(json.dumps(line))
        with pytest.raises(UserError) as caught:
            files.read_file(path, COLUMNS)
        assert str(caught.value).isprintable() and len(str(caught.value)) < 2000
