"""Digest plain data and code, for the identities of cells and the keys of stores and caches."""

import ast
import hashlib
import json
import math
from functools import cache
from typing import Any

from contrastive.config.base import Settings
from contrastive.config.registry import entries, module_file, syntax_tree

# Packages and modules that describe, name or store a result but do not compute it.
DESCRIPTIVE_PACKAGES = ("contrastive.config.", "contrastive.grid.", "contrastive.runs.")
DESCRIPTIVE = {"contrastive", "contrastive.errors", "contrastive.paths"} | {
    *("contrastive.evaluation.prepare", "contrastive.data.transfer_data"),
}


def is_descriptive(module: str) -> bool:
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
def code_digest(roots: tuple[str, ...], chosen: tuple[tuple[str, str, tuple[str, ...]], ...] = ()) -> str:
    """Return the digest of all code of this project that `roots` import, directly or not."""
    return _hashed(code_digests(roots, chosen))


@cache
def code_digests(roots: tuple[str, ...], chosen: tuple[tuple[str, str, tuple[str, ...]], ...] = ()) -> dict[str, str]:
    """Return module → digest of its code over the import closure of `roots`, and registry entry → its function.

    `chosen`: (module, registry, names of the entries in use); other entries and their modules are left out.
    """
    registries = {module: (table, names) for module, table, names in chosen}
    digests: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module in digests or (is_descriptive(module) and module not in roots) or module_file(module) is None:
            continue
        digests[module] = module_digest(module, registry=module in registries)
        if module in registries:
            table, names = registries[module]
            rows = entries(module, table)
            digests |= {f"{module}.{table}[{name}]": f"{rows[name].module}.{rows[name].function}" for name in names}
            unused = {rows[name].module for name in rows} - {rows[name].module for name in names}
            waiting += [name for name in imports(module) if name not in unused]
            continue
        waiting += imports(module)
    return dict(sorted(digests.items()))


@cache
def module_digest(module: str, *, registry: bool = False) -> str:
    """Return the digest of a module's syntax tree: comments, layout and docstrings change nothing.

    For a registry, imports and dict literals are left out: its entries are digested one by one.
    """
    tree = ast.parse(ast.unparse(syntax_tree(module)))
    if registry:
        tree.body = [node for node in tree.body if not _is_registry_code(node)]
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


@cache
def imports(module: str) -> tuple[str, ...]:
    """Return the modules that a module imports anywhere in its source, including inside functions."""
    modules: list[str] = []
    for node in ast.walk(syntax_tree(module)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{module}: relative imports are not followed"
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            modules += [name for name in submodules if module_file(name)] or [node.module]
            if module_file(node.module) is not None:
                modules.append(node.module)
    return tuple(dict.fromkeys(modules))
