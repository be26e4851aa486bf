"""Read and write run folders and caches: atomic files, markers of finished stages, folders that are made once.

A stage ends with a marker file that holds the digest of every file it covers: `TRAINED` covers the files of training,
`DONE` covers all. Markers are written last, by rename. If a file does not match its marker, the stage runs again.
"""

import codecs
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, SoftFileLock, Timeout

from contrastive.errors import UserError
from contrastive.paths import home as home

EVALUATED = ("scores.json", "examples.npz", "picture.npz")  # files of evaluation; all others come from training
LOCK_FILE = ".held"  # ending of lock files, where the system's locks do not hold
LOCK_POLL = 0.1  # seconds between two tries for a lock that another process holds
NOT_COVERED = ("TRAINED", "DONE", "FAILED.json", "attempts", "attempt.json", "resume")

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
MISPLACED = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENOENT)


def check_home() -> None:
    """Create the home if necessary; raise UserError if it cannot be written to."""
    try:
        home().mkdir(parents=True, exist_ok=True)
        write_atomic(home() / ".writable", "")
        (home() / ".writable").unlink()
    except OSError as error:
        raise UserError(f"cannot write to {home()}: {explain_os_error(error)}") from error


def explain_os_error(error: OSError) -> str:
    """Return a message that says what the system refused and what to do about it."""
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else home()
    if error.errno in FULL:
        return (
            f"the disk is full: could not write {path}; make room there, or set ABLATE_HOME to a place on another "
            "disk; nothing is lost, the same command goes on"
        )
    if error.errno in FORBIDDEN:
        return f"not allowed to write or read {path}: give access, or choose another place with ABLATE_HOME"
    return f"{path}: {error.strerror or error}"


def run_folder(cell_id: str) -> Path:
    return home() / "runs" / cell_id


def report_folder(experiment: str) -> Path:
    return home() / "reports" / "output" / experiment


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file atomically: a reader sees the old or the whole new one, even if the writer dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
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
        raise UserError(
            f"{path} is damaged ({error}); run `ablate audit EXPERIMENT --mend` to make it again"
        ) from error


def digest_file(path: Path, *, as_text: bool = False) -> str:
    """Return the sha256 of a file, cached in this process by path, size and modification time; with `as_text` the same
    for any line ends, with or without a byte-order mark."""
    status = path.stat()
    return _digest(str(path.absolute()), status.st_size, status.st_mtime_ns, as_text)


@cache
def _digest(path: str, size: int, changed: int, as_text: bool) -> str:
    """Return the sha256 of a file, cached until its size or time of change differs."""
    if as_text:
        content = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
        return hashlib.sha256(content).hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path, timeout: float = -1, give_up: Callable[[], bool] | None = None) -> Iterator[bool]:
    """Hold an exclusive lock on `path`; the system frees it if the process dies.

    Yield False if the lock is not free within `timeout` seconds (-1: wait for ever) or before `give_up` returns True.
    Where machines do not see each other's locks (`ablate doctor --shared`), a file that exists is the lock. It outlives
    its process: others on the same machine then remove it, and `ablate clean --gone` those of a machine that is gone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock: FileLock | SoftFileLock
    if lock_files_mark().exists():
        lock = SoftFileLock(f"{path}{LOCK_FILE}", poll_interval=LOCK_POLL)
    else:
        lock = FileLock(path, poll_interval=LOCK_POLL, fallback_to_soft=False)
    try:
        held = lock.acquire(timeout, cancel_check=give_up)
    except Timeout:
        held = None
    with held or nullcontext():
        yield held is not None


def lock_files_mark() -> Path:
    """Return the file that tells all programs of this home to use lock files."""
    return home() / "locks" / "use-lock-files"


def holder(path: Path) -> str:
    """Return the host that a lock file names; empty if it is gone or unreadable."""
    try:
        return path.read_text(encoding="ascii").split("\n")[1]
    except (OSError, ValueError, IndexError):
        return ""


def break_lock_files(host: str) -> list[Path]:
    """Remove the lock files of a machine that is gone; return them."""
    found = [path for path in home().rglob(f"*{LOCK_FILE}") if holder(path).partition("?")[0] == host]
    for path in found:
        path.unlink(missing_ok=True)
    return found


def clear_stage(folder: Path, marker: str) -> None:
    """Remove the markers, then the files that the stage is about to replace."""
    remove(folder / "DONE")
    if marker == "TRAINED":
        remove(folder / "TRAINED")
    for path in folder.iterdir():
        kept = path.name.startswith(".") or path.name in NOT_COVERED
        if not kept and (marker == "TRAINED" or path.name in EVALUATED):
            remove(path)


def remove(path: Path) -> None:
    """Remove a file or folder, if it exists; for a link, the link itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def mark_finished(folder: Path, marker: str) -> None:
    """Mark a stage finished: write the digests of all files that it covers into its marker."""
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
    """Return how the files differ from the marker, or None if they match.

    A file with the size and modification time in the marker is trusted; `thorough` reads every byte.
    """
    try:
        files = read_json(folder / marker)["files"]
        for name, (digest, size, changed) in files.items():
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
        if error.errno not in FORBIDDEN + MISPLACED:  # a disk error, which may be temporary
            raise
        return f"{Path(error.filename).name} is not readable"
    return None


def finished(folder: Path) -> bool:
    return damage(folder, "DONE") is None


def failure(folder: Path) -> dict[str, Any] | None:
    """Return the contents of FAILED.json, the failure of the last attempt; None if there is none."""
    try:
        document: dict[str, Any] = read_json(folder / "FAILED.json")
        return document | {"kind": str(document["kind"]), "error": str(document["error"])}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, OSError):
        return {"kind": "infrastructure", "error": "FAILED.json is not readable"}


Kind = Literal["prefix", "references", "tokens", "untrained", "guides", "models"]


def cache_folder(kind: Kind, key: str, below: Path | None = None) -> Path:
    """Return the folder of a result that many cells share, HOME/cache/KIND/KEY."""
    return (below or home()) / "cache" / kind / key


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make` fills, in one process, unless it is complete already."""
    if finished(folder):
        return folder
    with locked(folder.with_suffix(".lock")):
        if not finished(folder):
            unfinished = folder.with_suffix(".unfinished")
            for leftover in (unfinished, folder):  # of a killed process, or damaged
                remove(leftover)
            unfinished.mkdir(parents=True)
            make(unfinished)
            mark_finished(unfinished, "DONE")
            os.replace(unfinished, folder)
    return folder
