"""Status of each cell of a grid: reuse, evaluate, run, or stale (run again because of a named change)."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.grid.identity import cell_id, evaluation_key, identities, registry_choices, stages
from contrastive.runs import claim, store
from contrastive.runs.fingerprint import canonical_json, code_digests

MEASURED_OTHERWISE = "evaluated with other settings; `ablate run` evaluates it again"
Action = Literal["reuse", "evaluate", "run", "stale"]


@dataclass(frozen=True)
class Status:
    cell: Cell
    id: str
    action: Action
    why: str = ""
    older: str | None = None  # id of the finished run that differs only in code

    @property
    def trains(self) -> bool:
        return self.action in ("run", "stale")


def statuses(cells: Iterable[Cell], evaluation: Evaluation) -> list[Status]:
    """Return one status per cell. Finished runs outside the grid are searched for earlier versions of new cells."""
    documents = identities(cells)
    ids = {cell: cell_id(document) for cell, document in documents.items()}
    runs = store.home() / "runs"
    present = {path.name for path in runs.iterdir()} if runs.is_dir() else set()
    older = Older(runs / name for name in sorted(present - set(ids.values())))
    key = evaluation_key(evaluation)
    return [_status(cell, ids[cell], documents[cell], key, present, older) for cell in documents]


def up_to_date(folder: Path, key: str) -> bool:
    """Return whether a run is finished and was evaluated with these settings and the current code."""
    return store.finished(folder) and evaluated_as(folder, key)


def evaluated_as(folder: Path, key: str) -> bool:
    """Return whether the scores of a run are those of these settings and the current code."""
    try:
        return bool(store.read_json(folder / "scores.json")["key"] == key)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def result_mark(folder: Path, key: str) -> str:
    """Return a mark that changes when the results in a run folder change."""
    status, reason = outcome(folder, key)
    return f"{status} {store.digest_file(folder / 'DONE')[:16] if status == 'finished' else reason}"[:5000]


def outcome(folder: Path, key: str) -> tuple[str, str]:
    """Return finished, diverged, failed or unfinished, and the reason. Other evaluation settings mean unfinished."""
    is_finished = store.finished(folder)
    if is_finished and (not key or evaluated_as(folder, key)):
        return "finished", ""
    failure = store.failure(folder)
    if failure is None:
        return "unfinished", MEASURED_OTHERWISE if is_finished else "interrupted before it finished"
    return ("diverged" if failure["kind"] == "diverged" else "failed"), str(failure["error"])


def _status(cell: Cell, name: str, document: dict[str, Any], key: str, present: set[str], older: "Older") -> Status:
    folder = store.run_folder(name)
    if name in present:
        if (folder / "TRAINED").exists() and up_to_date(folder, key):  # DONE covers the files of TRAINED too
            return Status(cell, name, "reuse")
        damage = store.damage(folder, "TRAINED")
        if damage is None:
            why = "evaluated with other settings" if (folder / "DONE").exists() else "not evaluated yet"
            return Status(cell, name, "evaluate", why)
        failure = store.failure(folder)
        if failure and failure["kind"] == "diverged":
            return Status(cell, name, "reuse", f"diverged: {failure['error']}")
        if failure:
            return Status(cell, name, "run", f"failed before: {failure['error']}")
        if (folder / "TRAINED").exists():
            return Status(cell, name, "stale", f"damaged: {damage}")
        if _is_worked_on(folder):
            return Status(cell, name, "run", f"running on {(claim.attempts(folder) or [{}])[-1].get('host', '')}")
        return Status(cell, name, "run", "interrupted")
    return older.explain(cell, name, document)


def _is_worked_on(folder: Path) -> bool:
    with suppress(OSError):  # a home that is only read has no locks
        return claim.is_held(folder)
    return False


class Older:
    """Finished runs outside the grid, indexed by their identity without one field."""

    def __init__(self, folders: Iterable[Path]):
        self.near: dict[str, tuple[str, str, Any]] = {}
        self.files: dict[str, dict[str, str]] = {}
        for folder in folders:
            try:
                config = store.read_json(folder / "config.json")
                files, fields = dict(config["files"]), dict(flattened(config["identity"]))
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
            if store.damage(folder, "TRAINED") is not None:
                continue
            self.files[folder.name] = files
            for field, value in fields.items():
                self.near[without(fields, field)] = (folder.name, field, value)
            self.near[canonical_json(fields)] = (folder.name, "", None)

    def explain(self, cell: Cell, name: str, document: dict[str, Any]) -> Status:
        fields = dict(flattened(document))
        _, longer, before = self.near.get(canonical_json(fields), ("", "", None))
        if longer:
            return Status(cell, name, "stale", f"{longer} changed: {_shown(before)} → default")
        for field in ("code", *(field for field in fields if field not in ("code", "seed"))):
            folder, differs, before = self.near.get(without(fields, field), ("", None, None))
            if differs not in (field, ""):
                continue
            if field == "code":
                files = code_digests(stages(cell), registry_choices(cell))
                changed = sorted(
                    m for m in files.keys() | self.files[folder].keys() if files.get(m) != self.files[folder].get(m)
                )
                return Status(cell, name, "stale", f"code changed: {', '.join(changed)}", older=folder)
            return Status(cell, name, "stale", f"{field} changed: {_shown(before)} → {_shown(fields[field])}")
        return Status(cell, name, "run")


def flattened(document: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def without(fields: Mapping[str, Any], field: str) -> str:
    return canonical_json({name: value for name, value in fields.items() if name != field})


def _shown(value: Any) -> str:
    return "default" if value is None else str(value)
