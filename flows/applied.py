"""`ablate embed` and `ablate predict`: apply a trained encoder to a table of texts."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track

from ablate.table import read
from contrastive.errors import UserError
from contrastive.export import export_cell
from contrastive.exported import Exported
from contrastive.grid.messages import nearest_name
from flows.begin import text_column
from flows.exports import refuse_code_of_others
from flows.show import find_run_folder
from flows.terminal import say, tell

PART = 1000  # texts that are kept as they are done, so that a stopped command goes on


def embed(what: str, table: Path, into: Path, column: str) -> None:
    """Write a vector for each line of a table, as an array (.npy) or a column of the table (.parquet)."""
    if into.suffix not in (".npy", ".parquet"):
        raise UserError(f"{into}: name a file .npy for an array, or .parquet for the table with a column `embedding`")
    refuse_existing(into)
    frame, name = texts_of(table, column)
    with encoder_of(what) as exported:
        vectors = in_parts(frame[name].tolist(), exported.vectors, into, what)
    if into.suffix == ".npy":
        np.save(into, vectors)
    else:
        frame.assign(embedding=list(vectors)).to_parquet(into, index=False)
    say(f"{into}: {vectors.shape[0]} vectors of {vectors.shape[1]} numbers")


def predict(what: str, table: Path, into: Path, column: str) -> None:
    """Write a table with the class of each line and its probability."""
    if into.suffix not in (".csv", ".parquet"):
        raise UserError(f"{into}: name a file .csv or .parquet")
    refuse_existing(into)
    frame, name = texts_of(table, column)
    with encoder_of(what) as exported:
        found = in_parts(frame[name].tolist(), exported.probabilities, into, what)
        labels = np.array(exported.labels, dtype=object)[found.argmax(1)]
    frame = frame.assign(predicted=labels, probability=found.max(1))
    frame.to_csv(into, index=False) if into.suffix == ".csv" else frame.to_parquet(into, index=False)
    say(f"{into}: {len(frame)} lines with the columns predicted and probability")


def refuse_existing(into: Path) -> None:
    if into.exists():
        raise UserError(f"{into} exists: name a new file")


def texts_of(table: Path, column: str) -> tuple[pd.DataFrame, str]:
    """Return a table and the name of its texts: the given column, or the one with the longest values."""
    frame = read(str(table), "").frame
    names = list(map(str, frame.columns))
    if column and column not in names:
        raise UserError(f"{table} has no column `{column}`{nearest_name(column, names)}")
    name = column or text_column(frame).name
    if not column:
        tell(f"texts: the column {name}")
    return frame.assign(**{name: frame[name].fillna("").astype(str)}), name


@contextmanager
def encoder_of(what: str) -> Iterator[Exported]:
    """Load an exported folder, or the encoder of a cell."""
    if Path(what).is_dir():
        yield Exported(Path(what))
        return
    with tempfile.TemporaryDirectory() as temporary:
        run = find_run_folder(what)
        refuse_code_of_others(run)
        export_cell(run, Path(temporary) / "model")
        yield Exported(Path(temporary) / "model")


def in_parts(texts: list[str], function: Callable[[list[str]], np.ndarray], into: Path, what: str) -> np.ndarray:
    """Apply a function to texts. Parts are kept beside the output until all are done; a stopped command takes them."""
    weights = Path(what) / "model.safetensors"
    written = str(weights.stat().st_mtime_ns) if weights.exists() else ""  # a folder may be exported anew
    key = hashlib.sha256("\0".join([what, written, *texts]).encode()).hexdigest()[:16]
    folder = into.with_name(f".{into.name}-{key}")
    folder.mkdir(parents=True, exist_ok=True)
    begins = range(0, len(texts), PART)
    console = Console(stderr=True)
    for begin in track(begins, f"{len(texts)} texts", console=console, disable=not console.is_terminal):
        if not (part := folder / f"{begin}.npy").exists():
            unfinished = part.with_suffix(".tmp.npy")
            np.save(unfinished, function(texts[begin : begin + PART]))
            unfinished.rename(part)
    found = np.concatenate([np.load(folder / f"{begin}.npy") for begin in begins])
    shutil.rmtree(folder)
    return found
