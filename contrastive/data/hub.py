"""Read labelled rows from a data set on the Hugging Face hub, at one commit; no code of the repository runs."""

import re
from pathlib import Path

from contrastive.data import files, locate
from contrastive.data.files import Columns, Rows
from contrastive.errors import UserError, brief


def read_split(source: str, split: str, columns: Columns) -> Rows:
    """Return the rows of a split, from all of its data files."""
    repository = locate.parse_hub_source(source)
    root = locate.snapshot(source, "dataset", [f"*{ending}" for ending in files.READERS])
    folder = root / repository.folder
    paths = sorted(path for ending in files.READERS for path in folder.rglob(f"*{ending}"))
    if not paths:
        raise UserError(
            f"{source}: no {', '.join(files.READERS)} file at that revision. If the data set is only a script, "
            "name a commit of the repository's branch refs/convert/parquet"
        )
    chosen = split_files(source, split, [path.relative_to(folder) for path in paths])
    parts = [files.read_file(folder / path, columns) for path in chosen]
    return Rows(
        f"{source}, split {split}",
        [text for part in parts for text in part.texts],
        [label for part in parts for label in part.labels],
        [partners for part in parts for partners in part.partners],
        [spelled for part in parts for spelled in part.spelled],
    )


def split_files(source: str, split: str, paths: list[Path]) -> list[Path]:
    """Return the files of one split; raise UserError unless they are complete and of one configuration.

    A folder or file matches by its whole name, else by one word of it (`imdb-train`, `train_data`) if the match is
    unambiguous. In numbered names, such as `validation_matched-00000-of-00001`, underscores do not separate words.
    """
    wanted = split.lower()
    named = {path: [*path.parent.as_posix().lower().split("/"), _unnumbered(path).lower()] for path in paths}
    chosen = [path for path in paths if wanted in named[path]]
    if not chosen:
        separator = {path: "[^a-z0-9]+" if _unnumbered(path) == path.stem else "[^a-z0-9_]+" for path in paths}
        words = {path: [part for part in named[path] if wanted in re.split(separator[path], part)] for path in paths}
        chosen = [path for path in paths if words[path]]
        matches = sorted({re.sub("[0-9]+", "", words[path][-1]) for path in chosen})
        if len(matches) > 1:
            raise UserError(f"{source}: the split `{brief(split)}` could be {' or '.join(matches)}; name one of them")
    if not chosen:
        raise UserError(f"{source} has no split `{brief(split)}`; its files are {', '.join(map(str, paths[:10]))}")
    folders = sorted({path.parent.as_posix() for path in chosen})
    if len(folders) > 1:
        raise UserError(
            f"{source}: the split `{split}` is in {', '.join(folders)}; name one, hf:OWNER/NAME/FOLDER@REVISION"
        )
    shards = [re.search(r"-(\d{5})-of-(\d{5})\b", path.name) for path in chosen]
    expected = {int(shard[2]) for shard in shards if shard}
    if expected and expected != {len(chosen)}:
        raise UserError(
            f"{source}: only {len(chosen)} of {max(expected)} files of the split `{split}` are available; connect to "
            "the internet and try again"
        )
    return chosen


def _unnumbered(path: Path) -> str:
    """Return the name of a file without its ending and its shard number."""
    return re.sub(r"-\d{5}-of-\d{5}(-\w+)?$", "", path.stem)
