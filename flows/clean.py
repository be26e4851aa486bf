"""`ablate clean`: remove what no declared experiment of this home needs any more."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from contrastive.errors import UserError
from contrastive.runs import claim, store
from flows.terminal import say
from tasks.engines.on_slurm import slurm


def clean(dry_run: bool) -> None:
    """List and, unless `dry_run`, remove cells that no experiment names, and what attempts left in finished cells."""
    total = 0
    for path, why in superfluous():
        size = sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
        total += size
        say(f"{size / 1e6:9.1f} MB  {path}  ({why})")
        if not dry_run:
            remove(path)
    say(f"{total / 1e6:9.1f} MB  {'would be removed' if dry_run else 'removed'}")


def give_back(host: str) -> None:
    """Remove the lock files of a machine that is gone."""
    if host == socket.gethostname():
        raise UserError(f"{host} is this machine: whoever needs a lock file of a process that ended here removes it")
    jobs = list[str]()
    with suppress(UserError):  # there is no Slurm, or it does not know the machine
        jobs = slurm("squeue", "--noheader", f"--nodelist={host}", "-o%i").split()
    if jobs:
        raise UserError(f"{host} runs jobs ({', '.join(jobs[:5])}): it is not gone")
    say("\n".join(map(str, store.break_lock_files(host))) or f"{host} holds no lock file in {store.home()}")


def superfluous() -> Iterator[tuple[Path, str]]:
    """Yield what can go, and why; nothing of a cell that a process works on."""
    named = named_cells()
    for run in sorted((store.home() / "runs").glob("*")):
        if not run.is_dir() or claim.is_held(run):
            continue
        if run.name not in named:
            yield run, "no experiment of this home names it"
        elif store.finished(run):
            for attempt in sorted((run / "attempts").glob("*")):
                yield from ((path, "left by an attempt") for path in sorted(attempt.glob("*")) if is_left(path))


def is_left(path: Path) -> bool:
    return path.name != "attempt.json"  # which `ablate show` prints


def named_cells() -> set[str]:
    """Return the ids of the cells that experiments of this home had when they were last planned to run."""
    declared = store.home() / "declared"
    for file in declared.glob("*.json"):
        if not (declared / "cells" / file.name).with_suffix(".now").exists():
            raise UserError(f"the cells of {file.stem} are not listed yet: run `ablate sync` with its file first")
    return {cell for file in (declared / "cells").glob("*.now") for cell in store.read_json(file)}


def remove(path: Path) -> None:
    """Remove a file or folder; of a cell, only while no process can begin to work on it."""
    if path.parent.name != "runs":
        return store.remove(path)
    with claim.hold(path, wait=False) as is_free:
        if is_free:
            store.remove(path)
