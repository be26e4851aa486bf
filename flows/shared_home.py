"""`ablate doctor --shared`: find out whether the machines that share this home see each other's locks."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from contrastive.errors import UserError
from contrastive.runs import store
from flows.terminal import say, tell

POLL = 0.2
PATIENCE = 60.0  # seconds to wait for the other machine
HOLDS, REFUSED, DONE = "holds", "refused", "done"


def compare_locks() -> int:
    """Try to take one lock on two machines at once. If both get it, this home uses lock files from now on."""
    store.check_home()
    folder, here = store.home() / "locks" / "probe", socket.gethostname()
    mine = folder / f"{here}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock", fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
        ours = HOLDS
    except Timeout:
        ours = REFUSED
    try:
        store.write_atomic(mine, ours)
        tell(f"waiting up to {PATIENCE:.0f} s for the same command on another machine")
        end = time.monotonic() + PATIENCE
        while not (found := others(mine)):
            if time.monotonic() > end:
                raise UserError(
                    "no other machine came: run `ablate doctor --shared` on two machines at once; under Slurm: "
                    "srun -N2 -n2 ablate doctor --shared"
                )
            time.sleep(POLL)
        store.write_atomic(mine, f"{ours} {DONE}")
        while any(DONE not in said for _, said in others(mine)) and time.monotonic() < end:  # until it has read ours
            time.sleep(POLL)
    finally:
        mine.unlink(missing_ok=True)
        lock.release()
    other, theirs = found[0]
    if ours == HOLDS and theirs.startswith(HOLDS):
        store.write_atomic(store.lock_files_mark(), "")
        say(
            f"FAIL {here} and {other} held one lock at once. Programs of this home use lock files from now on: stop "
            "those that run, and begin again. If a machine is lost, `ablate clean --gone HOST` gives back its cells"
        )
        return 1
    say(f"ok   {here} and {other} see each other's locks in {store.home()}")
    if here == other:
        say("note both ran on one machine, which says nothing of two")
    return 0


def others(mine: Path) -> list[tuple[str, str]]:
    """Return the host of each other process, and what it says."""
    found, new = [], mine.stat().st_mtime - 2 * PATIENCE  # older ones were left by a kill
    for path in mine.parent.glob("[!.]*-*"):
        with suppress(FileNotFoundError):
            if path != mine and path.stat().st_mtime > new:
                found.append((path.name.rpartition("-")[0], path.read_text(encoding="utf-8")))
    return found
