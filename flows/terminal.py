"""Print for commands, with control characters escaped, since file names, columns and labels are untrusted; read times
as people write them; refuse options that have no effect together with the others of a command."""

import gc
import logging
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import typer

from contrastive.errors import UserError, brief, printable
from tasks.address import masked

LONGEST_LINE = 4000  # characters per line of an error, which may quote a file
MOST_SEEDS = 200  # the limit of --max-seeds
TRAIN = "`pip install '.[train]' -c constraints.txt` in the checkout"
TRAIN_MODULES = (  # what the extra `train` installs, by the names that are imported
    *("accelerate", "deepspeed", "fastapi", "huggingface_hub", "mlflow", "ninja", "openTSNE", "peft", "prefect"),
    *("pyarrow", "pynvml", "safetensors", "sentencepiece", "sklearn", "sqlalchemy", "threadpoolctl", "tokenizers"),
    *("torch", "transformers"),
)
TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
UNITS = (3600.0, 60.0, 1.0)


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


def missing_extra(error: ModuleNotFoundError, command: str) -> str:
    """Return how to install what a command lacks, or an empty string if it is not of the extra `train`."""
    name = (error.name or "").partition(".")[0]
    known = name in TRAIN_MODULES and find_spec(name) is None
    return f"`ablate {command}` needs packages that are not installed (no {name}): {TRAIN}" if known else ""


def human_span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def seconds_of(option: str, text: str) -> float:
    """Convert a time such as 2h, 90m, 1h30m or 45s to seconds; raise UserError for other texts."""
    parts = TIME.fullmatch(text)
    seconds = sum(float(n) * unit for n, unit in zip(parts.groups(), UNITS, strict=True) if n) if parts else 0.0
    if seconds <= 0:
        raise UserError(f"{option} `{text}` is not a time such as 45s, 90m, 2h or 1h30m")
    return seconds


def refuse_without_effect(context: typer.Context, names: Collection[str], why: str, advice: str) -> None:
    """Raise UserError if any parameter of these names was given on the command line."""
    given = [
        param.opts[0] if param.param_type_name == "option" else str(param.metavar)
        for param in context.command.params
        if param.name in names and _is_given(context, param.name)
    ]
    if given:
        verb, them = ("has", "it") if len(given) == 1 else ("have", "them")
        raise UserError(f"{', '.join(given)} {verb} no effect {why}: leave {them} out, or {advice}")


def names_in_panel(context: typer.Context, panel: str) -> list[str]:
    """Return the names of a command's options that its help shows in a panel."""
    params = context.command.params
    return [param.name for param in params if param.name and getattr(param, "rich_help_panel", None) == panel]


def _is_given(context: typer.Context, name: str | None) -> bool:
    source = context.get_parameter_source(name) if name else None
    return source is not None and source.name == "COMMANDLINE"


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without collecting garbage, of which imports make none: it takes a quarter of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def check_study(until_decided: bool, max_seeds: int | None, budget: str | None, regardless: bool) -> None:
    """Raise UserError if options of a study are wrong, or have no effect; called before heavy imports."""
    if not until_decided and (max_seeds is not None or budget is not None or regardless):
        raise UserError(
            "--max-seeds, --budget and --regardless need --until-decided: add it, or leave them out (in Prefect: the "
            "parameters max_seeds, budget, regardless and until_decided)"
        )
    if budget is not None:
        seconds_of("the budget", budget)
