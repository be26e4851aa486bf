"""Paths that people give: where they lead, and why nothing can be read there, told before anything waits or fails."""

import difflib
import errno
import os
import stat
from pathlib import Path

from contrastive.errors import UserError, brief

KINDS = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISBLK, "a device"), (stat.S_ISCHR, "a device"))


def given(text: str) -> Path:
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
        kind = next((name for is_one, name in KINDS if is_one(mode)), "no plain file")
        raise UserError(f"{brief(path)} is {kind}; write what it gives into a {wanted}, and name that")
    _check_access(path, os.R_OK)


def check_folder(path: Path, wanted: str = "folder") -> None:
    """That a path leads to a folder whose files can be listed and opened."""
    if not stat.S_ISDIR(_mode(path, wanted)):
        raise UserError(f"{brief(path)} is a file, and a {wanted} is needed; name the folder that holds it")
    _check_access(path, os.R_OK | os.X_OK)


def _mode(path: Path, wanted: str) -> int:
    try:
        return path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UserError(_why_not_there(path, wanted, error)) from None


def _check_access(path: Path, how: int) -> None:
    if not os.access(path, how):
        raise UserError(f"{brief(path)} may not be read by this user; give access to it")


def _why_not_there(path: Path, wanted: str, error: OSError | ValueError) -> str:
    """That nothing is at a path, where it was sought, and what has nearly its name."""
    code = error.errno if isinstance(error, OSError) else errno.ENOENT
    if code == errno.ENAMETOOLONG:
        return f"there is no {wanted} {brief(path)}: a name as long as this one no file can have; write a shorter one"
    if code == errno.ELOOP:
        return f"{brief(path)} is a link that leads back to itself; name the {wanted} itself"
    if code == errno.EACCES:
        return f"{brief(path)} may not be looked up by this user; give access to its folder"
    if code not in (errno.ENOENT, errno.ENOTDIR):
        return f"{brief(path)} cannot be read ({os.strerror(code or 0)}); mend that, or name another {wanted}"
    if path.is_symlink():
        return f"{brief(path)} is a link to {brief(os.readlink(path))}, which is not there; name the {wanted} itself"
    folder = path.absolute().parent
    if not folder.is_dir():
        there = f"{brief(folder)} is no folder" if folder.exists() else f"there is no folder {brief(folder)}"
        return f"there is no {wanted} {brief(path)}: {there}"
    return f"there is no {wanted} {brief(path)} in {brief(folder)}{_nearest(path.name, folder)}"


def _nearest(name: str, folder: Path) -> str:
    try:
        near = difflib.get_close_matches(name, os.listdir(folder), n=1)
    except OSError:  # a folder that may be entered, not listed
        return ""
    return f"; did you mean {brief(near[0])}?" if near else ""
