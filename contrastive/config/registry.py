"""Read the registries (`LOSSES`, `VIEWS`, `METRICS`, …) from their source code, without importing them.

`losses/__init__.py` holds one dict literal, name → function. This dict, the signatures of the functions and the facts
beside them (`NTXENT_FACTS` of `ntxent`) determine what the schema accepts, which settings affect a cell, what a cell
costs, and which code decides its result. Reading the source instead of importing it keeps `ablate plan` free of torch.
"""

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from contrastive.config import facts as declarations
from contrastive.config.facts import LossFacts, MetricFacts, ScoreFacts, ViewFacts
from contrastive.errors import UserError
from contrastive.paths import home

PACKAGE_ROOT = Path(__file__).parents[2]
PACKAGES = ("ablate", "contrastive", "flows", "reports", "tasks")
FACTS = {
    "LOSSES": LossFacts,
    "VIEWS": ViewFacts,
    "METRICS": MetricFacts,
}  # type of the facts in each registry, whose defaults apply to an entry without facts

PLUGIN = "ablate_plugin_"  # begins the names of modules that are files of users
PLUGINS: dict[str, Path] = {}  # their module → its copy in the store
OWN = {
    "LOSSES": "contrastive.losses",
    "VIEWS": "contrastive.views",
    "METRICS": "contrastive.evaluation.metrics",
    "POOLINGS": "contrastive.models.pooling",
    "ENCODERS": "contrastive.models.registered",
}  # registries that such files add to
# keyword parameters that are no settings
GIVEN = {"labels", "grades", "mask", "targets", "negatives", "hidden", "guide_size"}
POSITIONAL = {
    "LOSSES": set[str](),
    "VIEWS": {"batch", "slow", "twin", "small", "head_loss", "guess", "lexicon", "rephrase"},
    "METRICS": set[str](),
    "POOLINGS": {"batch"},
}  # parameters of entries in such files, after the first
KINDS: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}  # of settings in such files
Facts = TypeVar("Facts")


@dataclass(frozen=True)
class RegistryEntry(Generic[Facts]):
    """One entry of a registry: the function or class, its parameters and its facts."""

    name: str
    module: str
    function: str
    input_name: str  # name of the first parameter, its input ("views", "logits", "encode" …)
    tools: tuple[str, ...]  # names of the other positional parameters
    settings: tuple[str, ...]  # names of the keyword-only parameters
    defaults: Mapping[str, Any]  # setting → default value, for settings that have one
    kinds: Mapping[str, str]  # setting → its annotation
    is_class: bool  # a class with weights or state
    facts_name: str  # name of the constant with its facts; empty if it has none
    facts: Facts


def module_file(module: str) -> Path | None:
    """Return the source file of a module of this project; None for any other module."""
    if module in PLUGINS:
        return PLUGINS[module]
    if module.partition(".")[0] not in PACKAGES:  # when installed, other projects' packages stand beside ours
        return None
    base = PACKAGE_ROOT.joinpath(*module.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@cache
def syntax_tree(module: str) -> ast.Module:
    path = module_file(module)
    assert path is not None, f"{module} is not a module of this project"
    return ast.parse(path.read_bytes(), str(path))


@cache
def literal(module: str, name: str) -> Any:
    """Return the value of a module constant that is written as a literal."""
    return ast.literal_eval(_defined(module, name))


def add_plugin(name: str) -> str:
    """Make the entries of a user's file known, and return its module. They are read from its source, and nothing is
    executed. (`cell.add_plugin` also makes their keyword parameters settings.) `name`: DIGEST/NAME.py of its copy in
    the home."""
    copy = home() / "plugins" / name
    module = f"{PLUGIN}{copy.parent.name}_{copy.stem}"
    if module in PLUGINS:
        return module
    if not copy.is_file():
        raise UserError(f"{copy}, the copy of a file in `plugins`, is missing here")
    if any(other.name == copy.name for other in PLUGINS.values()):
        raise UserError(f"another file or version of {copy.name} is in use already: rename one, or start anew")
    PLUGINS[module] = copy
    try:
        clear_caches()
        added = [(table, entry) for table, entry in plugin_entries() if entry.module == module]
        if not added:
            example = f"LOSSES = {{'{copy.stem}': {copy.stem}}}"
            raise UserError(f"{copy.name} registers nothing: end it with, for example, {example}")
        scores = [
            facts.name for entry in metrics().values() for facts in entry.facts.scores or (ScoreFacts(entry.name),)
        ]
        if repeated := sorted({name for name in scores if scores.count(name) > 1}):
            raise UserError(f"{copy.name}: there is a score `{repeated[0]}` already; give it another name")
        for table, entry in added:
            if fault := _fault(table, entry):
                raise UserError(f"{copy.name}: {entry.name or 'an entry'} {fault}")
        variant_settings()
    except (UserError, SyntaxError, ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
        del PLUGINS[module]
        clear_caches()
        why = error if isinstance(error, UserError) else f"{copy.name} cannot be read: {error}"
        raise UserError(str(why)) from None
    return module


def _fault(table: str, entry: RegistryEntry[Any]) -> str:
    """Return why an entry of a user's file cannot be used; empty if it can."""
    if table != "ENCODERS" and not re.fullmatch("[a-z][a-z0-9_]*", entry.name):
        return "needs a name of a to z, 0 to 9 and _"
    if wrong := [name for name in entry.tools if name not in POSITIONAL.get(table, entry.tools)]:
        return f"has `{wrong[0]}` by position: write `*, ` before it, since settings have names"
    if table == "LOSSES" and entry.input_name not in ("views", "logits", "surprise"):
        return "reads `views` or `logits`: name its first parameter so"
    if table == "LOSSES":
        facts = entry.facts
        named = {"contains": facts.contains, "usual_view": [facts.usual_view] if facts.usual_view else ()}
        known: dict[str, Collection[str]] = {"contains": loss_entries(), "usual_view": views()}
        for fact, names in named.items():
            if unknown := [name for name in names if name not in known[fact]]:
                return f"has {fact} `{unknown[0]}` in its facts, which does not exist"
        if facts.weight not in ("alpha", "mlm_weight"):
            return f"has weight `{facts.weight}` in its facts: leave it out, so that alpha is its weight"
    return ""


def plugin_entries() -> list[tuple[str, RegistryEntry[Any]]]:
    """Return the entries of users' files, each with its registry."""
    every = [(table, entry) for table, owner in OWN.items() for entry in entries(owner, table).values()]
    return [(table, entry) for table, entry in every if entry.module in PLUGINS]


def plugins_with(used: Iterable[RegistryEntry[Any]]) -> tuple[str, ...]:
    """Return the copies of the users' files that hold these entries."""
    return tuple(sorted({copy_name(PLUGINS[entry.module]) for entry in used if entry.module in PLUGINS}))


def copies_to_add(copies: Any) -> list[str]:
    """Return the copies that a record names and that are not known here: it may have an earlier version of a file,
    whose names are the same."""
    known = {path.name for path in PLUGINS.values()}
    named = copies if isinstance(copies, list | tuple) else ()
    return [copy for copy in named if isinstance(copy, str) and Path(copy).name not in known]


def copy_name(copy: Path) -> str:
    """Return DIGEST/NAME.py of a copy in the home."""
    return f"{copy.parent.name}/{copy.name}"


def clear_caches() -> None:
    entries.cache_clear()
    variant_settings.cache_clear()


def loss_entries() -> dict[str, RegistryEntry[LossFacts]]:
    return entries("contrastive.losses", "LOSSES")


def views() -> dict[str, RegistryEntry[ViewFacts]]:
    return entries("contrastive.views", "VIEWS")


@cache
def variant_settings() -> tuple[str, ...]:
    """Return the settings whose value decides what else is read: those that select a variant of a view, and `mine`."""
    return tuple(sorted({"mine"} | {variant.setting for entry in views().values() for variant in entry.facts.variants}))


def poolings() -> dict[str, RegistryEntry[None]]:
    return entries("contrastive.models.pooling", "POOLINGS")


def encoders() -> dict[str, RegistryEntry[None]]:
    return entries("contrastive.models.registered", "ENCODERS")


def metrics() -> dict[str, RegistryEntry[MetricFacts]]:
    return entries("contrastive.evaluation.metrics", "METRICS")


def setting_readers(setting: str) -> list[str]:
    """Return the losses and views that read a setting; a view that reads it in some variants only is named with
    them."""
    names = [
        entry.name
        for entry in loss_entries().values()
        if setting in entry.settings or setting == entry.facts.weight != LossFacts.weight
    ]
    for entry in views().values():
        if setting in entry.settings and setting not in entry.facts.unread:
            names.append(entry.name)
        elif setting in entry.settings:
            reading = [variant for variant in entry.facts.variants if setting not in variant.facts.unread]
            names += [f"{entry.name} with {variant.setting} {variant.value}" for variant in reading]
    return names


@cache
def entries(module: str, table: str) -> dict[str, RegistryEntry[Any]]:
    """Return the entries of the dict literal `table` in `module`, and those that users' files add."""
    found = entries_of(module, table)
    for plugin, path in PLUGINS.items() if OWN.get(table) == module else ():
        if not any(table in names_bound(statement) for statement in syntax_tree(plugin).body):
            continue
        for name, entry in entries_of(plugin, table).items():
            if name in found:
                raise UserError(f"{path.name}: there is `{name}` already in {table}; give it another name")
            found[name] = entry
    return found


def names_bound(statement: ast.stmt) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def entries_of(module: str, table: str) -> dict[str, RegistryEntry[Any]]:
    """Return the entries of the dict literal `table` in `module` alone."""
    origins = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in syntax_tree(module).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lines = {}
    value = _defined(module, table)
    if not isinstance(value, ast.Dict):
        raise UserError(f"{module_file(module)}, line {value.lineno}: {table} must be a dict literal")
    for key, function in zip(value.keys, value.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(function, ast.Name)):
            raise UserError(f"{module_file(module)}, line {value.lineno}: {table} maps names to functions of this file")
        origin = origins.get(function.id, (module, function.id))
        lines[key.value] = _read_entry(key.value, *origin, facts_type=FACTS.get(table))
    return lines


def _defined(module: str, name: str) -> Any:
    """Return the syntax tree of a function, a class, or the value of a constant in a module."""
    for node in syntax_tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and name in names_bound(node):
            return node.value
    raise LookupError(f"{module} defines no {name}")


def _read_entry(name: str, module: str, function: str, facts_type: type | None) -> RegistryEntry[Any]:
    """Read an entry from source: its first parameter (input), the other positional ones (tools) and the settings."""
    definition = _defined(module, function)
    is_class = isinstance(definition, ast.ClassDef)
    functions = [definition]
    if is_class:  # pairwise losses have no forward
        methods = {method.name: method for method in definition.body if isinstance(method, ast.FunctionDef)}
        functions = [methods[name] for name in ("__init__", "forward") if name in methods]
    names = [it.arg for function in functions[-1:] for it in function.args.args if it.arg != "self"]
    first, *tools = names or [""]  # a class may inherit its methods
    pairs = [pair for each in functions for pair in zip(each.args.kwonlyargs, each.args.kw_defaults, strict=True)]
    settings = tuple(dict.fromkeys(argument.arg for argument, _ in pairs))
    defaults = {argument.arg: _default(module, argument.arg, value) for argument, value in pairs if value is not None}
    kinds = {argument.arg: ast.unparse(argument.annotation) if argument.annotation else "" for argument, _ in pairs}
    facts_name, facts = _facts(module, f"{function.upper()}_FACTS", facts_type) if facts_type else ("", None)
    return RegistryEntry(
        name, module, function, first, tuple(tools), settings, defaults, kinds, is_class, facts_name, facts
    )


def _default(module: str, name: str, value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        shown = f"{module_file(module)}, line {value.lineno}: {name}={ast.unparse(value)}"
        raise UserError(f"{shown}: write its default as a plain value") from None


def _facts(module: str, name: str, facts_type: type) -> tuple[str, Any]:
    """Return the name and the value of the constant with an entry's facts; "" and the defaults if it has none."""
    try:
        written = _defined(module, name)
    except LookupError:
        return "", facts_type()
    location = f"{module_file(module)}, line {written.lineno}: {name}"
    try:
        facts = _evaluate(written)
    except (AttributeError, TypeError, ValueError) as error:
        names = ", ".join(field.name for field in fields(facts_type))
        raise UserError(f"{location}: {error}; a {facts_type.__name__} takes literals for: {names}") from error
    if not isinstance(facts, facts_type):
        raise UserError(f"{location}: expected a {facts_type.__name__}, got {ast.unparse(written)}")
    return name, facts


def _evaluate(node: ast.expr) -> Any:
    """Evaluate literals and calls of the types in contrastive/config/facts.py."""
    if isinstance(node, ast.Tuple):
        return tuple(map(_evaluate, node.elts))
    if isinstance(node, ast.Call):
        facts_type = getattr(declarations, ast.unparse(node.func))
        keywords = {str(word.arg): _evaluate(word.value) for word in node.keywords}
        return facts_type(*map(_evaluate, node.args), **keywords)
    return ast.literal_eval(node)
