"""Data files of any format and content: sound splits, or one short message that names the file. No traceback."""

import random
from decimal import Decimal
from pathlib import Path

from contrastive import data
from contrastive.config.cell import Data
from contrastive.data import files
from contrastive.data.splits import Splits
from contrastive.errors import UserError, brief
from tests.contrastive.data.written import write
from tests.fuzz.conftest import Rounds

NAMES = ("file", "file b", "n\n", "\x1b[1m", "\u202e")
WORDS = ("good", "bad", "  ", "", "书", "e\u0301", "\u202eevil", "\x1b[31m", "\x00", "\ufeff", '"', "word " * 10**6)
LABELS = ("0", "-0", "1.0", "01", "+1", "1e0", "9007199254740993", "1e400", "1e-400", "9" * 5000, " b ", "\x07", "")
VALUES = (1, 2**62, None, 0.5, 1e300, float("nan"), float("inf"), True, [1], {"a": 1})  # of a column of labels
PARQUET_VALUES = (*VALUES, b"\xff", Decimal("1.00"))
PIECES = (b'"', b",", b"\t", b";", b"\r", b"\n", b"\xff", b"\x00", b"\xef\xbb\xbf", b"\x1b[31m", b"[" * 5000)
PIECES += (b'{"a":' * 5000, b"label", b"text,label\n", b"null", b"NaN", b'"\\ud800"', "\u2028".encode(), b"x" * 10_000)
LONGEST = 6000  # characters of a message


def any_file(chance: random.Random, folder: Path) -> Path:
    ending, count = chance.choice([*files.READERS]), chance.randint(0, 40)
    path = folder / (chance.choice(NAMES) + ending)
    texts = [f"text {row // chance.choice((1, 1, 1, 2))} {chance.choice(WORDS)}" for row in range(count)]
    labels: list[object] = [chance.choice(LABELS if chance.random() < 0.01 else ("1", "2", "1.0")) for _ in texts]
    if ending in (".jsonl", ".parquet") and chance.random() < 0.2:
        labels = [chance.choice(PARQUET_VALUES if ending == ".parquet" else VALUES)] * count
    write(path, texts, labels)
    for _ in range(chance.choice((0, 0, 1, 3))):
        path.write_bytes(damaged(chance, path.read_bytes()))
    return path.rename(path.with_suffix(chance.choice([ending] * 9 + [".CSV", ".xlsx", ""])))


def damaged(chance: random.Random, content: bytes) -> bytes:
    """Return it cut, with other bytes in it, or in another encoding."""
    start, end = sorted(chance.randint(0, len(content)) for _ in range(2))
    kind = chance.randrange(8)
    if kind == 0:
        return content[:start] + content[end:]
    if kind == 1:
        return content.decode("latin-1").encode(chance.choice(("utf-16", "utf-16-le", "utf-8-sig")))
    return content[:start] + chance.choice(PIECES) + content[start:]


def test_any_file_gives_sound_splits_or_one_clear_message(rounds: Rounds, tmp_path: Path):
    sound = 0
    for number, chance in rounds(50):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = any_file(chance, folder)
        column = chance.choice(["label"] * 20 + ["Label", "te\x1bxt", "x" * 10_000])
        settings = Data(source=f"file:{path}", label=column, test=2, validation=chance.randint(0, 3))
        try:
            data.data_digest(settings)
            check_splits(data.load_splits(settings), settings)
            sound += 1
        except UserError as error:
            check_message(str(error), path)
        except BaseException as error:
            error.add_note(f"in round {number}, of {settings}")
            raise
        path.unlink()
    assert sound


def check_splits(splits: Splits, settings: Data) -> None:
    texts = [" ".join(text.split()) for split in splits.named().values() for text in split.texts]
    assert len(texts) == len(set(texts)) and all(texts)
    assert len(splits.test) == settings.test and len(splits.validation) == settings.validation
    assert len(splits.labels) == len(set(splits.labels)) > 1
    for split in splits.named().values():
        assert len(split.texts) == len(split.labels)
        assert set(split.labels) <= set(splits.train.labels)
    words = [word for label, spellings in splits.merged.items() for word in (label, *spellings)]
    assert all(len(word) < LONGEST and word.isprintable() for word in words)


def check_message(message: str, path: Path) -> None:
    assert message.isprintable() and len(message) < LONGEST
    assert brief(path) in message or brief(path.absolute()) in message
