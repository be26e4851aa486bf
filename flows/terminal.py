"""Print for commands, with control characters escaped, since file names, columns and labels are untrusted; turn
exceptions into messages and exit codes; read times as people write them."""

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeAlias

import typer

from contrastive.errors import UserError, brief, printable
from tasks.address import masked

LONGEST_LINE = 4000  # characters per line of an error, which may quote a file
LARGEST_MAX_SEEDS = 200  # the limit of --max-seeds
TRAIN = "`pip install '.[train]' -c constraints.txt` in the checkout"
TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
UNITS = (3600.0, 60.0, 1.0)
SeedOptions: TypeAlias = tuple[bool, int | None, str, bool]  # until_decided, max_seeds, budget, regardless


class ExitWith(UserError):
    """Ends a command with its message and its own exit code, after work whose result is a failure."""

    exit_code = 1


@contextmanager
def errors_exit_with(code: int) -> Iterator[None]:
    """Give an error in the block this exit code, unless it has one from a block inside."""
    try:
        yield
    except (typer.Exit, ExitWith):
        raise
    except Exception as error:
        vars(error).setdefault("exit_code", code)
        raise


def exit_code(error: Exception) -> int:
    """Print an error; return its exit code. A fault of the program is raised again, or printed with its traceback."""
    from contrastive.runs.store import explain_os_error

    message = ""
    if isinstance(error, UserError):
        message = str(error)
    elif isinstance(error, ModuleNotFoundError):
        message = missing_extra(error)
    elif isinstance(error, OSError):
        message = explain_os_error(error)
    if message:
        complain(message)
    elif not hasattr(error, "exit_code"):
        raise error
    else:
        traceback.print_exception(error)
    return getattr(error, "exit_code", 2)


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


def require_training() -> None:
    """Raise ModuleNotFoundError without torch, before anything else of the extra `train` is found to be missing."""
    if find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")


def missing_extra(error: ModuleNotFoundError) -> str:
    """Return how to install what a command lacks, or an empty string if it is a part of this project."""
    name = (error.name or "").partition(".")[0]
    ours = name in ("ablate", "contrastive", "flows", "reports", "tasks")
    return "" if ours else f"this command needs packages that are not installed (no {name}): {TRAIN}"


def seconds_of(option: str, text: str) -> float:
    """Convert a time such as 2h, 90m, 1h30m or 45s to seconds; raise UserError for other texts."""
    parts = TIME.fullmatch(text)
    seconds = sum(float(n) * unit for n, unit in zip(parts.groups(), UNITS, strict=True) if n) if parts else 0.0
    if seconds <= 0:
        raise UserError(f"{option} `{text}` is not a time such as 45s, 90m, 2h or 1h30m")
    return seconds


def check_seed_options(until_decided: bool, max_seeds: int | None, budget: str, regardless: bool) -> None:
    """Raise UserError if options of --until-decided are wrong, or have no effect; called before heavy imports."""
    if not until_decided and (max_seeds is not None or budget or regardless):
        raise UserError("--max-seeds, --budget and --regardless need --until-decided (in Prefect: until_decided)")
    if budget:
        seconds_of("the budget", budget)
