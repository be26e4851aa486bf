"""Digest plain data and code, for the identities of cells and the keys of stores and caches."""

import ast
import hashlib
import json
import math
from functools import cache
from typing import Any

from contrastive.config.base import Settings
from contrastive.config.registry import PLUGINS, entries, module_file, syntax_tree

# Packages and modules that describe, name or store a result but do not compute it …
DESCRIPTIVE_PACKAGES = ("contrastive.config.", "contrastive.grid.", "contrastive.runs.")
DESCRIPTIVE = {"contrastive", "contrastive.errors", "contrastive.paths"} | {
    *("contrastive.evaluation.prepare", "contrastive.data.transfer_data"),
}
# … and modules of these packages that training reads: how its state is sharded, and which blocks come from a store.
COMPUTING = {"contrastive.grid.deepspeed_file", "contrastive.grid.frozen_readers"}

DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)

Choices = tuple[tuple[str, str, tuple[str, ...]], ...]  # (module, registry, names of the entries in use)


def is_descriptive(module: str) -> bool:
    if module in COMPUTING:
        return False
    return module in DESCRIPTIVE or f"{module}.".startswith(DESCRIPTIVE_PACKAGES)


def canonical_json(value: Any) -> str:
    """Return the same text for equal values: sorted keys, 1 for 1.0; raise for values without one canonical text."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key(kind: str, **content: Any) -> str:
    """Return the key of a result that depends on this content alone: a cell, a store."""
    return _hashed({"kind": kind, "content": content})


def _hashed(content: Any) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} cannot be part of an identity")
        return int(value) if value.is_integer() else value
    if isinstance(value, Settings):
        return _plain(value.model_dump(mode="json", exclude_defaults=True))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} {value!r} cannot be part of an identity")


@cache
def code_digest(roots: tuple[str, ...], chosen: Choices = ()) -> str:
    """Return the digest of all code of this project that `roots` import, directly or not."""
    return _hashed(code_digests(roots, chosen))


@cache
def code_digests(roots: tuple[str, ...], chosen: Choices = ()) -> dict[str, str]:
    """Return module → digest of its code over the import closure of `roots`, and registry entry → its function.

    Of a module that holds entries of the registries in `chosen`, only the definitions in use count, each by its name:
    the entries named in `chosen`, what other code imports by name, and what these use.
    """
    registries = {module: (table, names) for module, table, names in chosen}
    shared = {row.module for module, table, _ in chosen for row in entries(module, table).values()}
    digests: dict[str, str] = {}
    waiting = [(root, "") for root in roots]
    while waiting:
        module, name = waiting.pop()
        name = name if module in shared else ""
        label = f"{shown(module)}.{name}" if name else shown(module)
        if label in digests or (is_descriptive(module) and module not in roots) or module_file(module) is None:
            continue
        digests[label], uses = code_of(module, name, module in registries)
        if module in registries:
            table, names = registries[module]
            rows = [entries(module, table)[name] for name in names]
            digests |= {f"{module}.{table}[{row.name}]": f"{shown(row.module)}.{row.function}" for row in rows}
            uses = [use for use in uses if use[0] not in shared]
            uses += [(row.module, part) for row in rows for part in (row.function, row.facts_name) if part]
        waiting += uses
    return dict(sorted(digests.items()))


def shown(module: str) -> str:
    """Return the name of a module; of a user's file, without the digest of the whole file."""
    return f"plugins.{PLUGINS[module].stem}" if module in PLUGINS else module


@cache
def code_of(module: str, name: str, is_registry: bool) -> tuple[str, list[tuple[str, str]]]:
    """Return the digest of a definition, or of a whole module ("" as name), and what it uses as (module, name).

    Of a registry, imports and dict literals are left out of the digest: its entries are digested one by one.
    """
    if not name:
        statements = syntax_tree(module).body
        uses = imports(statements)
        return _digest([node for node in statements if not (is_registry and _is_registry_code(node))]), uses
    there = definitions(module)
    statements = there[name] + there.get("", [])
    names = {node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name)}
    used = {other: there[other] for other in sorted(names & there.keys())}
    imported: list[ast.stmt] = [
        each for parts in used.values() for each in parts if isinstance(each, ast.Import | ast.ImportFrom)
    ]
    uses = [(module, other) for other, parts in used.items() if not all(part in imported for part in parts)]
    return _digest(statements + imported), imports(statements + imported) + uses


@cache
def definitions(module: str) -> dict[str, list[ast.stmt]]:
    """Return the top-level statements of a module by the names that they bind; under "" those that bind none."""
    by_name: dict[str, list[ast.stmt]] = {}
    for statement in syntax_tree(module).body:
        if module in PLUGINS and not isinstance(statement, DEFINES):
            by_name.setdefault("", []).append(statement)  # such as a loop, which may change what others hold
        for name, part in _bound(statement):
            by_name.setdefault(name, []).append(part)
    return by_name


def _bound(statement: ast.stmt) -> list[tuple[str, ast.stmt]]:
    """Return each name that a statement binds, with the part of the statement that binds it."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [(statement.name, statement)]
    if isinstance(statement, ast.Import):
        return [((it.asname or it.name).partition(".")[0], ast.Import([it])) for it in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [
            (it.asname or it.name, ast.ImportFrom(statement.module, [it], statement.level)) for it in statement.names
        ]
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return [(name, statement) for name in sorted(names) or [""]]


def _digest(statements: list[ast.stmt]) -> str:
    """Digest the syntax tree of statements: comments, layout and docstrings change nothing."""
    tree = ast.parse(ast.unparse(ast.Module(statements, [])))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def _is_registry_code(node: ast.stmt) -> bool:
    is_table = isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
    return is_table or isinstance(node, ast.ImportFrom | ast.Import)


def imports(statements: list[ast.stmt]) -> list[tuple[str, str]]:
    """Return what statements import, also inside functions, as (module, name); "" stands for a whole module."""
    imported: list[tuple[str, str]] = []
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Import):
            imported += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{node.module}: relative imports are not followed"
            for alias in node.names:
                imported += [(node.module, alias.name), (f"{node.module}.{alias.name}", "")]  # maybe a submodule
    return imported
