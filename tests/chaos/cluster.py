"""`ablate run` on a cluster of Ray: real nodes on this machine's loopback, with GPUs that are in its books alone."""

from pathlib import Path
from typing import Any

import psutil
from ray.cluster_utils import Cluster

from tests.chaos import processes
from tests.chaos.ways import Command
from tests.waiting import alive, left_after, soon

LOOPBACK = "127.0.0.2"  # for 127.0.0.1 a driver puts another address of the machine, where Ray then does not listen
HEAD = {"num_cpus": 1, "num_gpus": 0, "include_dashboard": False}
NODE = {"num_cpus": 2, "num_gpus": 2}  # holds the cell of two processes


class OnRay(Command):
    """A head, to which the flow is connected, and two nodes on which cells train."""

    name = "ablate run --engine ray"
    kinds = ("node", "worker", "child of a training", "worker of Ray", "flow")
    options = ("--engine", "ray")

    def __init__(self, home: Path, experiment: Path, environment: dict[str, str]):
        self.common: dict[str, Any] = {"node_ip_address": LOOPBACK, "env_vars": {processes.MARK: str(home)}}
        self.cluster = Cluster(initialize_head=True, head_node_args=HEAD | self.common)
        super().__init__(home, experiment, environment | {"RAY_ADDRESS": self.cluster.address})
        for _ in range(2):
            self.cluster.add_node(**NODE, **self.common)

    def of_kind(self, kind: str) -> list[psutil.Process]:
        if kind == "node":
            return [node for node in self._nodes() if any(map(is_busy, processes.with_descendants(node)))]
        if kind == "worker of Ray":
            return [one for node in self._nodes() for one in node.children() if is_busy(one)]
        return super().of_kind(kind)

    def begun_by(self, target: psutil.Process, kind: str) -> list[psutil.Process]:
        """Of a flow also what works for it in the cluster."""
        elsewhere = [*self.of_kind("worker"), *self.of_kind("child of a training")] if kind == "flow" else []
        return super().begun_by(target, kind) + elsewhere

    def replace(self, kind: str) -> None:
        """A node that died, by a new one. Dead for Ray's workers is a raylet that is buried, too."""
        if kind == "node":
            soon(self._dead, otherwise="a raylet that was killed lives")
            for node in self._dead():
                self.cluster.remove_node(node, allow_graceful=False)
                self.cluster.add_node(**NODE, **self.common)

    def _dead(self) -> list[Any]:
        return [node for node in self.cluster.worker_nodes if node.dead_processes()]

    def end(self) -> list[str]:
        """First what worked for the flow must be gone, its devices given back, then the cluster with all its own."""
        left = left_after(10, lambda: self._at_work() + self._leases())
        began = [one for node in self._nodes(head=True) for one in processes.with_descendants(node)]
        self.cluster.shutdown()
        psutil.wait_procs(began, timeout=10)
        left += [f"left over: {one.pid} of the cluster" for one in alive(began)]
        return left + super().end()

    def _at_work(self) -> list[str]:
        left = [one for kind in processes.KINDS for one in super(OnRay, self).of_kind(kind)]
        return [f"left over: {one.pid} {processes.kind(one)}" for one in left]

    def _leases(self) -> list[str]:
        free = self.cluster.global_state.available_resources().get("GPU", 0)
        return [] if free == 2 * NODE["num_gpus"] else [f"only {free:g} GPUs are free again"]

    def _nodes(self, head: bool = False) -> list[psutil.Process]:
        """The raylets that live, which each began the processes of a node."""
        nodes = [*self.cluster.worker_nodes, *([self.cluster.head_node] if head else [])]
        living = (dict(node.live_processes()).get("raylet") for node in nodes)
        return [psutil.Process(raylet.pid) for raylet in living if raylet is not None]


def is_busy(process: psutil.Process) -> bool:
    """Whether it is a worker of Ray at work for us."""
    try:
        return process.cmdline()[:1] == ["ray::in_worker"]
    except psutil.Error:
        return False
