"""All output to the terminal, with control characters escaped: file names, columns and labels are untrusted."""

import logging
from typing import Any

import typer

from contrastive.errors import brief, printable
from tasks.address import masked

LONGEST_LINE = 4000  # characters per line of an error, which may quote a file


def say(text: object) -> None:
    """Print lines to stdout. Control characters become JSON escapes, so JSON output stays valid."""
    typer.echo(printable(str(text)))


def tell(text: str) -> None:
    """Print what a command is doing to stderr."""
    typer.echo(printable(text), err=True)


def escape_logs() -> None:
    """Escape control characters in every log record from here on, whichever handler prints it."""
    usual = logging.getLogRecordFactory()

    def record(*arguments: Any, **keywords: Any) -> logging.LogRecord:
        line = usual(*arguments, **keywords)
        line.msg, line.args = printable(line.getMessage()), ()
        return line

    logging.setLogRecordFactory(record)


def complain(message: str) -> None:
    """Print an error of one or more lines to stderr, without credentials."""
    lines = masked(message).split("\n")
    typer.echo("\n".join(brief(line, LONGEST_LINE) for line in [f"ablate: {lines[0]}", *lines[1:]]), err=True)


def human_span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def human_bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
