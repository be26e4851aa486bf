"""Load an experiment file: read, check and expand it, and report its mistakes, each with its line and fix.

Each stage reports all its mistakes at once: settings and their values; names of files and models, and what is evaluated
and shown; how settings combine in cells; labels.
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from contrastive import paths
from contrastive.config.experiment import Experiment
from contrastive.errors import UserError, brief_name
from contrastive.grid.check import in_cells, outside_cells, too_many, wrong_labels, wrong_names
from contrastive.grid.expand import Builder, LoadedExperiment
from contrastive.grid.messages import Finding, explain_errors, shown_value
from contrastive.grid.yaml_lines import LONGEST, Problem, SettingPath, YamlDocument, read_document

PREFIXES = ("file:", "deepspeed:")
SPLITS = ("test", "validation")  # splits whose paths need no prefix if the data is a file
HOLD_PATHS = ("source", "model", "translators", "sharding", *SPLITS)
MOST_SHOWN = 30  # most mistakes of a file that an error message lists


class ExperimentError(UserError):
    """All mistakes of an experiment file; the message has one per line, and at most MOST_SHOWN."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        rest = len(self.problems) - MOST_SHOWN
        return "\n".join([*map(str, self.problems[:MOST_SHOWN]), *([f"and {rest} more"] if rest > 0 else [])])


def load_experiment(path: Path | str) -> LoadedExperiment:
    """Return the experiment of a file with its grid; raise ExperimentError with its mistakes."""
    name, line = str(path), 0
    try:
        paths.check_file(Path(path))  # opening a pipe, for example, could block forever
        with Path(path).open("rb") as file:
            content = file.read(4 * LONGEST + 1)  # at most 4 bytes per character; a larger file is not read whole
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"not UTF-8 (byte {content[error.start]:#04x}); save the file as UTF-8"
    except (UserError, OSError) as error:
        message = str(error)
    else:
        return parse_experiment(text, name, Path(path).absolute().parent)
    raise ExperimentError([Problem(name, line, message)])


@lru_cache(maxsize=1)  # `ablate run` and its flow read the same file in one process
def parse_experiment(text: str, name: str = "experiment", folder: Path = Path()) -> LoadedExperiment:
    """Return the experiment in a text with its grid; relative paths start at `folder`.

    Raises ExperimentError with all mistakes of the first stage that finds any.
    """
    document = read_document(text, name)
    if not isinstance(document.data, dict):
        got = f"expected settings (name: value) for name, data, encoder and sections, got {shown_value(document.data)}"
        raise ExperimentError(document.problems or [Problem(name, 1, got)])
    data = anchored(document.data, folder) if folder.is_absolute() else document.data

    def stop_at(findings: Iterable[Finding]) -> None:
        """Raise ExperimentError with the mistakes of the text and these of its content, if there are any."""
        problems = {*document.problems, *(_problem(document, name, *finding) for finding in findings)}
        if problems:
            raise ExperimentError(sorted(problems)) from None

    try:
        experiment = Experiment.model_validate(data, strict=True)
    except ValidationError as error:
        stop_at(explain_errors(error, Experiment, data))
        raise
    stop_at([*wrong_names(experiment), *outside_cells(experiment), *too_many(experiment)])
    builder = Builder(experiment)
    stop_at(in_cells(builder))
    resolved = builder.resolved()
    stop_at(wrong_labels(resolved))
    return resolved


def anchored(settings: Any, folder: Path, key: str = "", of_file: bool = False) -> Any:
    """Return the settings with relative paths made absolute; they are relative to the folder of the experiment file.

    `of_file`: whether the data is a file, so that `test` and `validation` may be files too.
    """
    if isinstance(settings, dict):
        of_file = str(settings.get("source", "")).startswith("file:")
        return {name: anchored(value, folder, str(name), of_file) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return type(settings)(anchored(item, folder, key) for item in settings)
    if not isinstance(settings, str) or key not in HOLD_PATHS:
        return settings
    prefix = next((prefix for prefix in PREFIXES if settings.startswith(prefix)), "")
    name = settings.removeprefix(prefix)
    if not name or name.startswith(("/", "~")) or not (prefix or (key in SPLITS and of_file)):
        return settings
    return f"{prefix}{folder / name}"


def _problem(document: YamlDocument, name: str, path: SettingPath, message: str) -> Problem:
    setting = ".".join(brief_name(part) for part in path if isinstance(part, str))
    return Problem(name, document.line(path), f"{setting}: {message}" if setting else message)
