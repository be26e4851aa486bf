"""Read a registry (`LOSSES`, `VIEWS`, …) from its source, without importing it.

`losses/__init__.py` holds one dict literal, name → function. From that and from the functions' signatures follows what
the schema accepts, which settings matter to a cell, and which files decide its result. Reading the source instead of
importing it keeps `ablate plan` free of torch.
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Entry:
    """One line of a registry: where the function lives and what its signature asks for."""

    name: str
    module: str
    function: str
    first: str  # name of the first parameter: what it is given ("views", "logits", "encode" …)
    settings: tuple[str, ...]  # names of the keyword-only parameters


def module_file(module: str) -> Path | None:
    """The source file of a module of this project; None for a module of anybody else."""
    base = PACKAGE_ROOT.joinpath(*module.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@cache
def parse(module: str) -> ast.Module:
    path = module_file(module)
    assert path is not None, f"{module} is not a module of this project"
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def literal(module: str, name: str) -> Any:
    """The value of a module constant that is written as a literal."""
    return ast.literal_eval(_assignment(module, name))


@cache
def entries(module: str, table: str) -> dict[str, Entry]:
    """The lines of the dict literal `table` in `module`."""
    origins = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in parse(module).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found = {}
    value = _assignment(module, table)
    assert isinstance(value, ast.Dict), f"{module}.{table} must be a dict literal"
    for key, function in zip(value.keys, value.values, strict=True):
        assert isinstance(key, ast.Constant) and isinstance(key.value, str), f"{module}.{table}: keys are names"
        assert isinstance(function, ast.Name), f"{module}.{table}: one name a line"
        found[key.value] = _entry(key.value, *origins[function.id])
    return found


def _assignment(module: str, name: str) -> ast.expr:
    for node in parse(module).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            return node.value
    raise LookupError(f"{module} defines no {name}")


def _entry(name: str, module: str, function: str) -> Entry:
    for node in parse(module).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return Entry(name, module, function, node.args.args[0].arg, tuple(a.arg for a in node.args.kwonlyargs))
        if isinstance(node, ast.ClassDef) and node.name == function:
            methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
            settings = [a.arg for m in ("__init__", "forward") if m in methods for a in methods[m].args.kwonlyargs]
            return Entry(name, module, function, methods["forward"].args.args[1].arg, tuple(dict.fromkeys(settings)))
    raise LookupError(f"{module} defines no {function}")
