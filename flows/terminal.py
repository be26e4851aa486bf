"""The only way to the terminal. Names of files, columns and labels come from anywhere: none of them may command it."""

import logging
from typing import Any

import typer

from contrastive.errors import brief, printable
from tasks.address import masked

LONGEST_LINE = 4000  # characters of a line of an error, which may repeat what stands in a file


def say(text: object) -> None:
    """Print lines. In JSON, what does not print is escaped as JSON has it, so that programs read the same."""
    typer.echo(printable(str(text)))


def tell(text: str) -> None:
    """Say what a command is doing, beside what it prints for programs."""
    typer.echo(printable(text), err=True)


def guard_logs() -> None:
    """From here on no line of a log commands the terminal either, whichever handler prints it."""
    usual = logging.getLogRecordFactory()

    def record(*arguments: Any, **keywords: Any) -> logging.LogRecord:
        line = usual(*arguments, **keywords)
        line.msg, line.args = printable(line.getMessage()), ()
        return line

    logging.setLogRecordFactory(record)


def complain(message: str) -> None:
    """Print an error, which may have several lines."""
    lines = masked(message).split("\n")
    typer.echo("\n".join(brief(line, LONGEST_LINE) for line in [f"ablate: {lines[0]}", *lines[1:]]), err=True)
