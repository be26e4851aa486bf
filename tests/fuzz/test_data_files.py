"""Data files of any content: sound splits, or one short message that names the file. No traceback.

Of every format, sound ones and damaged ones, with names and values that nobody expects.
"""

import csv
import io
import json
import random
import resource
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow
from pyarrow import parquet

from contrastive import data
from contrastive.config.cell import Data
from contrastive.data.splits import Splits
from contrastive.errors import UserError, brief
from tests.contrastive.data.written import write
from tests.fuzz.conftest import Rounds

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
WORDS = ("good", "bad", "fine", "  ", "", "书", "é", "e\u0301", "\u202eevil", "\x1b[31m", "\x07", "\x00", "\ufeff")
NUMBERS = ("0", "-0", "1", "1.0", "01", "+1", "1e0", "1.50", "9007199254740993", "1e400", "1e-400", "9" * 5000)
NUMBERS += ("-1", "true")
NAMES = ("text", "label", "Text", " text", "te\x1bxt", "a;b", "", "text,label", "列", "x" * 10_000, "text\n", "a.b")
LONGEST = 6000  # characters of a message
ROOM = 2**20  # KiB by which memory may grow over all rounds


def written(path: Path, rows: list[tuple[str, str]]) -> Splits | str:
    """The splits of a file with these rows, or the message without the file's own name."""
    write(path, [text for text, _ in rows], [label for _, label in rows])
    try:
        return data.load_splits(Data(source=f"file:{path}", test=3, validation=2))
    except UserError as error:
        return str(error).replace(brief(path), "FILE")


def some_settings(chance: random.Random, path: Path) -> Data:
    named = [name for name in NAMES if name]
    text, label = ("text", "label") if chance.random() < 0.95 else (chance.choice(named), chance.choice(named))
    positive = chance.choice(named) if chance.random() < 0.1 else None
    counts = {"test": chance.randint(1, 4), "validation": chance.randint(0, 3)}
    return Data(source=f"file:{path}", text=text, label=label, positive=positive, **counts)


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
    """Cut, with other bytes in it, or with a part that is there twice."""
    start, end = sorted(chance.randint(0, len(content)) for _ in range(2))
    kind = chance.randrange(4)
    if kind == 0:
        return content[:end]
    if kind == 1:
        return content[:start] + chance.randbytes(chance.randint(1, 8)) + content[start:]
    return content[:end] + content[start:] if kind == 2 else content[:start] + content[end:]


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
    odd = chance.random() < 0.1
    names = ["text", "label"] if not odd else chance.choices(NAMES, k=chance.randint(0, 4))
    count, more = chance.randint(0, 40), names[2:]
    rows = [[text_of(chance, row), label_of(chance), *(word(chance) for _ in more)] for row in range(count)]
    if chance.random() < 0.1:
        rows += [[word(chance)] * chance.randint(0, 4)]
    quoting = chance.choice([csv.QUOTE_MINIMAL] * 5 + [csv.QUOTE_ALL])
    written, end = io.StringIO(newline=""), chance.choice(["\n", "\r\n", "\r"])
    csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows([names, *rows])
    plain = delimiter.join(names) + "\n" + "\n".join(delimiter.join(row) for row in rows)
    return plain if chance.random() < 0.1 else written.getvalue()


def json_value(chance: random.Random) -> str:
    kind = chance.randrange(6)
    if kind == 0:
        numbers = [number for number in NUMBERS if number not in ("01", "+1")]
        return chance.choice(["null", "true", "NaN", "-Infinity", "[]", "{}", '"\\ud800"', *numbers])
    if kind == 1:
        depth = chance.choice([3, 5000, 200_000])
        return "[" * depth + "]" * depth if chance.random() < 0.5 else '{"a":' * depth
    return json.dumps(word(chance), ensure_ascii=chance.random() < 0.5)


def json_lines(chance: random.Random) -> str:
    lines = []
    odd = 0.02 if chance.random() < 0.5 else 0.0
    for row in range(chance.randint(0, 40)):
        text, label = json.dumps(text_of(chance, row)), json.dumps(label_of(chance))
        if chance.random() < odd:
            text, label = json_value(chance), chance.choice([label, json_value(chance)])
        name = chance.choice(NAMES) if chance.random() < odd else "text"
        whole = f'{{{json.dumps(name)}: {text}, "label": {label}}}'
        lines.append(whole if chance.random() >= odd else json_value(chance))
    return chance.choice(["\n", "\r\n", "\n\n"]).join(lines)


def write_parquet(chance: random.Random, path: Path) -> None:
    count = chance.randint(0, 40)
    times = pyarrow.array([chance.randint(-(2**62), 2**62) for _ in range(count)])
    kinds: list[Any] = [
        [label_of(chance) for _ in range(count)],
        [chance.choice([1, 2, 2**62, None]) for _ in range(count)],
        [chance.choice([1.0, 0.5, 1e300, float("nan"), float("inf")]) for _ in range(count)],
        [chance.choice([True, False]) for _ in range(count)],
        [chance.choice([b"a", b"\xff"]) for _ in range(count)],
        *([value] * count for value in ([1], {"a": 1}, None, Decimal("1.00"))),
        times.cast(pyarrow.timestamp("us", "Mars/Olympus")),
        times.cast(pyarrow.duration("ns")),
        pyarrow.array([chance.choice([b"a", b"\xff"]) for _ in range(count)], pyarrow.binary()).view(pyarrow.string()),
        pyarrow.array([label_of(chance) for _ in range(count)]).dictionary_encode(),
    ]
    label = chance.choice(kinds) if chance.random() < 0.3 else kinds[0]
    text = chance.choice(kinds) if chance.random() < 0.1 else [text_of(chance, row) for row in range(count)]
    names = ["text", "label"] if chance.random() < 0.8 else chance.choices(NAMES, k=2)
    parquet.write_table(pyarrow.Table.from_arrays([pyarrow.array(text), pyarrow.array(label)], names=names), path)


def sound_rows(chance: random.Random) -> list[tuple[str, str]]:
    """Rows that every format can hold."""
    labels = chance.choices([*NUMBERS, "a", " a", "True", "inf", "1e5", "word"], k=chance.randint(1, 3))
    odd = [one for one in WORDS if one not in ("\x00", "\ufeff")]

    def text(row: int) -> str:
        return f"text {row // 2}" if chance.random() < 0.2 else f"{chance.choice(odd)} {row} {chance.choice(odd)}"

    return [(text(row), chance.choice(labels)) for row in range(chance.randint(0, 60))]


def test_any_file_gives_sound_splits_or_one_clear_message(rounds: Rounds, tmp_path: Path):
    before, read = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for number, chance in rounds(50):
        with TemporaryDirectory(dir=tmp_path) as folder:
            read += is_read(chance, Path(folder), f"round {number}")
    assert read
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < ROOM


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


def test_the_same_rows_give_the_same_splits_in_every_format(rounds: Rounds, tmp_path: Path):
    agreed = 0
    for number, chance in rounds(10):
        rows = sound_rows(chance)
        with TemporaryDirectory(dir=tmp_path) as folder:
            found = [written(Path(folder) / f"same{ending}", rows) for ending in ENDINGS]
        assert all(one == found[0] for one in found), f"round {number}: {found}"
        agreed += isinstance(found[0], Splits)
    assert agreed


def check_splits(splits: Splits, settings: Data, told: str) -> None:
    texts = [" ".join(text.split()) for split in splits.named().values() for text in split.texts]
    assert len(texts) == len(set(texts)) and all(texts), told
    assert len(splits.test) == settings.test and len(splits.validation) == settings.validation, told
    assert len(splits.labels) == len(set(splits.labels)) > 1, told
    for split in splits.named().values():
        assert len(split.texts) == len(split.labels), told
        assert all(0 <= label < len(splits.labels) for label in split.labels), told
        assert set(split.labels) <= set(splits.train.labels), told
    words = [word for label, ways in splits.merged.items() for word in (label, *ways)]
    assert all(len(word) < LONGEST and word.isprintable() for word in words), told


def check_message(message: str, path: Path, told: str) -> None:
    assert message.isprintable(), f"{told}: {message!r}"
    assert len(message) < LONGEST, f"{told}: {len(message)} characters: {message[:500]}"
    assert brief(path) in message or brief(path.absolute()) in message, f"{told}: {message}"
