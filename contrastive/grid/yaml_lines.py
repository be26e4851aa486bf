"""A YAML text as plain data that remembers its lines.

YAML as people expect it: `yes`, `on` and dates are text, `1e-4` and `20_000` are numbers, a key given twice is a
mistake. (PyYAML alone reads `1e-4` as text and `no` as false, and keeps the last of two equal keys in silence.)
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from contrastive.errors import brief, brief_name

DEEPEST, LARGEST = 50, 100_000  # levels of nesting; names and values, which take some seconds to read
LONGEST = 1_000_000  # characters of a file
LONGEST_MESSAGE = 1000  # characters of what is said of one mistake
LONG_WORD = re.compile(r"(\S{60})\S+")
LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # as YAML counts lines


class _TooLarge(Exception):
    """More names and values than an experiment has."""


class _Loader(yaml.SafeLoader):
    """SafeLoader that knows the scalars of YAML 1.2 and no others, and gives up on what is too large or too deep."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes = self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.nodes, self.depth = self.nodes + 1, self.depth + 1
        if self.nodes > LARGEST:
            raise _TooLarge
        if self.depth > DEEPEST:
            raise RecursionError
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?([0-9]{1,4000}|[1-9][0-9]{0,2}(_[0-9]{3}){1,99})", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


_SCALARS: dict[str, Callable[[str], Any]] = {
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    "str": str,
}


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake of a file."""

    file: str
    line: int  # 0: the file as a whole
    message: str  # on one line, whatever the file holds

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", brief(self.message, LONGEST_MESSAGE))

    def __str__(self) -> str:
        location = f"{brief(self.file)}:{self.line}" if self.line else brief(self.file)
        return f"{location}: {self.message}"


@dataclass(frozen=True)
class YamlDocument:
    """What a text says: dicts, tuples and scalars, with the node that each came from."""

    data: Any
    node: yaml.Node | None
    problems: list[Problem] = field(default_factory=list)
    children: dict[int, dict[str | int, tuple[int, yaml.Node]]] = field(default_factory=dict)  # of nodes looked at

    def line(self, path: tuple[str | int, ...]) -> int:
        """Line of the setting at `path`, or of the deepest part of it that the text has."""
        node, line = self.node, 1
        for part in path:
            if id(node) not in self.children:  # once: thousands of mistakes may be in one list
                self.children[id(node)] = _children(node)
            child = self.children[id(node)].get(part)
            if child is None:
                break
            line, node = child
        return line


def read_document(text: str, name: str) -> YamlDocument:
    """Read a text; its syntax errors and repeated keys are in `problems`."""
    try:
        node = _composed(text)
    except yaml.MarkedYAMLError as error:
        return _unreadable(name, *_syntax(error, text))
    except RecursionError:
        return _unreadable(name, 1, "nested too deeply to be an experiment")
    except _TooLarge:
        return _unreadable(name, 1, TOO_LARGE)
    except yaml.reader.ReaderError as error:
        line = len(LINE_BREAK.findall(text, 0, error.position)) + 1
        return _unreadable(name, line, f"the character #x{error.character:02x} cannot be in YAML")
    except (ValueError, OverflowError) as error:  # of PyYAML at an escape such as "\\UFFFFFFFF"
        return _unreadable(name, 1, f"not valid YAML ({error})")
    reading = _Reading(name)
    try:
        data = None if node is None else _plain_value(node, reading, 0)
    except RecursionError:
        return _unreadable(name, 1, "aliases (*) make this file endless; write the values out")
    return YamlDocument(data, node, reading.problems)


TOO_LARGE = (
    f"too large: an experiment file has at most {LONGEST} characters, and {LARGEST} names and values. Is it a file of "
    "data? That is named in one, as data.source"
)


def _composed(text: str) -> yaml.Node | None:
    if len(text) > LONGEST:
        raise _TooLarge
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _unreadable(name: str, line: int, message: str) -> YamlDocument:
    return YamlDocument(None, None, [Problem(name, line, message)])


@dataclass
class _Reading:
    name: str
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def problem(self, node: yaml.Node, message: str) -> None:
        self.problems.append(Problem(self.name, node.start_mark.line + 1, message))


def _plain_value(node: yaml.Node, reading: _Reading, depth: int) -> Any:
    reading.nodes += 1
    if depth > DEEPEST or reading.nodes > LARGEST:
        raise RecursionError
    if isinstance(node, yaml.SequenceNode):
        return tuple(_plain_value(item, reading, depth + 1) for item in node.value)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, reading, depth)
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if not _is_text(node, reading):
        return ""
    if kind not in _SCALARS:
        reading.problem(node, f"the tag `{brief_name(node.tag)}` means nothing here; leave it out")
        return node.value
    try:
        return _SCALARS[kind](node.value)
    except ValueError:
        reading.problem(
            node, f"`{brief_name(node.value)}` is not a value of the tag `!!{brief_name(kind)}`; leave the tag out"
        )
        return node.value


def _mapping(node: yaml.MappingNode, reading: _Reading, depth: int) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            reading.problem(key, "a setting's name must be a word, not a list or map")
            continue
        if not _is_text(key, reading):
            continue
        if key.value == "<<":
            reading.problem(key, "merge keys (<<) are not read; write the settings out")
            continue
        if key.value in settings:
            reading.problem(key, f"`{brief_name(key.value)}` is given twice, first on line {lines[key.value]}")
        lines.setdefault(key.value, key.start_mark.line + 1)
        settings[key.value] = _plain_value(value, reading, depth + 1)
    return settings


def _is_text(node: yaml.Node, reading: _Reading) -> bool:
    try:
        node.value.encode()
    except UnicodeEncodeError:
        reading.problem(node, "half of a character (a lone surrogate); write the whole one")
        return False
    return True


def _children(node: yaml.Node | None) -> dict[str | int, tuple[int, yaml.Node]]:
    """Name or position of what stands in a node → its line and node; of a name given twice the last."""
    if isinstance(node, yaml.MappingNode):
        named = ((key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode))
        return {key.value: (key.start_mark.line + 1, value) for key, value in named}
    items = node.value if isinstance(node, yaml.SequenceNode) else ()
    return {position: (item.start_mark.line + 1, item) for position, item in enumerate(items)}


def _syntax(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    lines = LINE_BREAK.split(text)
    if "\t" in (error.problem or "") or "\\t" in (error.problem or ""):
        return line, "a tab; YAML indents with spaces"
    shown = f": {lines[line - 1].strip()[:80]}" if line <= len(lines) and lines[line - 1].strip() else ""
    reasons = "; ".join(LONG_WORD.sub(r"\1…", reason) for reason in (error.context, error.problem) if reason)
    return line, f"not valid YAML ({reasons}){shown}"
