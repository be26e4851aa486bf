"""A cell of several processes, or of one that shards: forked here, ended with this process, never orphaned.

All of them on the devices of this machine; or, of a cell larger than a machine, only this one's share, which meets the
others' at an address.
"""

import os
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from contrastive.config.cell import Cell, Training
from contrastive.grid import deepspeed_file
from contrastive.runs import claim, stopping, store
from contrastive.training import job
from contrastive.training.job import MEETING_VARIABLE
from contrastive.training.processes import LOST, ProcessSpec, fork_processes
from contrastive.training.request import JobFailed

MEETING = "meeting.json"  # in the folder of an attempt, for the other machines
# The second is what its engine asks for an optimizer's name, and takes three seconds.
DEEPSPEED = ("deepspeed", "deepspeed.runtime.zero.muon.muon_optimizer", "accelerate.utils.deepspeed")
# Only of this machine. Accelerate asks for an address, which nobody uses once the processes have met.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


@dataclass(frozen=True)
class Machines:
    """Those that share one cell: where the first of them is found, and how many processes each has."""

    host: str
    shares: tuple[int, ...]


def launch(
    folder: Path,
    checkpoint_every: int,
    training: Training,
    devices: str,
    machines: Machines | None = None,
) -> int:
    """Train the cell that an attempt's config.json describes.

    Gives the number of parameters that were trained. The first of several machines says here where the others meet it.
    """
    if machines is None:
        return run_processes(folder, checkpoint_every, training, devices, None, range(training.processes))
    address = f"tcp://{machines.host}:{unused_port()}"
    call = {"checkpoint_every": checkpoint_every, "micro_batch": training.micro_batch, "shares": machines.shares}
    store.write_json(folder / MEETING, call | {"address": address})
    try:
        return run_processes(folder, checkpoint_every, training, devices, address, range(machines.shares[0]))
    finally:
        (folder / MEETING).unlink()


def join_remote_cell(run_folder: Path, earlier: str, index: int) -> str:
    """On another machine: its share of the processes, each time that the first one calls, until all are done.

    Gives what was lost here, so that nobody waits for it. What else fails is told by the first machine.
    """
    answered: dict[str, Any] = {}
    while not stopping.stop_requested():
        time.sleep(0.2)
        attempt = claim.latest_attempt(run_folder)
        folder = run_folder / "attempts" / attempt
        if attempt == earlier or not (folder / MEETING).exists():
            continue
        if (call := store.read_json(folder / MEETING)) == answered:
            continue
        answered = call
        try:
            run_local_ranks(call, folder, index)
        except JobFailed as error:
            if error.report["kind"] == "infrastructure":
                return str(error)
        else:
            return ""
    return ""


def run_local_ranks(call: dict[str, Any], folder: Path, index: int) -> None:
    """Run this machine's share of the processes, to their end."""
    cell = Cell.model_validate(store.read_json(folder / "config.json")["cell"])
    training = cell.training.model_copy(update={"micro_batch": call["micro_batch"]})
    begin = sum(call["shares"][:index])
    ranks = range(begin, begin + call["shares"][index])
    run_processes(folder, call["checkpoint_every"], training, "", call["address"], ranks)


def run_processes(
    folder: Path,
    checkpoint_every: int,
    training: Training,
    devices: str,
    address: str | None,
    ranks: range,
) -> int:
    """The processes of these ranks, to their end; they meet at tcp://HOST:PORT, or at a file of this machine."""
    for rank in ranks:
        (folder / f"failed.{rank}.json").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as here:
        environment = process_environment(training, devices, address or f"{here}/meeting", len(ranks))
        processes = process_specs(folder, checkpoint_every, training, environment, ranks)
        on_cores = (
            environment.get("CUDA_VISIBLE_DEVICES") == ""
        )  # else such a module may touch a device before the fork
        with fork_processes(
            processes, DEEPSPEED if on_cores and deepspeed_file.uses_deepspeed(training) else ()
        ) as look:
            while None in (codes := look(0.2)) and not any(codes):
                pass
    if any(codes):
        raise JobFailed(explain_exit_codes(folder, dict(zip(ranks, codes, strict=True))))
    trained = int(store.read_json(folder / f"trained.{ranks.start}.json")["parameters"])
    for rank in ranks:
        (folder / f"stderr.{rank}.txt").unlink()
        (folder / f"trained.{rank}.json").unlink()
    return trained


def process_environment(training: Training, devices: str, meeting: str, count: int) -> dict[str, str]:
    """What all processes of this machine see, `count` of them."""
    return {
        **os.environ,
        **network_environment(meeting),
        **({"CUDA_VISIBLE_DEVICES": devices} if devices else {}),
        MEETING_VARIABLE: meeting,
        "WORLD_SIZE": str(training.processes),
        "LOCAL_WORLD_SIZE": str(count),
        "OMP_NUM_THREADS": str(training.threads),
    }


def process_specs(
    folder: Path, checkpoint_every: int, training: Training, environment: dict[str, str], ranks: range
) -> list[ProcessSpec]:
    return [
        ProcessSpec(
            job.train_rank,
            (folder / "config.json", folder, checkpoint_every, training.micro_batch),
            environment | {"RANK": str(rank), "LOCAL_RANK": str(rank - ranks.start)},
            os.getcwd(),
            folder / f"stderr.{rank}.txt",
        )
        for rank in ranks
    ]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def network_environment(meeting: str) -> dict[str, str]:
    """Nothing but this machine's own loopback, unless the processes meet at another one's address."""
    address = urlsplit(meeting)
    if address.scheme != "tcp" or address.hostname in ("127.0.0.1", "::1", "localhost"):
        return LOOPBACK
    return {"MASTER_ADDR": str(address.hostname), "MASTER_PORT": str(address.port)}


def explain_exit_codes(folder: Path, codes: dict[int, int | None]) -> dict[str, Any]:
    """Why the job failed: a process was killed, which the others then complain of; or what one wrote down first."""
    reports = sorted(folder.glob("failed.*.json"), key=lambda path: path.stat().st_mtime_ns)
    killed = [(rank, code) for rank, code in codes.items() if code is not None and (code < 0 or code == LOST)]
    if reports and not killed:
        report: dict[str, Any] = store.read_json(reports[0])
        return report
    rank, code = killed[0] if killed else next((rank, code) for rank, code in codes.items() if code)
    if code == LOST:
        return {
            "kind": "infrastructure",
            "error": "the process that forks those of cells died (killed, or out of memory)",
        }
    said = (folder / f"stderr.{rank}.txt").read_text(encoding="utf-8", errors="replace").strip()[-500:]
    kind = "infrastructure" if killed else "code"
    return {"kind": kind, "error": f"process {rank} of the cell ended with code {code}" + (f": {said}" if said else "")}
