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
import signal
import sys
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from contrastive import paths
from contrastive.config import registry
from contrastive.config.cell import add_plugin
from contrastive.errors import UserError
from contrastive.runs import store

IMPORT_SECONDS = 60  # in which a file must be imported


def keep(file: Path) -> Path:
    """Copy a user's file into the store; return the copy. Nothing is executed."""
    try:
        paths.check_file(file)
        content = file.read_bytes()
        tree = ast.parse(content, str(file))
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{file.name} cannot be read: {error}") from None
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    for name in sorted({name.partition(".")[0] for name in names}):
        if (file.parent / f"{name}.py").exists() or (file.parent / name / "__init__.py").exists():
            raise UserError(f"{file.name} imports {name} beside it, which workers would lack: put both into one file")
    copy = store.home() / "plugins" / hashlib.sha256(content).hexdigest()[:16] / file.name
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        store.write_atomic(copy, content)
    return copy


def load(copies: Iterable[str]) -> None:
    """Import copies, and enter what they register into the registries of this process."""
    for copy in map(Path, copies):
        module = add_plugin(copy)
        if module in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(module, copy)
        assert spec is not None and spec.loader is not None
        sys.modules[module] = loaded = importlib.util.module_from_spec(spec)
        try:
            with time_limit(IMPORT_SECONDS):
                spec.loader.exec_module(loaded)
        except Exception as error:
            del sys.modules[module]
            raise UserError(f"{copy.name} cannot be imported: {type(error).__name__}: {error}") from error
        for table, owner in registry.OWN.items():
            getattr(importlib.import_module(owner), table).update(getattr(loaded, table, {}))
        if encoders := getattr(loaded, "ENCODERS", {}):
            from transformers import AutoConfig, AutoModel

            for name, encoder in encoders.items():
                AutoConfig.register(name, encoder.config_class)
                AutoModel.register(encoder.config_class, encoder)


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after so many seconds; only in a main thread, which is where workers compute."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it has not ended within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def digest(copy: str) -> str:
    return Path(copy).parent.name


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
                f"{Path(copy).name} is code that you have not allowed to run. Look at it ({copy}), then run "
                f"`ablate run FILE --trust {digest(copy)}`"
            )
