"""Run folders, where the stages of a cell meet. A stage ends with a marker that holds the digest of every file it left.

`TRAINED` covers what training made, `DONE` covers everything. Both are written last, by rename. A folder whose files
do not agree with its marker is not finished: the stage runs again.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

from contrastive.errors import UserError
from contrastive.paths import expand_user

EVALUATED = ("scores.json", "examples.npz", "picture.npz")  # of evaluation; all else comes from training
NOT_COVERED = ("TRAINED", "DONE", "FAILED.json", "attempts", "attempt.json", "resume")

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
MISPLACED = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENOENT)


def home() -> Path:
    """Where runs, caches and the MLflow database live: ABLATE_HOME, or the working directory."""
    return expand_user(os.environ.get("ABLATE_HOME") or ".").absolute()


def check_home() -> None:
    """Make the home if it is not there, and see that it can be written to, before there is work to keep."""
    try:
        home().mkdir(parents=True, exist_ok=True)
        write_atomic(home() / ".writable", "")
        (home() / ".writable").unlink()
    except OSError as error:
        raise UserError(f"cannot write to {home()}: {explain_os_error(error)}") from error


def explain_os_error(error: OSError) -> str:
    """What the system refused, and what to do about it."""
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else home()
    if error.errno in FULL:
        return f"the disk is full: could not write {path}; {free_space_advice(path)}"
    if error.errno in FORBIDDEN:
        return f"not allowed to write or read {path}: give access, or choose another place with ABLATE_HOME"
    there = next((candidate for candidate in (path, *path.parents) if os.path.lexists(candidate)), path)
    if error.errno in MISPLACED and (there.is_symlink() or there.is_file() or error.errno == errno.EISDIR):
        what = "a file" if there.is_file() else "a folder" if there.is_dir() else "a link that leads nowhere"
        return f"{there} is {what}, which cannot be used here: move it away, or set ABLATE_HOME elsewhere, and go on"
    return f"{path}: {error.strerror or error}"


def free_space_advice(path: Path) -> str:
    """How much room the disk of a path has left, and what to do about it."""
    there = next(candidate for candidate in (path.absolute(), *path.absolute().parents) if candidate.exists())
    mount = next(candidate for candidate in (there, *there.parents) if os.path.ismount(candidate))
    return (
        f"the disk at {mount} has {shutil.disk_usage(there).free / 2**20:.1f} MiB left: make room there, or set "
        "ABLATE_HOME to a place on another disk; nothing is lost, the same command goes on"
    )


def run_folder(cell_id: str) -> Path:
    return home() / "runs" / cell_id


def report_folder(experiment: str) -> Path:
    return home() / "reports" / "output" / experiment


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that a reader sees either the old one or the whole new one, whenever the writer dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        if path.is_dir():  # no file of ours is a folder: somebody has damaged the store
            remove(path)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    write_atomic(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}): `ablate audit EXPERIMENT --mend` has it made again") from error


def digest_file(path: Path) -> str:
    """sha256 of a file, computed once a process for the same path, size and time of change."""
    status = path.stat()
    return _digest(str(path.absolute()), status.st_size, status.st_mtime_ns)


@cache
def _digest(path: str, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` among all processes; the system frees it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():  # nobody could hold a lock on it
        shutil.rmtree(path, ignore_errors=True)  # never a file, should another process have been faster
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def clear_stage(folder: Path, marker: str) -> None:
    """Remove the marker and what it alone covers, before the stage puts its files there again; first what says done."""
    remove(folder / "DONE")
    if marker == "TRAINED":
        remove(folder / "TRAINED")
    for path in folder.iterdir():
        kept = path.name.startswith(".") or path.name in NOT_COVERED
        if not kept and (marker == "TRAINED" or path.name in EVALUATED):
            remove(path)


def remove(path: Path) -> None:
    """Whatever is there; of a link, the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def mark_finished(folder: Path, marker: str) -> None:
    """Declare a stage finished: write the digest of all files that it covers."""
    files = {}
    for path in sorted(covered_files(folder, marker)):
        status = path.stat()
        files[str(path.relative_to(folder))] = [digest_file(path), status.st_size, status.st_mtime_ns]
    write_json(folder / marker, {"files": files})


def covered_files(folder: Path, marker: str) -> Iterator[Path]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).parts[0]
        hidden = name.startswith(".") or name in NOT_COVERED
        if path.is_file() and not hidden and not (marker == "TRAINED" and name in EVALUATED):
            yield path


def damage(folder: Path, marker: str, *, thorough: bool = False) -> str | None:
    """Why the marker does not hold, or None when it does.

    A file with the size and time of change noted in the marker is trusted; `thorough` reads every byte.
    """
    try:
        noted = read_json(folder / marker)["files"]
        for name, (digest, size, changed) in noted.items():
            status = os.stat(folder / name)
            if status.st_size != size:
                return f"{name} has {status.st_size} bytes instead of {size}"
            if (thorough or status.st_mtime_ns != changed) and digest_file(folder / name) != digest:
                return f"{name} was changed"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{marker} is not readable"
    except OSError as error:
        if error.errno not in FORBIDDEN + MISPLACED:  # else the disk fails, which may pass
            raise
        return f"{Path(error.filename).name} is not readable"
    return None


def finished(folder: Path) -> bool:
    return damage(folder, "DONE") is None


def failure(folder: Path) -> dict[str, Any] | None:
    """What FAILED.json says of the last attempt; None when there is none."""
    try:
        document: dict[str, Any] = read_json(folder / "FAILED.json")
        return document | {"kind": str(document["kind"]), "error": str(document["error"])}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, OSError):
        return {"kind": "infrastructure", "error": "FAILED.json is not readable"}


Kind = Literal["calibration", "prefix", "references", "tokens", "untrained"]


def cache_folder(kind: Kind, key: str, below: Path | None = None) -> Path:
    """The folder of what is computed once for many cells: below the home one for each kind, and in it one a key."""
    return (below or home()) / "cache" / kind / key


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that `make` fills, if it is not there whole. One process makes it."""
    if finished(folder):
        return folder
    with locked(folder.with_suffix(".lock")):
        if not finished(folder):
            unfinished = folder.with_suffix(".unfinished")
            for rest in (unfinished, folder):  # of a process that was killed; a folder that was damaged
                remove(rest)
            unfinished.mkdir(parents=True)
            make(unfinished)
            mark_finished(unfinished, "DONE")
            os.replace(unfinished, folder)
    return folder
