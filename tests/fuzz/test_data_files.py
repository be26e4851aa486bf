"""Data files of any format and content: sound splits, or one short message that names the file. No traceback."""

import csv
import io
import json
import random
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow
from pyarrow import parquet

from contrastive import data
from contrastive.config.cell import Data
from contrastive.data.splits import Splits
from contrastive.errors import UserError, brief
from tests.fuzz.conftest import Rounds

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
WORDS = ("good", "bad", "fine", "  ", "", "书", "é", "e\u0301", "\u202eevil", "\x1b[31m", "\x07", "\x00", "\ufeff")
NUMBERS = ("0", "-0", "1", "1.0", "01", "+1", "1e0", "1.50", "9007199254740993", "1e400", "1e-400", "9" * 5000)
NAMES = ("text", "label", "Text", " text", "te\x1bxt", "a;b", "", "text,label", "列", "x" * 10_000, "text\n", "a.b")
LONGEST = 6000  # characters of a message


def some_settings(chance: random.Random, path: Path) -> Data:
    named = [name for name in NAMES if name]
    text, label = ("text", "label") if chance.random() < 0.95 else (chance.choice(named), chance.choice(named))
    return Data(source=f"file:{path}", text=text, label=label, test=2, validation=chance.randint(0, 3))


def any_file(chance: random.Random, folder: Path) -> Path:
    ending = chance.choice([*ENDINGS * 5, ".CSV", ".xlsx", ""])
    path = folder / ("file" + chance.choice(["", "", " b", "n\n", "\x1b[1m", "\u202e"]) + ending)
    if ending == ".parquet":
        write_parquet(chance, path)
        content = path.read_bytes()
    else:
        text = json_lines(chance) if ending == ".jsonl" else table(chance, DELIMITERS.get(ending.lower(), ","))
        encoding = chance.choice(["utf-8"] * 30 + ["utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
        errors = chance.choice(["replace", "surrogatepass"]) if "utf" in encoding else "replace"
        content = text.encode(encoding, errors=errors)
    path.write_bytes(damaged(chance, content) if chance.random() < 0.15 else content)
    return path


def damaged(chance: random.Random, content: bytes) -> bytes:
    """Cut, or with other bytes in it."""
    start, end = sorted(chance.randint(0, len(content)) for _ in range(2))
    return content[:start] + chance.choice([b"", chance.randbytes(8), content[start:]]) + content[end:]


def word(chance: random.Random) -> str:
    if chance.random() < 0.01:
        return chance.choice(WORDS) * chance.choice([1000, 200_000])
    return chance.choice([" ", ""]).join(chance.choices(WORDS, k=chance.randint(1, 4)))


def text_of(chance: random.Random, row: int) -> str:
    if chance.random() < 0.1:
        return word(chance)
    return f"text {row // 2 if chance.random() < 0.1 else row} {chance.choice('abc')}"


def label_of(chance: random.Random) -> str:
    odd = chance.random() < 0.01
    return chance.choice(["a", "b", " b ", chance.choice(NUMBERS), word(chance)] if odd else ["1", "2", "1.0"])


def table(chance: random.Random, delimiter: str) -> str:
    delimiter = chance.choice([delimiter] * 30 + [";", "\t", "|", ","])
    names = ["text", "label"] if chance.random() < 0.9 else chance.choices(NAMES, k=chance.randint(0, 4))
    rows = [
        [text_of(chance, row), label_of(chance), *(word(chance) for _ in names[2:])]
        for row in range(chance.randint(0, 40))
    ]
    if chance.random() < 0.1:
        rows += [[word(chance)] * chance.randint(0, 4)]
    quoting = chance.choice([csv.QUOTE_MINIMAL] * 5 + [csv.QUOTE_ALL])
    content, end = io.StringIO(newline=""), chance.choice(["\n", "\r\n", "\r"])
    csv.writer(content, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows([names, *rows])
    return content.getvalue()


def json_value(chance: random.Random) -> str:
    deep = "[" * 200_000, "[" * 5000 + "]" * 5000, '{"a":' * 5000
    return chance.choice(["null", "true", "NaN", "[]", "{}", '"\\ud800"', *deep, *NUMBERS, json.dumps(word(chance))])


def json_lines(chance: random.Random) -> str:
    lines = []
    for row in range(chance.randint(0, 40)):
        text, label = json.dumps(text_of(chance, row)), json.dumps(label_of(chance))
        if chance.random() < 0.01:
            text = json_value(chance)
        name = chance.choice(NAMES) if chance.random() < 0.01 else "text"
        whole = f'{{{json.dumps(name)}: {text}, "label": {label}}}'
        lines.append(whole if chance.random() > 0.01 else json_value(chance))
    return chance.choice(["\n", "\r\n", "\n\n"]).join(lines)


def write_parquet(chance: random.Random, path: Path) -> None:
    count = chance.randint(0, 40)
    texts, labels = [text_of(chance, row) for row in range(count)], [label_of(chance) for _ in range(count)]
    odd = [1, 2**62, None, 0.5, 1e300, float("nan"), float("inf"), True, b"\xff", [1], {"a": 1}, Decimal("1.00")]
    columns = [pyarrow.array(texts), pyarrow.array(labels)]
    if chance.random() < 0.3:
        columns[chance.randrange(2)] = pyarrow.array([chance.choice(odd)] * count)
    names = ["text", "label"] if chance.random() < 0.8 else chance.choices(NAMES, k=2)
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=names), path)


def test_any_file_gives_sound_splits_or_one_clear_message(rounds: Rounds, tmp_path: Path):
    read = 0
    for number, chance in rounds(50):
        with TemporaryDirectory(dir=tmp_path) as folder:
            read += is_read(chance, Path(folder), f"round {number}")
    assert read


def is_read(chance: random.Random, folder: Path, told: str) -> bool:
    """Whether a file gives splits, which are sound; if not, its message is."""
    path = any_file(chance, folder)
    settings = some_settings(chance, path)
    try:
        data.data_digest(settings)
        check_splits(data.load_splits(settings), settings, told)
    except UserError as error:
        check_message(str(error), path, told)
        return False
    except Exception as error:
        raise AssertionError(f"{told}, {settings}: {type(error).__name__}: {error}") from error
    return True


def check_splits(splits: Splits, settings: Data, told: str) -> None:
    texts = [" ".join(text.split()) for split in splits.named().values() for text in split.texts]
    assert len(texts) == len(set(texts)) and all(texts), told
    assert len(splits.test) == settings.test and len(splits.validation) == settings.validation, told
    assert len(splits.labels) == len(set(splits.labels)) > 1, told
    for split in splits.named().values():
        assert len(split.texts) == len(split.labels), told
        assert set(split.labels) <= set(splits.train.labels), told
    words = [word for label, ways in splits.merged.items() for word in (label, *ways)]
    assert all(len(word) < LONGEST and word.isprintable() for word in words), told


def check_message(message: str, path: Path, told: str) -> None:
    assert message.isprintable(), f"{told}: {message!r}"
    assert len(message) < LONGEST, f"{told}: {len(message)} characters: {message[:500]}"
    assert brief(path) in message or brief(path.absolute()) in message, f"{told}: {message}"
