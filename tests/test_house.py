"""Files and functions stay short."""

import ast
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
ROOMS = ("contrastive", "flows", "tasks", "reports")
FILES = sorted(path for room in ROOMS for path in (CHECKOUT / room).rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 600, 40


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_files_and_functions_are_short():
    too_long = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions(ast.parse(text))}
        too_long += [f"{path}: {name}" for name, lines in lengths.items() if lines > LONGEST_FUNCTION]
        too_long += [str(path)] if len(text.splitlines()) > LONGEST_FILE else []
    assert not too_long
