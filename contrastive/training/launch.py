"""Launch the processes of a cell that uses several or is sharded; they end when this process does.

If a cell spans several machines, this starts only this machine's processes, which connect to the others at an address.
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
from contrastive.errors import UserError
from contrastive.grid import deepspeed_file
from contrastive.runs import claim, stopping, store
from contrastive.training import job
from contrastive.training.job import MEETING_VARIABLE
from contrastive.training.processes import LOST, JobFailed, fork_processes

MEETING = "meeting.json"  # in an attempt's folder; tells the other machines where to join
# DeepSpeed's engine imports the second to look up an optimizer's name, which takes three seconds.
DEEPSPEED = ("deepspeed", "deepspeed.runtime.zero.muon.muon_optimizer", "accelerate.utils.deepspeed")
# Where processes meet on this machine. Accelerate requires an address, which is unused once they have joined.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


@dataclass(frozen=True)
class Machines:
    """The machines that share one cell: the host name of the first, and how many processes each runs."""

    host: str
    shares: tuple[int, ...]


def launch(
    folder: Path, checkpoint_every: int, training: Training, devices: str, machines: Machines | None = None
) -> int:
    """Train the cell described by an attempt's config.json; return the number of trained parameters.

    With several machines, the first one publishes in the folder the address at which the others join.
    """
    if machines is None:
        return run_processes(folder, checkpoint_every, training, devices, None, range(training.processes))
    with socket.socket() as probe:  # finds an unused port
        probe.bind(("", 0))
        address = f"tcp://{machines.host}:{probe.getsockname()[1]}"
    invitation = {"checkpoint_every": checkpoint_every, "micro_batch": training.micro_batch, "shares": machines.shares}
    store.write_json(folder / MEETING, invitation | {"address": address})
    try:
        return run_processes(folder, checkpoint_every, training, devices, address, range(machines.shares[0]))
    finally:
        (folder / MEETING).unlink()


def join_remote_cell(run_folder: Path, previous_attempt: str, index: int) -> str:
    """Run this machine's share of a cell whenever the first machine asks for it, until the share has been trained.

    Return the message of an infrastructure failure here, so that nobody waits for this machine; otherwise "". The first
    machine reports all other failures.
    """
    last_invitation: dict[str, Any] = {}
    while not stopping.stop_requested():
        time.sleep(0.2)
        attempt = claim.latest_attempt(run_folder)
        folder = run_folder / "attempts" / attempt
        if attempt == previous_attempt or not (folder / MEETING).exists():
            continue
        if (invitation := store.read_json(folder / MEETING)) == last_invitation:
            continue
        last_invitation = invitation
        try:
            run_local_ranks(invitation, folder, index)
        except JobFailed as error:
            if error.report["kind"] == "infrastructure":
                return str(error)
        else:
            return ""
    return ""


def run_local_ranks(invitation: dict[str, Any], folder: Path, index: int) -> None:
    """Run this machine's share of the processes until they end."""
    cell = Cell.model_validate(store.read_json(folder / "config.json")["cell"])
    training = cell.training.model_copy(update={"micro_batch": invitation["micro_batch"]})
    begin = sum(invitation["shares"][:index])
    ranks = range(begin, begin + invitation["shares"][index])
    run_processes(folder, invitation["checkpoint_every"], training, "", invitation["address"], ranks)


def run_processes(
    folder: Path, checkpoint_every: int, training: Training, devices: str, address: str | None, ranks: range
) -> int:
    """Run the processes of these ranks until they end; return the number of trained parameters.

    They rendezvous at `address` (tcp://HOST:PORT), or through a file on this machine.
    """
    check_devices(devices, len(ranks))
    for rank in ranks:
        (folder / f"failed.{rank}.json").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as meeting_folder:
        environment = process_environment(training, devices, address or f"{meeting_folder}/meeting", len(ranks))
        environments = {
            folder / f"stderr.{rank}.txt": environment | {"RANK": str(rank), "LOCAL_RANK": str(rank - ranks.start)}
            for rank in ranks
        }
        arguments = (folder / "config.json", folder, checkpoint_every, training.micro_batch)
        # On a GPU these imports may touch a device before the fork.
        on_cpu = environment.get("CUDA_VISIBLE_DEVICES") == ""
        preload = DEEPSPEED if on_cpu and deepspeed_file.uses_deepspeed(training) else ()
        with fork_processes(job.train_rank, arguments, environments, preload) as exit_codes:
            while None in (codes := exit_codes(0.2)) and not any(codes):
                pass
    if any(codes):
        raise JobFailed(explain_exit_codes(folder, dict(zip(ranks, codes, strict=True))))
    trained = int(store.read_json(folder / f"trained.{ranks.start}.json")["parameters"])
    for rank in ranks:
        (folder / f"stderr.{rank}.txt").unlink()
        (folder / f"trained.{rank}.json").unlink()
    return trained


def check_devices(devices: str, count: int) -> None:
    """Raise UserError if this machine has GPUs, but fewer than processes: NCCL refuses two processes on one GPU."""
    import torch  # not in the flow's process

    gpus = len(devices.split(",")) if devices else torch.cuda.device_count()
    if torch.cuda.is_available() and gpus < count:
        raise UserError(
            f"the cell trains in {count} processes, one on each GPU, but there {'is' if gpus == 1 else 'are'} {gpus}; "
            "lower training.processes"
        )


def process_environment(training: Training, devices: str, meeting: str, count: int) -> dict[str, str]:
    """Return the environment that the `count` processes of this machine share."""
    address = urlsplit(meeting)
    is_remote = address.scheme == "tcp" and address.hostname not in ("127.0.0.1", "::1", "localhost")
    return {
        **os.environ,
        **({"MASTER_ADDR": str(address.hostname), "MASTER_PORT": str(address.port)} if is_remote else LOOPBACK),
        **({"CUDA_VISIBLE_DEVICES": devices} if devices else {}),
        MEETING_VARIABLE: meeting,
        "WORLD_SIZE": str(training.processes),
        "LOCAL_WORLD_SIZE": str(count),
        "OMP_NUM_THREADS": str(training.threads),
    }


def explain_exit_codes(folder: Path, codes: dict[int, int | None]) -> dict[str, Any]:
    """Report why the job failed: a killed process (the others then fail too), else the first failure report."""
    reports = sorted(folder.glob("failed.*.json"), key=lambda path: path.stat().st_mtime_ns)
    killed = [(rank, code) for rank, code in codes.items() if code is not None and (code < 0 or code == LOST)]
    if reports and not killed:
        report: dict[str, Any] = store.read_json(reports[0])
        return report
    rank, code = killed[0] if killed else next((rank, code) for rank, code in codes.items() if code)
    if code == LOST:
        error = "the fork server of training processes died (killed, or out of memory)"
        return {"kind": "infrastructure", "error": error}
    stderr = (folder / f"stderr.{rank}.txt").read_text(encoding="utf-8", errors="replace").strip()[-500:]
    error = f"process {rank} of the cell ended with code {code}" + (f": {stderr}" if stderr else "")
    return {"kind": "infrastructure" if killed else "code", "error": error}
