"""Read YAML as plain data with line numbers, and refuse repeated keys.

`yes`, `on` and dates are text, `1e-4` and `20_000` are numbers, and a repeated key is a mistake. (PyYAML alone reads
`1e-4` as text and `no` as false, and silently keeps the last of two equal keys.)
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from contrastive.errors import brief, brief_name

LONGEST, LARGEST = 1_000_000, 100_000  # most characters of a file, and most values, whose aliases (*) may multiply
LONGEST_MESSAGE = 1000  # most characters of a message about one mistake
TOO_LARGE = (
    f"too large: an experiment file has at most {LONGEST} characters and {LARGEST} values. If it is a data file, name "
    "it in data.source of an experiment file"
)
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
SettingPath = tuple[str | int, ...]  # where in the file: ("sections", 0, "axes", "k", 1)


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a file."""

    file: str
    line: int  # 0: the file as a whole
    message: str  # always one line

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", brief(self.message, LONGEST_MESSAGE))

    def __str__(self) -> str:
        location = f"{brief(self.file)}:{self.line}" if self.line else brief(self.file)
        return f"{location}: {self.message}"


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
        self.file, self.values = file, 0
        self.lines: dict[SettingPath, int] = {}
        self.problems: list[Problem] = []

    def plain_value(self, node: yaml.Node, path: SettingPath) -> Any:
        self.values += 1
        if self.values > LARGEST:
            raise yaml.YAMLError(TOO_LARGE)
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
