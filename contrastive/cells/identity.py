"""The id of a cell: a hash of what decides its result (settings, data and model content, code), and of nothing else.

A setting at its default is left out, so that a new option changes no id; in exchange a default may never change its
meaning silently: `tests/contrastive/cells/test_identity.py` pins them, and `VERSION` is raised when one must change.
"""

import ast
import hashlib
import json
import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from contrastive import data
from contrastive.config.base import Settings
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Cell, Data, Encoder, Objective, Training
from contrastive.config.registry import entries, literal, module_file, parse
from contrastive.sources import deepspeed_file, locate

VERSION = 1
EVALUATION_VERSION = 2  # of scores.json; scores of another version are measured again, never mixed

STAGES = (
    "contrastive.data.tokens",
    "contrastive.reuse.frozen_store",
    "contrastive.training.train",
    "contrastive.evaluation.embed",
)  # what computes a cell's result
# Modules that describe, name or store a result but do not compute it.
DESCRIPTIVE = {
    "contrastive",
    *(f"contrastive.config.{name}" for name in ("experiment", "base", "evaluation", "speed", "registry")),
    *(f"contrastive.{name}" for name in ("cells.identity", "cells.status", "runs.store", "errors", "paths")),
    *("contrastive.evaluation.needs", "contrastive.data.transfer_data"),
}


def canonical_json(value: Any) -> str:
    """One text for equal values: sorted keys, 1 for 1.0; anything that has no single text raises."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} cannot be part of an identity")
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} {value!r} cannot be part of an identity")


def identity(cell: Cell) -> dict[str, Any]:
    """Everything that decides the result of a (canonical) cell, as plain data."""
    return identities([cell])[cell]


def identities(cells: Iterable[Cell]) -> dict[Cell, dict[str, Any]]:
    """The identity of each cell; what cells share is looked at once, so that all see one state of the disk."""
    shared: dict[tuple[str, Settings], Any] = {}

    def once(make: Callable[[Any], Any], part: Settings) -> Any:
        key = (make.__name__, part)
        if key not in shared:
            shared[key] = make(part)
        return shared[key]

    return {
        cell: {
            "data": once(_data, cell.data),
            "encoder": once(_encoder, cell.encoder),
            "objective": once(_objective, cell.objective),
            "training": once(_training, cell.training),
            "seed": cell.seed,
            "version": VERSION,
            "code": code_of(cell),
        }
        for cell in cells
    }


def _dump(part: Settings) -> dict[str, Any]:
    return part.model_dump(mode="json", exclude_defaults=True)


def _objective(part: Objective) -> dict[str, Any]:
    """With the weights of its terms: what they follow from is no code of a stage. Words of others are their content."""
    named = _dump(part) | {"terms": part.terms()}
    if part.translators is not None:
        named["translators"] = [locate.content_digest(m, locate.TRANSLATOR_FILES) for m in part.translators]
    if part.view in literal("contrastive.views", "LEXICAL"):
        named["wordnet"] = locate.files_digest(locate.wordnet_folder(), locate.WORDNET_FILES)
    return named


def _data(part: Data) -> dict[str, Any]:
    """Splits of their own are in the content's digest; their paths, like the source's, decide nothing."""
    own = ("validation", "test")
    named = {k: "own" if k in own and isinstance(v, str) else v for k, v in _dump(part).items() if k != "source"}
    return named | {"content": data.content_digest(part)}


def _training(part: Training) -> dict[str, Any]:
    """What DeepSpeed is told is its file's content, wherever that lies."""
    named = _dump(part)
    return named | {"sharding": deepspeed_file.digest(named["sharding"])} if deepspeed_file.named(part) else named


def _encoder(part: Encoder) -> dict[str, Any]:
    named = _dump(part)
    return named if part.model.startswith("scratch:") else named | {"model": locate.model_digest(part)}


def cell_id(document: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()[:16]


def code_of(cell: Cell) -> str:
    return code_digest(STAGES, chosen_entries(cell))


def evaluation_key(evaluation: Evaluation) -> str:
    """Digest of how embeddings are measured: the settings, the code of what they name, and further data's content."""
    from contrastive.data import transfer_data  # which reads the code's digest here

    posts = {how.partition(":")[0] for how in evaluation.post}
    named = (
        ("contrastive.evaluation.metrics", "METRICS", tuple(sorted(evaluation.metrics))),
        ("contrastive.evaluation.post", "POSTS", tuple(sorted(posts))),
    )
    content = {
        "version": EVALUATION_VERSION,
        "code": code_digest(("contrastive.evaluation.evaluate",), named),
        "settings": evaluation.model_dump(mode="json", exclude_defaults=True),
        "transfer": [[transfer_data.digest(transfer, ""), *transfer.scores()] for transfer in evaluation.transfer],
    }
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:16]


def chosen_entries(cell: Cell) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The lines of each registry that this cell uses, so that a new loss leaves the others' cells alone."""
    kind, _, name = cell.data.source.partition(":")
    return (
        ("contrastive.losses", "LOSSES", tuple(sorted(cell.objective.terms()))),
        ("contrastive.views", "VIEWS", (cell.objective.view or "cls",)),
        ("contrastive.data", "DATASETS", (name,) if kind == "package" else ()),
    )


@cache
def code_digest(roots: tuple[str, ...], chosen: tuple[tuple[str, str, tuple[str, ...]], ...] = ()) -> str:
    """Digest of the code that `roots` can reach by import inside this project."""
    files = code_files(roots, chosen)
    return hashlib.sha256(canonical_json(files).encode()).hexdigest()[:16]


@cache
def code_files(roots: tuple[str, ...], chosen: tuple[tuple[str, str, tuple[str, ...]], ...] = ()) -> dict[str, str]:
    """Module → digest of its code, over the import closure of `roots`."""
    registries = {module: (table, names) for module, table, names in chosen}
    found: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module in found or (module in DESCRIPTIVE and module not in roots) or module_file(module) is None:
            continue
        found[module] = module_digest(module, registry=module in registries)
        if module in registries:
            table, names = registries[module]
            lines = entries(module, table)
            found |= {f"{module}.{table}[{name}]": f"{lines[name].module}.{lines[name].function}" for name in names}
            unused = {lines[name].module for name in lines if name not in names}
            waiting += [name for name in imports(module) if name not in unused]
            continue
        waiting += imports(module)
    return dict(sorted(found.items()))


@cache
def module_digest(module: str, *, registry: bool = False) -> str:
    """Digest of a module's syntax tree: comments, layout and docstrings change nothing.

    Of a registry, imports and dict literals are left out: its lines count one by one.
    """
    tree = ast.parse(ast.unparse(parse(module)))
    if registry:
        tree.body = [node for node in tree.body if not _is_line_of_registry(node)]
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


def _is_line_of_registry(node: ast.stmt) -> bool:
    is_table = isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
    return is_table or isinstance(node, ast.ImportFrom | ast.Import)


@cache
def imports(module: str) -> tuple[str, ...]:
    """Modules that a module imports anywhere in its source, lazily inside functions too."""
    found: list[str] = []
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{module}: relative imports are not followed"
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in submodules if module_file(name)] or [node.module]
            if module_file(node.module) is not None:
                found.append(node.module)
    return tuple(dict.fromkeys(found))
