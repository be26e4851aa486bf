"""How the results of an experiment are to be judged, noted in the home before there are any."""

from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from contrastive.errors import UserError
from contrastive.runs import store
from contrastive.runs.recorded import Declaration

DECLARATIONS = TypeAdapter(list[Declaration])


def declare(experiment: str, now: Declaration) -> None:
    """The first stays as long as there are results; what differs from the last one is noted after it."""
    with store.locked(store.home() / "locks" / f"declared-{experiment}"):
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


def declaration_file(experiment: str) -> Path:
    return store.home() / "declared" / f"{experiment}.json"
