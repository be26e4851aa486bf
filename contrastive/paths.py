"""Check the paths that users give, and explain in a UserError why a file or folder cannot be read."""

import difflib
import os
import stat
from pathlib import Path

from contrastive.errors import UserError, brief


def home() -> Path:
    """Return the folder of runs, caches and the MLflow database: ABLATE_HOME, or the working directory."""
    return expand_user(os.environ.get("ABLATE_HOME") or ".").absolute()


def expand_user(text: str) -> Path:
    """Return the path with `~` and `~NAME` replaced by home folders; raise UserError if there is no such home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        home = brief(Path(text).parts[0])
        raise UserError(f"{brief(text)}: there is no home {home} on this machine; write the whole path") from None


def check_file(path: Path, kind: str = "file") -> None:
    """Raise UserError unless the path is a readable regular file; opening a pipe, for example, could block forever."""
    mode = _mode(path, kind)
    if stat.S_ISDIR(mode):
        raise UserError(f"{brief(path)} is a folder, not a {kind}; name a {kind} in it")
    if not stat.S_ISREG(mode):
        raise UserError(f"{brief(path)} is a pipe or device, not a {kind}; save its output in a {kind}, and name that")
    _check_access(path, os.R_OK)


def check_folder(path: Path) -> None:
    """Raise UserError unless the path is a folder whose files can be listed and opened."""
    if not stat.S_ISDIR(_mode(path, "folder")):
        raise UserError(f"{brief(path)} is a file, not a folder; name the folder that contains it")
    _check_access(path, os.R_OK | os.X_OK)


def _check_access(path: Path, access: int) -> None:
    if not os.access(path, access):
        raise UserError(f"{brief(path)} cannot be read: permission denied; give this user access to it")


def _mode(path: Path, kind: str) -> int:
    """Return the mode bits of a path; raise UserError with the reason and the most similar name if nothing is there."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or brief(error)
        raise UserError(f"{brief(path)} cannot be read ({reason}); fix that, or name another {kind}") from None
    if path.is_symlink():
        raise UserError(
            f"{brief(path)} is a link to {brief(os.readlink(path))}, which does not exist; name the {kind} itself"
        )
    folder = path.absolute().parent
    names = os.listdir(folder) if folder.is_dir() and os.access(folder, os.R_OK) else []
    near = difflib.get_close_matches(path.name, names, n=1)
    hint = f"; did you mean {brief(near[0])}?" if near else ""
    raise UserError(f"there is no {kind} {brief(path)} in {brief(folder)}{hint}")
