"""Read a registry (`LOSSES`, `VIEWS`, …) from its source, without importing it.

`losses/__init__.py` holds one dict literal, name → function. From that and from the functions' signatures follows what
the schema accepts, which settings matter to a cell, and which files decide its result. Reading the source instead of
importing it keeps `ablate plan` free of torch.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from contrastive.errors import UserError

PACKAGE_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Entry:
    """One line of a registry: where the function lives and what its signature asks for."""

    name: str
    module: str
    function: str
    first: str  # name of the first parameter: what it is given ("views", "logits", "encode" …)
    shape: str  # of the first parameter, as its annotation says: "n 2 d"
    settings: tuple[str, ...]  # names of the keyword-only parameters
    defaults: Mapping[str, Any]  # those of them that have a default, with it
    is_module: bool  # a class, with weights or a state of its own


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
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        line = f", line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else f": {error}"
        raise UserError(f"{path}{line}: this is no Python; mend it, and give the same command again") from error


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
            return Entry(name, module, function, *_first(node.args.args[0]), *_keywords([node]), False)
        if isinstance(node, ast.ClassDef) and node.name == function:
            methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
            called = [methods[m] for m in ("__init__", "forward") if m in methods]  # what compares pairs has no forward
            return Entry(name, module, function, *_first(called[-1].args.args[1]), *_keywords(called), True)
    raise LookupError(f"{module} defines no {function}")


def _first(parameter: ast.arg) -> tuple[str, str]:
    """Name and shape of a parameter such as `views: Float[Tensor, "n 2 d"]`; no shape where it is no tensor."""
    texts = [n.value for n in ast.walk(parameter) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return parameter.arg, texts[-1].strip() if texts else ""


def _keywords(functions: list[ast.FunctionDef]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Names of the keyword-only parameters, and the defaults of those that have one."""
    pairs = [pair for f in functions for pair in zip(f.args.kwonlyargs, f.args.kw_defaults, strict=True)]
    defaults = {argument.arg: ast.literal_eval(value) for argument, value in pairs if value is not None}
    return tuple(dict.fromkeys(argument.arg for argument, _ in pairs)), defaults
