"""Identify what commands would do: their text, the files and variables that they read, and the state of Git."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from contrastive.errors import UserError
from contrastive.runs.store import home

PLACE = "{seed}"
OPERATORS = set("();<>|&")  # of the shell
VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)|(?:environ(?:\.get)?|getenv)\s*[\[(]\s*['\"](\w+)")
OF_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}
CODE = {".py", ".sh", ".r", ".jl", ".pl", ".lua", ".js", ".ts", ".rb", ".yaml", ".yml", ".toml", ".ini", ".cfg"}
LARGEST, MOST = 1 << 20, 1000  # bytes of a file, and untracked files, that are read; else size and time of change count


@dataclass(frozen=True)
class Identity:
    """A digest of what commands would do, and what it was made of, in words."""

    digest: str
    checked: str


def code_digest(*commands: str, metric: str, own: Collection[Path] = ()) -> str:
    return identity_of(*commands, metric=metric, own=own).digest


def identity_of(*commands: str, metric: str, own: Collection[Path] = ()) -> Identity:
    """Identify commands, with the files that they name or may import, the variables, and Git where they run.

    Files in `own`, and those that earlier runs wrote, do not count.
    """
    named = [file for command in commands for file in files_in(command)]
    written = {path for path, is_written in named if is_written}
    read = {str(path): file_digest(path) for path in sorted({path for path, _ in named} - written)}
    ignored = {*(os.path.abspath(path) for path in written.union(own)), str(home() / "judge"), *known_outputs()}
    states = {str(folder): git_state(folder, written) for folder in sorted(working_folders(commands, read))}
    scripts = [Path(name) for name, digest in read.items() if digest]
    others = states_of(path for path in untracked(states, scripts) if not is_ignored(path, ignored))
    variables = {name: os.environ.get(name) for name in variables_of(commands, scripts)}
    content = [*commands, metric, os.getcwd(), read, states, others, variables]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    commits = [f"commit {state[:7]} with its changes" for state in states.values() if state]
    files, given = len({os.path.abspath(path) for path in (*map(str, scripts), *others)}), len(variables)
    counts = [f"{count} {noun}{'s' * (count != 1)}" for count, noun in ((files, "file"), (given, "variable")) if count]
    return Identity(digest, ", ".join(["commands", *counts[:1], *dict.fromkeys(commits), *counts[1:]]))


def variables_of(commands: Iterable[str], scripts: Iterable[Path]) -> list[str]:
    """Return the names of environment variables that commands, or the scripts that they name, read."""
    small = [path for path in scripts if path.stat().st_size <= LARGEST]
    texts = [*commands, *(path.read_text(encoding="utf-8", errors="replace") for path in small)]
    names = {name for text in texts for found in VARIABLE.findall(text) for name in found if name}
    return sorted(name for name in names if name in os.environ and name not in OF_THE_SHELL)


def working_folders(commands: Iterable[str], read: dict[str, str | None]) -> set[Path]:
    folders = {folder for command in commands for folder in folders_in(command)}
    return folders | {Path(name).parent for name, digest in read.items() if digest and name.startswith("..")}


def untracked(states: dict[str, str], scripts: Iterable[Path]) -> Iterator[Path]:
    """Yield files that Git neither tracks nor ignores; without Git, the modules that scripts may import."""
    for folder in (folder for folder, state in states.items() if state):
        words = ["git", "-C", folder, "ls-files", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(words, capture_output=True).stdout
        yield from (Path(folder) / os.fsdecode(name) for name in listed.split(b"\0") if name)
    if not all(states.values()):
        for script in scripts:
            if script.suffix.lower() in CODE:
                yield from script.absolute().parent.glob(f"*{script.suffix}")


def is_ignored(path: Path, ignored: Collection[str]) -> bool:
    """Return whether a file is one of some files, or in one of some folders; {seed} stands for anything."""
    name = Path(os.path.abspath(path))
    patterns = [other.replace("[", "[[]").replace(PLACE, "*") for other in ignored if PLACE in other]
    return any(str(each) in ignored for each in (name, *name.parents)) or any(map(name.match, patterns))


def states_of(paths: Iterable[Path]) -> dict[str, str | None]:
    """Return a digest of each file, or its size and time of change if there are many or it is large."""
    states = dict[str, str | None]()
    for path in sorted(set(paths)):
        with contextlib.suppress(OSError):  # it was removed meanwhile
            status = path.lstat()
            small = status.st_size <= LARGEST and len(states) < MOST
            states[str(path)] = file_digest(path) if small else f"{status.st_size} {status.st_mtime_ns}"
    return states


def known_outputs() -> list[str]:
    """Return the files that earlier runs of this home wrote, although their commands do not name them."""
    file = home() / "judge" / "outputs.txt"
    return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if file.exists() else []


def watch_outputs(commands: Collection[str], own: Collection[Path], tell: Callable[[str], None]) -> Callable[[], None]:
    """Return a function to call after each run: it notes untracked files that have changed since now as outputs.

    Code and configuration is never an output.
    """
    folders = {str(folder): git_state(folder) for command in commands for folder in folders_in(command)}

    def files() -> dict[str, tuple[int, int]]:
        found = {}
        for path in untracked(folders, ()):
            with contextlib.suppress(OSError):
                found[os.path.abspath(path)] = (path.lstat().st_size, path.lstat().st_mtime_ns)
        return found

    before = files()

    def note() -> None:
        known = {*known_outputs(), *map(os.path.abspath, own), str(home() / "judge")}
        changed = [name for name, state in files().items() if before.get(name) != state]
        new = [name for name in changed if Path(name).suffix not in CODE and not is_ignored(Path(name), known)]
        if new:
            tell(f"output from now on: {', '.join(map(os.path.relpath, new[:3]))}{', …' * (len(new) > 3)}")
            (home() / "judge").mkdir(parents=True, exist_ok=True)
            with open(home() / "judge" / "outputs.txt", "a", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(f"{name}\n" for name in new)

    return note


def file_digest(path: Path) -> str | None:
    """Return the digest of a file; None if there is none, or the word of a command is no path at all."""
    try:
        if path.is_file():  # no device
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        pass
    return None


def files_in(command: str, folder: Path = Path()) -> Iterator[tuple[Path, bool]]:
    """Yield what may be files in a command (also after `cd` and in `bash -c '...'`), and whether it writes them.

    Written are files after `>` and `tee`, and those of one seed, such as `{seed}.log`.
    """
    before, tee = "", False
    for word in words_of(command):
        if before == "cd":
            folder /= expanded(word)
        elif any(letter.isspace() for letter in word):
            with contextlib.suppress(UserError):  # a text, no command
                yield from files_in(word, folder)
        else:
            tee = word == "tee" or (tee and not set(word) <= OPERATORS)
            for name in filter(None, (word, word.partition("=")[2])):  # also of --config=FILE
                yield folder / expanded(name), tee or before.endswith(">") or (PLACE in name and name != PLACE)
        before = word


def folders_in(command: str) -> set[Path]:
    """Return the folders in which a command works: the working directory, unless it leaves that at once."""
    words = [word for word in words_of(command) if not set(word) <= OPERATORS]
    folder = Path()
    found = set() if words[:1] == ["cd"] else {folder}
    for before, word in itertools.pairwise(["", *words]):
        if before == "cd":
            folder /= expanded(word)
            found.add(folder)
        elif any(letter.isspace() for letter in word):  # as in `bash -c '...'`
            with contextlib.suppress(UserError):
                found |= {folder / inner for inner in folders_in(word)}
    return found


def expanded(word: str) -> str:
    return os.path.expandvars(os.path.expanduser(word))


def words_of(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError as error:
        raise UserError(f"`{command}` is not a command: {error}") from None


def git_state(folder: Path, written: Iterable[Path] = ()) -> str:
    """Return the commit of a folder and a digest of its changes, without files that the commands write.

    Without Git, it is empty.
    """
    names = sorted(os.path.relpath(path, folder).replace(PLACE, "*") for path in written)
    excluded = [f":(exclude){name}" for name in names if not name.startswith("..")]
    try:
        done = [
            subprocess.run(["git", "-C", str(folder), *words], capture_output=True)
            for words in (("rev-parse", "HEAD"), ("diff", "HEAD", "--", ":/", *excluded))
        ]
    except OSError:
        return ""
    if any(each.returncode for each in done):
        return ""
    return f"{done[0].stdout.decode().strip()} {hashlib.sha256(done[1].stdout).hexdigest()[:12]}"
