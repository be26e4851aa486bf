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

DEEPEST, LARGEST = 50, 100_000  # most levels of nesting; most names and values, which take some seconds to read
LONGEST = 1_000_000  # most characters of a file
LONGEST_MESSAGE = 1000  # most characters of a message about one mistake
TOO_LARGE = (
    f"too large: an experiment file has at most {LONGEST} characters, and {LARGEST} names and values. If it is a data "
    "file, name it in data.source of an experiment file"
)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # as YAML counts lines
TAG = "tag:yaml.org,2002:"
# Scalars of YAML 1.2: tag → pattern, and function from text to value.
SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    "int": (r"[-+]?([0-9]{1,4000}|[1-9][0-9]{0,2}(_[0-9]{3}){1,99})", int),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    ),
    "str": (r".*", str),
}
SettingPath = tuple[str | int, ...]  # where in the file: ("sections", 0, "axes", "k", 1)


class _Refused(Exception):
    """The text cannot be read at all; the message is the reason."""


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
    its settings and its problems. A text that is too large or too deeply nested is refused."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.file, self.composed, self.depth, self.converted = file, 0, 0, 0
        self.lines: dict[SettingPath, int] = {}
        self.problems: list[Problem] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.composed, self.depth = self.composed + 1, self.depth + 1
        if self.composed > LARGEST:
            raise _Refused(TOO_LARGE)
        if self.depth > DEEPEST:
            raise _Refused("nested too deeply for an experiment file")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def plain_value(self, node: yaml.Node, path: SettingPath) -> Any:
        self.converted += 1
        if len(path) > DEEPEST or self.converted > LARGEST:
            raise _Refused("aliases (*) make this file endless; write the values out")
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.child(item, item, (*path, position)) for position, item in enumerate(node.value))
        if isinstance(node, yaml.MappingNode):
            return {key.value: self.child(key, value, (*path, key.value)) for key, value in self.named(node)}
        try:
            return SCALARS[node.tag.removeprefix(TAG)][1](node.value) if self.is_text(node) else ""
        except (KeyError, ValueError):
            value, tag = brief_name(node.value), brief_name(node.tag.replace(TAG, "!!"))
            self.problem(node, f"`{value}` is not a value of the tag `{tag}`; leave the tag out")
        return node.value

    def child(self, first: yaml.Node, value: yaml.Node, path: SettingPath) -> Any:
        self.lines[path] = first.start_mark.line + 1
        return self.plain_value(value, path)

    def named(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        """Yield the valid names of a map with their values; report the others as problems."""
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.problem(key, "a setting's name must be a word, not a list or map")
            elif key.value == "<<":
                self.problem(key, "merge keys (<<) are not supported; write the settings out")
            elif self.is_text(key):
                if key.value in lines:
                    self.problem(key, f"`{brief_name(key.value)}` is given twice, first on line {lines[key.value]}")
                lines.setdefault(key.value, key.start_mark.line + 1)
                yield key, value

    def is_text(self, node: yaml.Node) -> bool:
        if lone := LONE_SURROGATE.search(node.value):
            self.problem(node, "the text contains half of a character (a lone surrogate); write the whole character")
        return not lone

    def problem(self, node: yaml.Node, message: str) -> None:
        self.problems.append(Problem(self.file, node.start_mark.line + 1, message))


_Reader.yaml_implicit_resolvers = {}
for _tag, (_pattern, _) in SCALARS.items():
    _Reader.add_implicit_resolver(TAG + _tag, re.compile(rf"(?:{_pattern})\Z", re.DOTALL), None)


def read_document(text: str, name: str) -> YamlDocument:
    """Read a YAML text; syntax errors and repeated keys are in `problems` of the result."""
    line = 1
    try:
        if len(text) > LONGEST:
            raise _Refused(TOO_LARGE)
        reader = _Reader(text, name)
        node = reader.get_single_node()
        data = None if node is None else reader.plain_value(node, ())
        return YamlDocument(data, reader.lines, reader.problems)
    except yaml.MarkedYAMLError as error:
        mark, reason = error.problem_mark or error.context_mark, brief(error.problem, 150)
        line = mark.line + 1 if mark else 1
        shown = brief("".join(LINE_BREAK.split(text)[line - 1 : line]).strip(), 80)
        tab = "\t" in (error.problem or "") or "\\t" in (error.problem or "")
        message = "a tab; YAML indents with spaces" if tab else f"not valid YAML ({reason}): {shown}"
    except yaml.reader.ReaderError as error:
        line = len(LINE_BREAK.findall(text, 0, error.position)) + 1
        message = f"the character #x{error.character:02x} cannot be in YAML"
    except _Refused as error:
        message = str(error)
    except (ValueError, OverflowError) as error:  # from PyYAML, at an escape such as "\\UFFFFFFFF"
        message = f"not valid YAML ({error})"
    return YamlDocument(None, {}, [Problem(name, line, message)])
