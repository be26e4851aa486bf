"""A real Slurm of two nodes on this machine, in a folder of its own, for the tests of jobs; `python -m tests.slurm`
installs Debian's packages."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from tests.waiting import soon

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
CONFIGURATION = """ClusterName=t
SlurmctldHost={host}
SlurmUser=root
AuthInfo=socket={folder}/munge/sock,cred_expire=10
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ReturnToService=2
SlurmdTimeout=10
KillWait=20
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=p Nodes=ALL Default=YES State=UP
PartitionName=urgent Nodes=ALL PriorityTier=2 State=UP
NodeName=n1 {one} Port={first} CPUs=8
NodeName=n2 {two} Port={second} CPUs=8
"""
LOOPBACK = "NodeHostname=localhost NodeAddr=127.0.0.1"


def why_not() -> str:
    """Return why no Slurm can be started here; empty if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"needs Slurm ({', '.join(missing)} not found; as root: apt-get install {' '.join(PACKAGES)})"
    return "" if os.geteuid() == 0 else "needs root, to start a Slurm"


class Slurm:
    """Controller, two nodes and munge, which run until `stop`."""

    places: ClassVar = {"host": "localhost", "one": LOOPBACK, "two": LOOPBACK}

    def __init__(self, folder: Path, ports: tuple[int, int, int]):
        self.folder, self.ports = folder, ports
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("munge", "state", "spool/n1", "spool/n2"):
            (folder / name).mkdir(parents=True, mode=0o755)
        key = folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        port, first, second = ports
        configuration = CONFIGURATION.format(folder=folder, port=port, first=first, second=second, **self.places)
        (folder / "slurm.conf").write_text(configuration)
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        munge = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")]
        self.start("munge", "munged", "--foreground", f"--socket={folder}/munge/sock", *munge)
        soon(lambda: (folder / "munge" / "sock").exists(), while_runs=self.processes["munge"])
        self.start("controller", "slurmctld", "-D")
        for node in ("n1", "n2"):
            self.start(node, "slurmd", "-D", "-N", node)
        soon(lambda: self.ask("sinfo", "-h", "-o", "%T %D") == "idle 2")

    def start(self, name: str, *command: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=os.environ | self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, env=os.environ | self.environment, capture_output=True, text=True)
        return done.stdout.strip()

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self) -> None:
        self.ask("scancel", "--user=root")
        soon(lambda: not self.ask("squeue", "-h"))
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def install() -> None:
    """Install Slurm if it can be done without a question; the tests that need it say that they are skipped."""
    if why_not() and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
            subprocess.run(["apt-get", "--quiet", *command], env=environment, stdout=subprocess.DEVNULL, check=False)
    if reason := why_not():
        sys.stderr.write(f"make: the tests of Slurm are skipped: {reason}\n")


if __name__ == "__main__":
    install()
