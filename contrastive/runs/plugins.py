"""Files of users that add losses, views, metrics, poolings and encoders: copied into the store, known by their source,
and run only where a person allowed them.

A copy lies in plugins/DIGEST/NAME.py of the home, and workers import that copy. Who is allowed is kept in the user's
own configuration, not in the home, which several people may share.
"""

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from contrastive import paths
from contrastive.config import registry
from contrastive.config.cell import add_plugin
from contrastive.errors import UserError
from contrastive.runs import store


def keep(file: Path) -> str:
    """Copy a user's file into the store; return the name of the copy, DIGEST/NAME.py. Nothing is executed."""
    try:
        paths.check_file(file)
        content = file.read_bytes()
        tree = ast.parse(content, str(file))
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{file.name} cannot be read: {error}") from None
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level or any(alias.name == "*" for alias in node.names):
                raise UserError(f"{file.name}, line {node.lineno}: name the module and what is imported from it")
            names.add(node.module or "")
    for name in sorted({name.partition(".")[0] for name in names}):
        if (file.parent / f"{name}.py").exists() or (file.parent / name / "__init__.py").exists():
            raise UserError(f"{file.name} imports {name} beside it, which workers would lack: put both into one file")
    name = f"{digest_of(content)}/{file.name}"
    if not path_of(name).exists() or digest(name) != digest_of(content):
        store.write_atomic(path_of(name), content)
    return name


def load(copies: Iterable[str]) -> None:
    """Import copies, and enter what they register into the registries of this process."""
    for name in copies:
        copy, module = path_of(name), add_plugin(name)
        if module in sys.modules:
            continue
        if digest(name) != copy.parent.name:
            raise UserError(f"{copy} was changed in the home: remove it, so that it is copied again")
        spec = importlib.util.spec_from_file_location(module, copy)
        assert spec is not None and spec.loader is not None
        sys.modules[module] = loaded = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(loaded)
        except Exception as error:
            del sys.modules[module]
            raise UserError(f"{copy.name} cannot be imported: {type(error).__name__}: {error}") from error
        for table, owner in registry.OWN.items():
            getattr(importlib.import_module(owner), table).update(getattr(loaded, table, {}))
        if encoders := getattr(loaded, "ENCODERS", {}):
            from transformers import AutoConfig, AutoModel

            for kind, encoder in encoders.items():
                AutoConfig.register(kind, encoder.config_class)
                AutoModel.register(encoder.config_class, encoder)


def path_of(name: str) -> Path:
    return store.home() / "plugins" / name


def digest(name: str) -> str:
    """Return the digest of a copy as it is now: who may write to the home may change it."""
    return digest_of(path_of(name).read_bytes())


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def allowed_file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ablate" / "allowed"


def allowed() -> set[str]:
    """Return the digests that this user allowed."""
    file = allowed_file()
    return set(file.read_text(encoding="utf-8").split()) if file.exists() else set()


def allow(digests: Iterable[str]) -> None:
    file = allowed_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    store.write_atomic(file, "".join(f"{each}\n" for each in sorted({*allowed(), *digests})))


def refuse_others(copies: Collection[str]) -> None:
    """Raise UserError if a file has not been allowed."""
    for copy in copies:
        if digest(copy) not in allowed():
            raise UserError(
                f"{Path(copy).name} is code that you have not allowed to run. Look at it ({path_of(copy)}), then run "
                f"`ablate run FILE --trust {digest(copy)}`"
            )
