"""A YAML text as plain data that remembers its lines.

YAML as people expect it: `yes`, `on` and dates are text, `1e-4` is a number, a key given twice is a mistake. (PyYAML
alone reads `1e-4` as text and `no` as false, and keeps the last of two equal keys in silence.)
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from contrastive.errors import brief

LONGEST = 2000  # characters of what is said of one mistake
DEEPEST, LARGEST = 50, 200_000  # levels of nesting, values: only aliases that multiply go beyond


class _Loader(yaml.SafeLoader):
    """SafeLoader that knows the scalars of YAML 1.2 and no others."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,4000}", list("-+0123456789")),
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
    message: str

    def __str__(self) -> str:
        place = f"{brief(self.file)}:{self.line}" if self.line else brief(self.file)
        return f"{place}: {brief(self.message, LONGEST)}"


@dataclass(frozen=True)
class Document:
    """What a text says: dicts, tuples and scalars, with the node that each came from."""

    data: Any
    node: yaml.Node | None
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: tuple[str | int, ...]) -> int:
        """Line of the setting at `path`, or of the deepest part of it that the text has."""
        node, line = self.node, 1
        for part in path:
            child = _child(node, part)
            if child is None:
                break
            line, node = child
        return line


def read(text: str, name: str) -> Document:
    """Read a text; its syntax errors and repeated keys are in `problems`."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        return Document(None, None, [Problem(name, *_syntax(error, text))])
    except RecursionError:
        return Document(None, None, [Problem(name, 1, "nested too deeply to be an experiment")])
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        return Document(None, None, [Problem(name, line, f"the character #x{error.character:02x} cannot be in YAML")])
    reading = _Reading(name)
    try:
        data = None if node is None else _plain(node, reading, 0)
    except RecursionError:
        return Document(None, node, [Problem(name, 1, "aliases (*) make this file endless; write the values out")])
    return Document(data, node, reading.problems)


@dataclass
class _Reading:
    name: str
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def problem(self, node: yaml.Node, message: str) -> None:
        self.problems.append(Problem(self.name, node.start_mark.line + 1, message))


def _plain(node: yaml.Node, reading: _Reading, depth: int) -> Any:
    reading.nodes += 1
    if depth > DEEPEST or reading.nodes > LARGEST:
        raise RecursionError
    if isinstance(node, yaml.SequenceNode):
        return tuple(_plain(item, reading, depth + 1) for item in node.value)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, reading, depth)
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if not _is_text(node, reading):
        return ""
    if kind not in _SCALARS:
        reading.problem(node, f"the tag `{node.tag}` means nothing here; leave it out")
        return node.value
    try:
        return _SCALARS[kind](node.value)
    except ValueError:
        reading.problem(node, f"`{node.value}` is not a value of the tag `!!{kind}`; leave the tag out")
        return node.value


def _mapping(node: yaml.MappingNode, reading: _Reading, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
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
        if key.value in found:
            reading.problem(key, f"`{key.value}` is given twice, first on line {lines[key.value]}")
        lines.setdefault(key.value, key.start_mark.line + 1)
        found[key.value] = _plain(value, reading, depth + 1)
    return found


def _is_text(node: yaml.Node, reading: _Reading) -> bool:
    try:
        node.value.encode()
    except UnicodeEncodeError:
        reading.problem(node, "half of a character (a lone surrogate); write the whole one")
        return False
    return True


def _child(node: yaml.Node | None, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in reversed(node.value):
            if isinstance(key, yaml.ScalarNode) and key.value == part:
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None


def _syntax(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    if "\t" in (error.problem or "") or "\\t" in (error.problem or ""):
        return line, "a tab; YAML indents with spaces"
    shown = f": {lines[line - 1].strip()[:80]}" if line <= len(lines) and lines[line - 1].strip() else ""
    reasons = "; ".join(reason for reason in (error.context, error.problem) if reason)
    return line, f"not valid YAML ({reasons}){shown}"
