"""Identify what commands would do: their text, the files that they name, and Git's commit with its changes."""

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from contrastive.errors import UserError
from contrastive.runs.store import digest_file

OPERATORS = set("();<>|&")  # of the shell


def code_digest(*commands: str, metric: str) -> str:
    """Identify commands and their metric, with the files that they name and Git's state of the folders they work in."""
    named = [pair for command in commands for pair in named_words(command)]
    paths = sorted({str(folder / word) for folder, word in named})
    files = {path: digest_file(Path(path)) for path in paths if os.path.isfile(path)}
    states = {folder: git_state(folder) for folder in sorted({str(folder) for folder, _ in named})}
    content = [*commands, metric, os.getcwd(), files, states]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def named_words(command: str) -> Iterator[tuple[Path, str]]:
    """Yield the words that may be names of files, each with the folder where it is read: that of the last `cd`.

    A word after `>` is output.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise UserError(f"`{command}` is not a command: {error}") from None
    folder, previous = Path(), ""
    for word in words:
        if previous == "cd":
            folder /= os.path.expanduser(word)
        elif word != "cd" and not set(word) <= OPERATORS and not previous.endswith(">"):
            yield folder, os.path.expanduser(word)
            yield folder, word.partition("=")[2]  # --config=FILE
        previous = word


def git_state(folder: str) -> str:
    """Return the commit of a folder and a digest of the changes since; an empty string without Git."""
    state = ""
    for words in (("rev-parse", "HEAD"), ("diff", "HEAD")):
        try:
            printed = subprocess.run(["git", "-C", folder, *words], capture_output=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return ""
        state += hashlib.sha256(printed).hexdigest()
    return state
