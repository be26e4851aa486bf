"""Read a registry (`LOSSES`, `VIEWS`, …) from its source, without importing it.

`losses/__init__.py` holds one dict literal, name → function. From that, from the functions' signatures and from the
`FACTS` beside them follows what the schema accepts, which settings matter to a cell, what a cell costs, and which files
decide its result. Reading the source instead of importing it keeps `ablate plan` free of torch.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from contrastive.config import facts as declarations
from contrastive.config.facts import LossFacts, MetricFacts, ViewFacts
from contrastive.errors import UserError

PACKAGE_ROOT = Path(__file__).parents[2]
FACTS = {
    "LOSSES": LossFacts,
    "VIEWS": ViewFacts,
    "METRICS": MetricFacts,
}  # what a file that says nothing of itself stands for

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class RegistryEntry(Generic[Facts]):
    """One line of a registry: where the function lives, what its signature asks for, and what it says of itself."""

    name: str
    module: str
    function: str
    first: str  # name of the first parameter: what it is given ("views", "logits", "encode" …)
    tools: tuple[str, ...]  # names of the other parameters that may be given by position
    settings: tuple[str, ...]  # names of the keyword-only parameters
    defaults: Mapping[str, Any]  # those of them that have a default, with it
    is_module: bool  # a class, with weights or a state of its own
    facts: Facts


def module_file(module: str) -> Path | None:
    """The source file of a module of this project; None for a module of anybody else."""
    base = PACKAGE_ROOT.joinpath(*module.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@cache
def syntax_tree(module: str) -> ast.Module:
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
    return ast.literal_eval(_defined(module, name))


@cache
def loss_entries() -> dict[str, RegistryEntry[LossFacts]]:
    return entries("contrastive.losses", "LOSSES")


@cache
def views() -> dict[str, RegistryEntry[ViewFacts]]:
    return entries("contrastive.views", "VIEWS")


@cache
def variant_settings() -> tuple[str, ...]:
    """The settings by whose value a view is another one."""
    return tuple(sorted({variant.setting for line in views().values() for variant in line.facts.variants}))


@cache
def metrics() -> dict[str, RegistryEntry[MetricFacts]]:
    return entries("contrastive.evaluation.metrics", "METRICS")


def setting_readers(setting: str) -> list[str]:
    """The losses and views that read a setting, each with what else must be set for that."""
    names = [
        line.name
        for line in loss_entries().values()
        if setting in line.settings or setting == line.facts.weight != LossFacts.weight
    ]
    for line in views().values():
        if setting in line.settings and setting not in line.facts.unread:
            names.append(line.name)
        elif setting in line.settings:
            reading = [variant for variant in line.facts.variants if setting not in variant.facts.unread]
            names += [f"{line.name} with {variant.setting} {variant.value}" for variant in reading]
    return names


@cache
def entries(module: str, table: str) -> dict[str, RegistryEntry[Any]]:
    """The lines of the dict literal `table` in `module`."""
    origins = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in syntax_tree(module).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lines = {}
    value = _defined(module, table)
    assert isinstance(value, ast.Dict), f"{module}.{table} must be a dict literal"
    for key, function in zip(value.keys, value.values, strict=True):
        assert isinstance(key, ast.Constant) and isinstance(key.value, str), f"{module}.{table}: keys are names"
        assert isinstance(function, ast.Name), f"{module}.{table}: one name a line"
        lines[key.value] = _line(key.value, *origins[function.id], usual=FACTS.get(table))
    return lines


def _defined(module: str, name: str) -> Any:
    """What a module defines under a name: a function, a class, or the value of a constant."""
    for node in syntax_tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return node.value
    raise LookupError(f"{module} defines no {name}")


def _line(name: str, module: str, function: str, usual: type | None) -> RegistryEntry[Any]:
    definition = _defined(module, function)
    is_module = isinstance(definition, ast.ClassDef)
    called = [definition]
    if is_module:  # what compares pairs has no forward
        methods = {method.name: method for method in definition.body if isinstance(method, ast.FunctionDef)}
        called = [methods[name] for name in ("__init__", "forward") if name in methods]
    first, *tools = [parameter.arg for parameter in called[-1].args.args if parameter.arg != "self"]
    pairs = [pair for one in called for pair in zip(one.args.kwonlyargs, one.args.kw_defaults, strict=True)]
    settings = tuple(dict.fromkeys(argument.arg for argument, _ in pairs))
    defaults = {argument.arg: ast.literal_eval(value) for argument, value in pairs if value is not None}
    facts = usual and _facts(module, usual)
    return RegistryEntry(name, module, function, first, tuple(tools), settings, defaults, is_module, facts)


def _facts(module: str, usual: type) -> Any:
    """What `FACTS` in a module says, or the usual where it has none."""
    try:
        written = _defined(module, "FACTS")
    except LookupError:
        return usual()
    at = f"{module_file(module)}, line {written.lineno}: FACTS"
    try:
        facts = _written_value(written)
    except (AttributeError, TypeError, ValueError) as error:
        there = ", ".join(field.name for field in fields(usual))
        raise UserError(f"{at}: {error}; a {usual.__name__} says in literals: {there}") from error
    if not isinstance(facts, usual):
        raise UserError(f"{at}: expected a {usual.__name__}, got {ast.unparse(written)}")
    return facts


def _written_value(node: ast.expr) -> Any:
    """The value of literals, and of calls of what contrastive/config/facts.py defines."""
    if isinstance(node, ast.Tuple):
        return tuple(map(_written_value, node.elts))
    if isinstance(node, ast.Call):
        made = getattr(declarations, ast.unparse(node.func))
        named = {str(word.arg): _written_value(word.value) for word in node.keywords}
        return made(*map(_written_value, node.args), **named)
    return ast.literal_eval(node)
