"""Load an experiment file: read, check and expand it, and report its mistakes, each with its line and fix.

Each stage reports all its mistakes at once: settings and their values; names of files and models, and what is evaluated
and shown; how settings combine in cells; names and baselines of rows.

YAML is read as plain data with line numbers: `yes`, `on` and dates are text, `1e-4` and `20_000` are numbers, and a
repeated key is a mistake. (PyYAML alone reads `1e-4` as text and `no` as false, and keeps the last of two equal keys.)
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from contrastive import paths
from contrastive.config.cell import add_plugin
from contrastive.config.experiment import Experiment, choices_of
from contrastive.data.files import decoded
from contrastive.errors import UserError, brief, brief_name
from contrastive.grid.check import in_cells, in_choice, outside_cells, too_many, wrong_names, wrong_rows
from contrastive.grid.choose import choosing
from contrastive.grid.expand import Builder, LoadedExperiment
from contrastive.grid.messages import Finding, SettingPath, explain_errors, old_sections, shown_value
from contrastive.runs import plugins

PREFIXES = ("file:", "deepspeed:")
SPLITS = ("test", "validation")  # splits whose paths need no prefix if the data is a file
HOLD_PATHS = ("source", "model", "guide", "translators", "sharding", *SPLITS)
MOST_SHOWN = 30  # most mistakes of a file that an error message lists
LONGEST = 1_000_000  # most characters of a file
LONGEST_MESSAGE = 1000  # most characters of a message about one mistake
TOO_LARGE = f"too large: an experiment file has at most {LONGEST} characters; data.source names a data file"
TAG = "tag:yaml.org,2002:"


# Scalars of YAML 1.2: tag → pattern, and function from text to value.
SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    "int": (r"[-+]?([0-9]+|[1-9][0-9]{0,2}(_[0-9]{3})+)", int),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    ),
    "str": (r".*", lambda text: text.encode().decode()),  # ValueError at half of a character, such as \ud800
}


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a file."""

    file: str
    line: int  # 0: the file as a whole
    message: str

    def __str__(self) -> str:
        location = f"{brief(self.file)}:{self.line}" if self.line else brief(self.file)
        return f"{location}: {brief(self.message, LONGEST_MESSAGE)}"


@dataclass(frozen=True)
class YamlDocument:
    """Content of a YAML text: dicts, tuples and scalars, with the line of each."""

    data: Any
    lines: dict[SettingPath, int]
    problems: list[Problem]

    def line(self, path: SettingPath) -> int:
        """Return the line of the setting at `path`, or of its deepest parent in the text."""
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 1)


class _Reader(yaml.SafeLoader):
    """Reads the first document of a text as plain data, with only the scalars of YAML 1.2, and collects the lines of
    its settings and its problems."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.file = file
        self.lines: dict[SettingPath, int] = {}
        self.problems: list[Problem] = []

    def plain_value(self, node: yaml.Node, path: SettingPath) -> Any:
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.child(item, item, (*path, position)) for position, item in enumerate(node.value))
        if isinstance(node, yaml.MappingNode):
            return {key.value: self.child(key, value, (*path, key.value)) for key, value in self.named(node)}
        try:
            return SCALARS[node.tag.removeprefix(TAG)][1](node.value)
        except (KeyError, ValueError):
            tag = node.tag.replace(TAG, "!!")
            self.problem(node, f"`{brief_name(node.value)}` is not a value of the type `{brief_name(tag)}`")
        return None

    def child(self, first: yaml.Node, value: yaml.Node, path: SettingPath) -> Any:
        self.lines[path] = first.start_mark.line + 1
        return self.plain_value(value, path)

    def named(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        """Yield the names of a map with their values; report those that are no words or repeated."""
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value.isprintable():
                self.problem(key, "a setting's name must be printable text")
                continue
            if key.value in lines:
                self.problem(key, f"`{brief_name(key.value)}` is given twice, first on line {lines[key.value]}")
            lines.setdefault(key.value, key.start_mark.line + 1)
            yield key, value

    def problem(self, node: yaml.Node, message: str) -> None:
        self.problems.append(Problem(self.file, node.start_mark.line + 1, message))


_Reader.yaml_implicit_resolvers = {}
for _tag, (_pattern, _) in SCALARS.items():
    _Reader.add_implicit_resolver(TAG + _tag, re.compile(rf"(?:{_pattern})\Z", re.DOTALL), None)


def read_document(text: str, name: str) -> YamlDocument:
    """Read a YAML text; syntax errors and repeated keys are in `problems` of the result."""
    try:
        if len(text) > LONGEST:
            raise yaml.YAMLError(TOO_LARGE)
        reader = _Reader(text, name)
        node = reader.get_single_node()
        data = None if node is None else reader.plain_value(node, ())
        return YamlDocument(data, reader.lines, reader.problems)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line + 1 if mark else len(f"{text[: getattr(error, 'position', 0)]}.".splitlines())
        shown = "".join(text[:LONGEST].splitlines()[line - 1 : line]).strip()
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        if isinstance(error, RecursionError):
            reason = "nested too deeply"
        message = f"not valid YAML ({brief(reason)}): {brief(shown, 80)}"
        return YamlDocument(None, {}, [Problem(name, line, message)])


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
    try:
        paths.check_file(Path(path))  # opening a pipe, for example, could block forever
        text = decoded(Path(path))
    except (UserError, OSError) as error:
        raise ExperimentError([Problem(str(path), 0, str(error))]) from None
    whole = Path(path).absolute()
    shown = whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole.name
    return replace(parse_experiment(text, str(path), whole.parent), file=str(shown))


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

    stop_at(old_sections(data))
    try:
        data = with_copies(data, folder)
        experiment = Experiment.model_validate(data, strict=True)
    except ValidationError as error:
        stop_at(explain_errors(error, Experiment, data))
        raise
    except UserError as error:
        stop_at([(("plugins",), str(error))])
        raise
    stop_at([*wrong_names(experiment), *outside_cells(experiment), *too_many(experiment)])
    builder = Builder(experiment)
    stop_at(in_cells(builder))
    if experiment.choose is not None:
        stop_at(in_choice(Builder(choosing(experiment)), choices_of(experiment.choose)))
    resolved = builder.resolved()
    stop_at(wrong_rows(resolved))
    return resolved


def with_copies(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings that name the copies of the files in `plugins`, whose losses and views are then known."""
    files = data.get("plugins")
    if not isinstance(files, tuple) or not all(isinstance(file, str) for file in files):
        return data
    copies = [plugins.keep(folder / file) for file in files]
    for copy in copies:
        add_plugin(copy)
    return data | {"plugins": tuple(copies)}


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
