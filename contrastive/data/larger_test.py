"""More test texts than a cell was trained beside: the first of them are its own, and no cell trains on the others."""

from pathlib import Path

from contrastive import data as datasets
from contrastive.config.cell import Data
from contrastive.data import tokenizer, tokens
from contrastive.runs import cache, fingerprint, store


def prepare_larger_test(data: Data, count: int, prepared: Path, home: Path) -> Path:
    """The folder with the tokens of so many test texts, by the tokenizer that lies in a cell's own prepared tokens."""
    folder = cache.place_of("tokens", larger_test_key(prepared.name, count), home)
    return cache.make_once(folder, lambda unfinished: _tokenise_test(data, count, prepared, unfinished))


def larger_test_key(own: str, count: int) -> str:
    """`own` is the key of the cell's own tokens, which stands for the data, their division and the tokenizer."""
    code = fingerprint.code_digest(("contrastive.data.larger_test",))
    return fingerprint.key("larger test", tokens=own, count=count, code=code)


def _tokenise_test(data: Data, count: int, prepared: Path, folder: Path) -> None:
    splits = datasets.load_splits(data, measured=count)
    fast = tokenizer.read_tokenizer("the prepared tokens", prepared / "tokenizer")
    max_length = store.read_json(prepared / "meta.json")["max_length"]
    tokens.write_split(folder, "test", splits.test, fast, max_length)
    store.write_json(folder / "meta.json", {"class_counts": splits.class_counts()})
