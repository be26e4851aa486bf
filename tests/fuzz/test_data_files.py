"""Data files of any content: sound splits, or one short message that names the file. No traceback, no wait."""

import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from contrastive import data
from contrastive.config.cell import Data
from contrastive.data.splits import Splits
from contrastive.errors import UserError, brief
from tests.fuzz.conftest import Rounds
from tests.fuzz.random_files import ENDINGS, WORDS, any_file, some_settings, sound_rows, written

LONGEST = 6000  # characters of a message
PATIENCE = 60  # seconds that no file may take, however busy the machine is
ROOM = 2**20  # KiB by which memory may grow over all rounds
WORDS += ('"', '""', ",", "\t", ";", "\n", "\r\n", "\r", "\x85", "\u2028", "\u200b", "|", "nan", "NaN", "-1", "null")


@contextmanager
def no_wait(number: int) -> Iterator[None]:
    def end(*_: object) -> None:
        raise AssertionError(f"round {number} takes more than {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_any_file_gives_sound_splits_or_one_clear_message(rounds: Rounds, tmp_path: Path):
    before, read = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for number, chance in rounds(50):
        with TemporaryDirectory(dir=tmp_path) as folder, no_wait(number):
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
    assert all(len(note) < LONGEST and note.isprintable() for note in splits.notes), told


def check_message(message: str, path: Path, told: str) -> None:
    assert message.isprintable(), f"{told}: {message!r}"
    assert len(message) < LONGEST, f"{told}: {len(message)} characters: {message[:500]}"
    assert brief(path) in message or brief(path.absolute()) in message, f"{told}: {message}"
