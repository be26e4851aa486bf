"""Where is kept what is computed once for many cells: one folder below the home for each kind, and in it one a key."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from contrastive.runs import store

Kind = Literal["calibration", "prefix", "references", "tokens", "untrained"]


def place_of(kind: Kind, key: str, home: Path | None = None) -> Path:
    return (home or store.home()) / "cache" / kind / key


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that `make` fills, if it is not there whole. One process makes it."""
    if store.finished(folder):
        return folder
    with store.locked(folder.with_suffix(".lock")):
        if not store.finished(folder):
            unfinished = folder.with_suffix(".unfinished")
            for rest in (unfinished, folder):  # of a process that was killed; a folder that was damaged
                store.remove(rest)
            unfinished.mkdir(parents=True)
            make(unfinished)
            store.mark_finished(unfinished, "DONE")
            os.replace(unfinished, folder)
    return folder
