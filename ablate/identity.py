"""Identify what commands would do: their text, the files and variables that they read, and the state of Git."""

import contextlib
import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from contrastive.errors import UserError
from contrastive.runs.store import home, write_atomic

PLACE = "{seed}"
OPERATORS = set("();<>|&")  # of the shell
READS = re.compile(r"environ|getenv|ENV|\$")  # a text that reads variables of the environment
VARIABLE = re.compile(r"\$\{?(\w+)|['\"](\w+)['\"]|\b([A-Z][A-Z0-9_]+)\b")  # what may name one
OF_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_", "TERM"}
CONFIGURATION = {".yaml", ".yml", ".toml", ".ini", ".cfg"}
CODE = {".py", ".sh", ".r", ".jl", ".pl", ".lua", ".js", ".ts", ".rb"} | CONFIGURATION
LARGEST, MOST = 1 << 20, 1000  # bytes of a file, and untracked files, that are read; else size and time of change count

Use = Literal["folder", "read", "written"]


@dataclass(frozen=True)
class Identity:
    """A digest of what commands would do, and what it was made of, in words."""

    digest: str
    checked: str
    others: Mapping[str, str | None]  # untracked files and their digests
    content: list[Any]  # everything else that the digest is made of

    def as_json(self) -> dict[str, Any]:
        """Return the digest, and what others can compare: the digests of files, and the state of Git.

        Each file is there once, by its path from the working directory unless a command names its absolute path.
        """
        read, states = self.content[-3:-1]
        absolute = {path for path in read if os.path.isabs(path)}
        files = {os.path.abspath(path): digest for path, digest in (dict(self.others) | read).items() if digest}
        return {
            "digest": self.digest,
            "files": {p if p in absolute else os.path.relpath(p): files[p] for p in sorted(files)},
            "git": {folder: state for folder, state in states.items() if state},
        }

    def without(self, paths: Collection[str]) -> str:
        """Return the digest that it would have without some of the untracked files."""
        return digest_of(self.content, {path: state for path, state in self.others.items() if path not in paths})


def digest_of(content: list[Any], others: Mapping[str, str | None]) -> str:
    return hashlib.sha256(json.dumps([*content, others], sort_keys=True).encode()).hexdigest()[:12]


def known_outputs() -> list[str]:
    """Return the configuration files that appeared or changed during runs, which are output of those."""
    try:
        return [str(path) for path in json.loads((home() / "judge" / "outputs.json").read_bytes())]
    except (OSError, ValueError, TypeError):
        return []


def note_outputs(before: Identity, after: Identity) -> list[str]:
    """Note the configuration files that changed during runs; return those."""
    paths = {*before.others, *after.others}
    changed = sorted(path for path in paths if before.others.get(path) != after.others.get(path))
    written = [path for path in changed if Path(path).suffix.lower() in CONFIGURATION]
    if written:
        write_atomic(home() / "judge" / "outputs.json", json.dumps(sorted({*known_outputs(), *written})))
    return written


def identity_of(*commands: str, metric: str, own: Collection[Path] = ()) -> Identity:
    """Identify commands, with the files that they name or may import, the variables, and Git where they run.

    Files in `own`, and those that the commands write, do not count.
    """
    uses = [use for command in commands for use in uses_of(command)]
    folders, named, written = ({path for kind, path in uses if kind == wanted} for wanted in get_args(Use))
    read = {str(path): file_digest(path) for path in sorted(named - written)}
    scripts = with_named([Path(name) for name, digest in read.items() if digest])
    folders |= {path.parent for path in scripts if path.parts[0] == ".."}
    ignored = (
        re.escape(os.path.abspath(path)) for path in (*written, *own, home() / "judge", *map(Path, known_outputs()))
    )
    pattern = re.compile(rf"(?:{'|'.join(ignored)})(?:/|\Z)".replace(re.escape(PLACE), "[0-9]+"))
    states = {str(folder): git_state(folder, written) for folder in sorted(folders)}
    others = states_of(path for path in untracked(states, scripts) if not pattern.match(os.path.abspath(path)))
    variables = {name: os.environ.get(name) for name in variables_of(commands, scripts)}
    content = [*commands, metric, os.getcwd(), read, states, variables]
    commits = [f"commit {state[:7]} with its changes" for state in states.values() if state]
    files, given = len({os.path.abspath(path) for path in (*map(str, scripts), *others)}), len(variables)
    counts = [f"{count} {noun}{'s' * (count != 1)}" for count, noun in ((files, "file"), (given, "variable")) if count]
    checked = ", ".join(["commands", *counts[:1], *dict.fromkeys(commits), *counts[1:]])
    return Identity(digest_of(content, others), checked, others, content)


def with_named(scripts: list[Path]) -> list[Path]:
    """Return scripts with those that they name, such as the train.py that train.sh runs."""
    for script in scripts:  # it grows meanwhile
        words = re.findall(r"[\w./-]+", text_of(script)) if script.suffix.lower() in CODE else ()
        named = (place / word for word in words if Path(word).suffix in CODE for place in (Path(), script.parent))
        scripts += [path for path in dict.fromkeys(named) if path not in scripts and file_digest(path)]
    return scripts


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= LARGEST else ""


def variables_of(commands: Iterable[str], scripts: Iterable[Path]) -> list[str]:
    """Return the names of environment variables that commands, or the scripts that they name, seem to read."""
    texts = [text for text in (*commands, *map(text_of, scripts)) if READS.search(text)]
    words = {word for text in texts for found in VARIABLE.findall(text) for word in found}
    return sorted(words & {*os.environ} - OF_THE_SHELL)


def untracked(states: dict[str, str], scripts: Iterable[Path]) -> Iterator[Path]:
    """Yield code and configuration that Git neither tracks nor ignores; without Git, that in the folders and below.

    Other untracked files are more often output of a run than its input.
    """
    for folder in (folder for folder, state in states.items() if state):
        listed = git(folder, "ls-files", "--others", "--exclude-standard", "--exclude=__pycache__", "-z") or b""
        paths = [Path(folder) / os.fsdecode(name) for name in listed.split(b"\0") if name]
        yield from (path for path in paths if path.suffix.lower() in CODE)
    if not all(states.values()):
        folders = {Path(folder).absolute() for folder, state in states.items() if not state}
        folders |= {script.absolute().parent for script in scripts if script.suffix.lower() in CODE}
        files = (path for folder in folders for kind in ("*.*", "*/*.*") for path in folder.glob(kind))
        yield from (path for path in files if path.suffix.lower() in CODE and path.is_file())


def states_of(paths: Iterable[Path]) -> dict[str, str | None]:
    """Return a digest of each file, or its size and time of change if there are many or it is large."""
    states = dict[str, str | None]()
    for path in sorted(set(paths)):
        with contextlib.suppress(OSError):  # it was removed meanwhile
            status = path.lstat()
            small = status.st_size <= LARGEST and len(states) < MOST
            states[str(path)] = file_digest(path) if small else f"{status.st_size} {status.st_mtime_ns}"
    return states


def file_digest(path: Path) -> str | None:
    """Return the digest of a file; None if there is none, or the word of a command is no path at all."""
    try:
        if path.is_file():  # no device
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        pass
    return None


def uses_of(command: str, folder: Path = Path()) -> Iterator[tuple[Use, Path]]:
    """Yield the folders where a command works, and what may be files that it reads or writes.

    It works in `folder`, unless it leaves that at once, after `cd`, and in `bash -c '...'`. Written are files after `>`
    and `tee`, and those of one seed, such as `{seed}.log`.
    """
    words, before, tee = words_of(command), "", False
    if next((word for word in words if not set(word) <= OPERATORS), "") != "cd":
        yield "folder", folder
    for word in words:
        if before == "cd":
            folder /= expanded(word)
            yield "folder", folder
        elif before == "-m":  # a module of Python
            yield from (("read", folder / f"{word.replace('.', '/')}{end}") for end in (".py", "/__main__.py"))
        elif any(letter.isspace() for letter in word):
            with contextlib.suppress(UserError):  # a text, no command
                yield from uses_of(word, folder)
        else:
            tee = word == "tee" or (tee and not set(word) <= OPERATORS)
            for name in filter(None, (word, word.partition("=")[2])):  # also of --config=FILE
                writes = tee or before.endswith(">") or (PLACE in name and name != PLACE)
                yield "written" if writes else "read", folder / expanded(name)
        before = word


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
    names = sorted(os.path.relpath(path, folder).replace(PLACE, "[0-9]*") for path in written)
    excluded = [f":(exclude){name}" for name in names if not name.startswith("..")]
    commit, changes = git(folder, "rev-parse", "HEAD"), git(folder, "diff", "HEAD", "--", ":/", *excluded)
    if commit is None or changes is None:
        return ""
    return f"{commit.decode().strip()} {hashlib.sha256(changes).hexdigest()[:12]}"


def git(folder: str | Path, *words: str) -> bytes | None:
    """Return what Git prints in a folder; None if it fails, or is not installed."""
    try:
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=True).stdout
    except (OSError, ValueError, subprocess.CalledProcessError):  # also of a name that is no path
        return None
