"""How the results of an experiment are to be judged, noted in the home before there are any."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from contrastive.errors import UserError
from contrastive.runs import store
from contrastive.runs.recorded import Declaration

DECLARATIONS = TypeAdapter(list[Declaration])


def declare(experiment: str, now: Declaration, cells: Collection[str] = ()) -> None:
    """The first stays as long as there are results; what differs from the last one is noted after it. `cells`: ids of
    those that are planned, or stand for them. `now` counts the results of these; those of cells that were planned for
    the experiment before, and are no more, count too."""
    with store.locked(store.home() / "locks" / f"declared-{experiment}"):
        earlier = planned_before(experiment)
        if not earlier.issuperset(cells):
            store.write_json(cells_file(experiment), sorted(earlier | {*cells}))
        others = sum(store.finished(store.run_folder(cell)) for cell in earlier - {*cells})
        now = replace(now, finished=now.finished + others)
        before = declarations(experiment) if now.finished else []
        if not before or replace(before[-1], finished=now.finished) != now:
            store.write_json(declaration_file(experiment), DECLARATIONS.dump_python([*before, now], mode="json"))


def declarations(experiment: str) -> list[Declaration]:
    path = declaration_file(experiment)
    if not path.exists():
        return []
    try:
        return DECLARATIONS.validate_json(path.read_bytes())
    except ValidationError:
        raise UserError(f"{path} is damaged: restore it, or delete it; then nothing tells what was declared") from None


def planned_before(experiment: str) -> set[str]:
    path = cells_file(experiment)
    return set(store.read_json(path)) if path.exists() else set()


def cells_file(experiment: str) -> Path:
    return store.home() / "declared" / "cells" / f"{experiment}.json"


def declaration_file(experiment: str) -> Path:
    return store.home() / "declared" / f"{experiment}.json"
