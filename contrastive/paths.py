"""Paths that people give: where they lead, and why nothing can be read there, told before anything waits or fails."""

import difflib
import errno
import os
import stat
from pathlib import Path

from contrastive.errors import UserError, brief


def expand_user(text: str) -> Path:
    """The path that a text names, in which `~` and `~NAME` are the homes of users."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        home = brief(Path(text).parts[0])
        raise UserError(f"{brief(text)}: there is no home {home} on this machine; write the whole path") from None


def check_file(path: Path, wanted: str = "file") -> None:
    """That a path leads to a file that can be read: a pipe, for one, would be waited for without end."""
    mode = _mode(path, wanted)
    if stat.S_ISDIR(mode):
        raise UserError(f"{brief(path)} is a folder; name a {wanted} in it")
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket or device"
        raise UserError(f"{brief(path)} is {kind}; write what it gives into a {wanted}, and name that")
    _check_access(path, os.R_OK)


def check_folder(path: Path, wanted: str = "folder") -> None:
    """That a path leads to a folder whose files can be listed and opened."""
    if not stat.S_ISDIR(_mode(path, wanted)):
        raise UserError(f"{brief(path)} is a file, and a {wanted} is needed; name the folder that holds it")
    _check_access(path, os.R_OK | os.X_OK)


def _check_access(path: Path, how: int) -> None:
    if not os.access(path, how):
        raise UserError(f"{brief(path)} may not be read by this user; give access to it")


def _mode(path: Path, wanted: str) -> int:
    """What kind of thing is at a path; UserError with the reason, and what has nearly its name, where nothing is."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if getattr(error, "errno", None) == errno.ELOOP:
            raise UserError(f"{brief(path)} is a link that leads back to itself; name the {wanted} itself") from None
        why = getattr(error, "strerror", None) or brief(error)
        raise UserError(f"{brief(path)} cannot be read ({why}); mend that, or name another {wanted}") from None
    if path.is_symlink():
        raise UserError(
            f"{brief(path)} is a link to {brief(os.readlink(path))}, which is not there; name the {wanted} itself"
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"there is no {wanted} {brief(path)}: {brief(folder)} is no folder")
    near = difflib.get_close_matches(path.name, os.listdir(folder), n=1) if os.access(folder, os.R_OK) else []
    hint = f"; did you mean {brief(near[0])}?" if near else ""
    raise UserError(f"there is no {wanted} {brief(path)} in {brief(folder)}{hint}")
