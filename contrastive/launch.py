"""A cell of several processes, on the devices of this machine: begun here, ended with this process, never orphaned."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from contrastive import store
from contrastive.config import Training
from contrastive.job import MEET

# Only of this machine. Accelerate asks for an address, which nobody uses once the processes have met at a file.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


class JobFailed(RuntimeError):
    """A process of the job failed; its report, if it could write one."""

    def __init__(self, report: dict[str, Any]):
        super().__init__(report["error"])
        self.report = report


def launch(folder: Path, checkpoint_every: int, how: Training, devices: str, each: Callable[[], None]) -> int:
    """Train the cell that an attempt's config.json describes; `each` is called while it runs, and may stop it.

    Gives the number of parameters that were trained.
    """
    for old in folder.glob("failed.*.json"):
        old.unlink()
    with tempfile.TemporaryDirectory() as meeting, ExitStack() as open_files:
        command = [sys.executable, "-m", "contrastive.job", str(folder / "config.json"), str(folder)]
        command += ["--checkpoint-every", str(checkpoint_every)]
        command += ["--micro-batch", str(how.micro_batch)] if how.micro_batch else []
        pinned = {"CUDA_VISIBLE_DEVICES": devices} if devices else {}
        shared = pinned | {
            MEET: f"{meeting}/here",
            "WORLD_SIZE": str(how.processes),
            "LOCAL_WORLD_SIZE": str(how.processes),
            "OMP_NUM_THREADS": str(how.threads),
        }
        started = [
            subprocess.Popen(
                command,
                env=os.environ | LOOPBACK | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=open_files.enter_context(open(folder / f"stderr.{rank}.txt", "wb")),
                start_new_session=True,
            )
            for rank in range(how.processes)
        ]
        try:
            while None in (codes := [process.poll() for process in started]) and not any(codes):
                each()
                time.sleep(0.2)
        finally:
            for process in started:  # where one failed, the others wait for it in vain
                process.kill()
                process.wait()
    if any(codes):
        raise JobFailed(report_of(folder, codes))
    for said in folder.glob("stderr.*.txt"):
        said.unlink()
    trained = int(store.read_json(folder / "trained.json")["parameters"])
    (folder / "trained.json").unlink()
    return trained


def report_of(folder: Path, codes: list[int | None]) -> dict[str, Any]:
    """Why the job failed: a process was killed, which the others then complain of; or what one wrote down first."""
    reports = sorted(folder.glob("failed.*.json"), key=lambda path: path.stat().st_mtime_ns)
    killed = [code for code in codes if code is not None and code < 0]
    if reports and not killed:
        found: dict[str, Any] = store.read_json(reports[0])
        return found
    code = killed[0] if killed else next(code for code in codes if code)
    rank = codes.index(code)
    said = (folder / f"stderr.{rank}.txt").read_text(encoding="utf-8", errors="replace").strip()[-500:]
    kind = "infrastructure" if killed else "code"
    return {"kind": kind, "error": f"process {rank} of the cell ended with code {code}" + (f": {said}" if said else "")}
