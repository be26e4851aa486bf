"""A cell of several processes, or of one that shards: begun here, ended with this process, never orphaned.

All of them on the devices of this machine; or, of a cell larger than a machine, only this one's share, which meets the
others' at an address.
"""

import os
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from contrastive.config.cell import Cell, Training
from contrastive.runs import claim, stopping, store
from contrastive.sources import deepspeed_file
from contrastive.stages import job
from contrastive.stages.fork_server import Birth, Lost, begun
from contrastive.stages.job import MEET

MEETING = "meeting.json"  # in the folder of an attempt, for the other machines
# The second is what its engine asks for an optimizer's name, and takes three seconds.
DEEPSPEED = ("deepspeed", "deepspeed.runtime.zero.muon.muon_optimizer", "accelerate.utils.deepspeed")
# Only of this machine. Accelerate asks for an address, which nobody uses once the processes have met.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


class JobFailed(RuntimeError):
    """A process of the job failed; its report, if it could write one."""

    def __init__(self, report: dict[str, Any]):
        super().__init__(report["error"])
        self.report = report


@dataclass(frozen=True)
class Machines:
    """Those that share one cell: where the first of them is found, and how many processes each has."""

    host: str
    shares: tuple[int, ...]


def launch(
    folder: Path,
    checkpoint_every: int,
    how: Training,
    devices: str,
    each: Callable[[], None],
    machines: Machines | None = None,
) -> int:
    """Train the cell that an attempt's config.json describes; `each` is called while it runs, and may stop it.

    Gives the number of parameters that were trained. The first of several machines says here where the others meet it.
    """
    if machines is None:
        return run(folder, checkpoint_every, how, devices, each, None, range(how.processes))
    address = f"tcp://{machines.host}:{free_port()}"
    called = {"checkpoint_every": checkpoint_every, "micro_batch": how.micro_batch, "shares": machines.shares}
    store.write_json(folder / MEETING, called | {"address": address})
    try:
        return run(folder, checkpoint_every, how, devices, each, address, range(machines.shares[0]))
    finally:
        (folder / MEETING).unlink()


def assist(run_folder: Path, earlier: str, index: int) -> str:
    """On another machine: its share of the processes, each time that the first one calls, until all are done.

    Gives what was lost here, so that nobody waits for it. What else fails is told by the first machine.
    """
    heard: dict[str, Any] = {}
    while not stopping.revoked():
        time.sleep(0.2)
        attempt = claim.latest(run_folder)
        folder = run_folder / "attempts" / attempt
        if (
            attempt == earlier
            or not (folder / MEETING).exists()
            or (called := store.read_json(folder / MEETING)) == heard
        ):
            continue
        heard = called
        how = Cell.model_validate(store.read_json(folder / "config.json")["cell"]).training
        how = how.model_copy(update={"micro_batch": heard["micro_batch"]})
        begin = sum(heard["shares"][:index])
        ranks = range(begin, begin + heard["shares"][index])
        try:
            run(folder, heard["checkpoint_every"], how, "", lambda: None, heard["address"], ranks)
        except JobFailed as error:
            if error.report["kind"] == "infrastructure":
                return str(error)
        else:
            return ""
    return ""


def run(
    folder: Path,
    checkpoint_every: int,
    how: Training,
    devices: str,
    each: Callable[[], None],
    meeting: str | None,
    ranks: range,
) -> int:
    """The processes of these ranks, to their end; they meet at tcp://HOST:PORT, or at a file of this machine."""
    for old in (folder / f"failed.{rank}.json" for rank in ranks):
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as here:
        environment = dict(os.environ) | network(meeting) | ({"CUDA_VISIBLE_DEVICES": devices} if devices else {})
        environment |= {
            MEET: meeting or f"{here}/meeting",
            "WORLD_SIZE": str(how.processes),
            "LOCAL_WORLD_SIZE": str(len(ranks)),
            "OMP_NUM_THREADS": str(how.threads),
        }
        births = [
            Birth(
                job.train,
                (folder / "config.json", folder, checkpoint_every, how.micro_batch),
                environment | {"RANK": str(rank), "LOCAL_RANK": str(rank - ranks.start)},
                os.getcwd(),
                folder / f"stderr.{rank}.txt",
                before=DEEPSPEED if deepspeed_file.named(how) else (),
            )
            for rank in ranks
        ]
        try:
            with begun(births) as look:
                while None in (codes := look(0.2)) and not any(codes):
                    each()
        except Lost as error:
            raise JobFailed({"kind": "infrastructure", "error": str(error)}) from error
    if any(codes):
        raise JobFailed(report_of(folder, dict(zip(ranks, codes, strict=True))))
    trained = int(store.read_json(folder / f"trained.{ranks.start}.json")["parameters"])
    for rank in ranks:
        (folder / f"stderr.{rank}.txt").unlink()
        (folder / f"trained.{rank}.json").unlink()
    return trained


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def network(meeting: str | None) -> dict[str, str]:
    """Nothing but this machine's own loopback, unless the processes meet at another one's address."""
    address = urlsplit(meeting or "")
    if meeting is None or address.hostname in ("127.0.0.1", "::1", "localhost"):
        return LOOPBACK
    return {"MASTER_ADDR": str(address.hostname), "MASTER_PORT": str(address.port)}


def report_of(folder: Path, codes: dict[int, int | None]) -> dict[str, Any]:
    """Why the job failed: a process was killed, which the others then complain of; or what one wrote down first."""
    reports = sorted(folder.glob("failed.*.json"), key=lambda path: path.stat().st_mtime_ns)
    killed = [(rank, code) for rank, code in codes.items() if code is not None and code < 0]
    if reports and not killed:
        found: dict[str, Any] = store.read_json(reports[0])
        return found
    rank, code = killed[0] if killed else next((rank, code) for rank, code in codes.items() if code)
    said = (folder / f"stderr.{rank}.txt").read_text(encoding="utf-8", errors="replace").strip()[-500:]
    kind = "infrastructure" if killed else "code"
    return {"kind": kind, "error": f"process {rank} of the cell ended with code {code}" + (f": {said}" if said else "")}
