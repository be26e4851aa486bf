"""What keeps the house readable: short files and functions, names that say something, and none for two things."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
ROOMS = ("contrastive", "flows", "tasks", "reports")
FILES = sorted(path for room in ROOMS for path in (CHECKOUT / room).rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 300, 40
# A command is called as what it does, and so is what a worker does for a task.
NAMED_AS_WHAT_THEY_CALL = {"flows/cli.py", "tasks/worker_calls.py"}
SAY_NOTHING = {"found", "one", "known", "told", "place"}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_files_and_functions_are_short(path: Path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions(ast.parse(text))}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def test_no_name_is_that_of_two_things():
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        file = str(path.relative_to(CHECKOUT))
        for node in () if file in NAMED_AS_WHAT_THEY_CALL else ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                homes[node.name].append(file)
    several = {name: files for name, files in homes.items() if len(files) > 1 and name != "main"}
    assert several == {}


def name_given(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return None


def test_names_say_what_a_thing_is():
    vague = [
        f"{path.relative_to(CHECKOUT)}:{node.lineno}: {name}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (name := name_given(node)) in SAY_NOTHING
    ]
    assert vague == []
