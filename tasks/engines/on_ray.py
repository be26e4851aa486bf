"""Engine `ray`: the nodes of an existing Ray cluster, which places work by the GPUs and cores it needs.

A Ray worker runs the work in a warm process of its own (`Slot`), as the engine `local` does: pinned to the devices
that Ray assigned, with the threads of the cell, ended with the worker. If Ray assigns another device, the process is
replaced, since CUDA stays on its first device. The code of this working tree or installed package is sent to the nodes.
"""

import logging
import os
import socket
import sys
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ray
from ray import exceptions
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from contrastive.config.experiment import Resources
from contrastive.config.registry import PACKAGE_ROOT
from contrastive.errors import UserError
from contrastive.runs import stopping, store
from contrastive.runs.provenance import commit
from contrastive.training.launch import Machines
from tasks.engines.local import Slot
from tasks.engines.types import LOOK_EVERY, Engine, Watch, WorkerLost

# These versions must be the same on all nodes; Ray checks its own and Python's.
PACKAGES = ("torch", "transformers", "accelerate", "deepspeed", "peft", "tokenizers", "numpy", "scikit-learn")
SENT = ("contrastive", "tasks", "reports", "ablate")
LOST = "the worker process or its node died (killed, or out of memory)"

_slots: dict[bool, Slot] = {}  # warm processes of this Ray worker: with devices (True) and without


class OnRay(Engine):
    def __init__(self, permit: Path, resources: Resources, threads: int):
        super().__init__(permit, resources.gpus_per_cell if any(count(node, "GPU") for node in nodes()) else 0.0)
        self.threads, self.slots = threads, resources.slots
        self.packages = needed_packages()

    def run(
        self,
        stage: str,
        work: Callable[..., Any],
        *arguments: Any,
        processes: int = 1,
        assist: Callable[..., Any] | None = None,
        watch: Watch | None = None,
    ) -> Any:
        self.check()
        needs = self.needs(processes) if stage == "train" else {"num_cpus": 1.0, "num_gpus": 0.0}
        if stage == "train" and not any(how_many(node, needs) for node in nodes()):
            assert assist is not None, "work larger than a node needs `assist` for the other nodes"
            return self.run_over_nodes(partial(work, *arguments), assist, processes, watch)
        return self.result_of([self.begin(partial(work, *arguments), needs)], watch)

    def run_over_nodes(
        self, work: Callable[..., Any], assist: Callable[..., Any], processes: int, watch: Watch | None
    ) -> Any:
        """Run a cell over several nodes: the first node leads, and each runs as many processes as it has room for."""
        shares = split_over_nodes(processes, [how_many(node, self.needs(1)) for node in nodes()])
        bundles = [{"CPU": share["num_cpus"], "GPU": share["num_gpus"]} for share in map(self.needs, shares)]
        group = placement_group([{name: value for name, value in bundle.items() if value} for bundle in bundles])
        try:
            while not group.wait(LOOK_EVERY):
                self.check()
            places = placement_group_table(group)["bundles_to_node_id"]
            host = next(node["NodeManagerAddress"] for node in nodes() if node["NodeID"] == places[0])
            begun = []
            for index, share in enumerate(shares):
                leads = index == 0
                piece = partial(work, machines=Machines(host, tuple(shares))) if leads else partial(assist, index)
                begun.append(self.begin(piece, self.needs(share), PlacementGroupSchedulingStrategy(group, index)))
            return self.result_of(begun, watch)
        finally:
            remove_placement_group(group)

    def begin(self, work: Callable[[], Any], needs: dict[str, float], where: Any = "DEFAULT") -> Any:
        given = {"ABLATE_HOME": str(store.home()), "ABLATE_COMMIT": commit(), stopping.VARIABLE: str(self.permit)}
        given |= {"OMP_NUM_THREADS": str(self.threads)} | ({} if needs["num_gpus"] else {"CUDA_VISIBLE_DEVICES": ""})
        task = in_worker.options(**needs, scheduling_strategy=where)
        return task.remote(given, os.getcwd(), work)

    def result_of(self, begun: list[Any], watch: Watch | None) -> Any:
        """Return the result of the first task, None or a failure report.

        If another one fails, or the first hangs, all are cancelled and WorkerLost is raised.
        """
        why, waiting = WorkerLost(LOST), begun
        try:
            while begun[0] in waiting:
                ended, waiting = ray.wait(waiting, timeout=LOOK_EVERY)
                if begun[0] in ended and waiting and ray.get(begun[0]):  # it failed, perhaps because another was lost
                    others, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=10)
                    ended += others
                for lost in filter(None, (ray.get(task) for task in ended if task is not begun[0])):
                    raise WorkerLost(lost)
                if watch is not None and (hung := watch.look()):
                    why, watch = hung, None
                    ray.cancel(begun[0], force=True)
            return ray.get(begun[0])
        except exceptions.RayTaskError as error:  # what the work itself raised
            raise error.cause from error
        except exceptions.RayError as error:
            self.check()
            raise why from error
        finally:
            for task in waiting:
                ray.cancel(task, force=True)

    def needs(self, processes: int) -> dict[str, float]:
        """Return the resources of a training: GPUs only, if there are any, so that no GPU waits for a core."""
        cores = 0 if self.share else processes * self.threads
        return {"num_cpus": float(cores), "num_gpus": processes * self.share}

    def check_capacity(self, processes: int) -> None:
        super().check_capacity(processes)
        if sum(how_many(node, self.needs(1)) for node in nodes()) < processes:
            needs = self.needs(processes)
            wanted = f"{needs['num_gpus']:g} GPUs" if self.share else f"{needs['num_cpus']:g} cores"
            there = "; ".join(
                f"{n['NodeManagerAddress']}: {count(n, 'GPU'):g} GPUs, {count(n, 'CPU'):g} cores" for n in nodes()
            )
            raise UserError(
                f"a cell of {processes} processes needs {wanted}, but the cluster has fewer ({there}); lower "
                "training.processes or training.threads"
            )

    def max_in_flight(self) -> int:
        capacity = sum(how_many(node, self.needs(1)) for node in nodes())
        return min(2 * max(1, capacity), self.slots or sys.maxsize)

    def look_at_nodes(self) -> None:
        """Raise UserError if a node has other package versions than the driver, or does not see the home."""
        there = nodes()  # read once: nodes come and go
        places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in there]
        asked = [at_node.options(scheduling_strategy=place).remote(str(self.permit)) for place in places]
        for node, (sees, theirs) in zip(there, ray.get(asked), strict=True):
            name = node["NodeManagerAddress"]
            ours = self.packages
            other = [f"{key} {theirs[key]} instead of {ours[key]}" for key in ours if theirs[key] != ours[key]]
            if other:
                raise UserError(
                    f"the node {name} has other package versions than this machine ({', '.join(other)}); install "
                    "the same versions on all nodes"
                )
            if not sees:
                raise UserError(
                    f"the node {name} does not see {store.home()}; set ABLATE_HOME to a folder that all nodes share"
                )

    def stop(self) -> None:
        self.finish()
        ray.shutdown()


def connect(permit: Path, resources: Resources, threads: int) -> OnRay:
    """Connect to the cluster at RAY_ADDRESS and check its nodes. Work stops when the permit file is removed."""
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        raise UserError(
            "the engine ray needs a running cluster; start one (`ray start --head` prints its address) and set "
            "RAY_ADDRESS, e.g. RAY_ADDRESS=10.0.0.1:6379"
        )
    knock(address)
    code = [str(PACKAGE_ROOT / name) for name in SENT]
    try:
        ray.init(address=address, runtime_env={"py_modules": code}, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"could not use the Ray cluster at RAY_ADDRESS={address}: {error}. Check that it is running and uses Ray "
            f"{ray.__version__}. If it requires a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        ) from error
    try:
        engine = OnRay(permit, resources, threads)
        engine.look_at_nodes()
    except BaseException:
        ray.shutdown()
        raise
    return engine


def knock(address: str) -> None:
    """Raise UserError if nothing answers at the address; Ray itself would try for ten minutes."""
    host, _, port = address.rpartition(":")
    try:
        if address != "auto":
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError, ValueError) as error:
        raise UserError(
            f"no Ray cluster answers at RAY_ADDRESS={address} ({error}); start one with `ray start --head`, and give "
            "HOST:PORT, as it prints it, or auto"
        ) from error


@ray.remote(max_retries=0, max_calls=0)  # max_calls=0: also keep workers with GPUs
def in_worker(environment: dict[str, str], folder: str, work: Callable[[], Any]) -> Any:
    """Run in a Ray worker: pass the work on to its warm process."""
    if "CUDA_VISIBLE_DEVICES" not in environment:
        environment = environment | {"CUDA_VISIBLE_DEVICES": os.environ["CUDA_VISIBLE_DEVICES"]}
    with_devices = bool(environment["CUDA_VISIBLE_DEVICES"])
    slot = _slots.get(with_devices)
    if slot is None or slot.environment != environment:
        if slot is not None:
            slot.close()
        if os.path.isdir(folder):  # relative paths of an experiment file start there
            os.chdir(folder)
        slot = _slots[with_devices] = Slot(environment)
    return slot.run(work)


@ray.remote(max_retries=0, num_cpus=0)
def at_node(permit: str) -> tuple[bool, dict[str, str]]:
    """Return whether a node sees the store, and its package versions."""
    return os.path.exists(permit), needed_packages()


@cache
def needed_packages() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return versions


def nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def split_over_nodes(processes: int, free: list[int]) -> list[int]:
    """Divide processes into as few shares as possible, each of which fits on one node."""
    shares: list[int] = []
    for room in sorted(free, reverse=True):
        if share := min(room, processes - sum(shares)):
            shares.append(share)
    return shares


def count(node: dict[str, Any], kind: str) -> float:
    """Return the number of GPUs (`GPU`) or cores (`CPU`) of a node."""
    return float(node["Resources"].get(kind, 0))


def how_many(node: dict[str, Any], needs: dict[str, float]) -> int:
    """Return how many cells with these needs fit on a node at a time."""
    if needs["num_gpus"]:
        return int(count(node, "GPU") // needs["num_gpus"])
    return int(count(node, "CPU") // needs["num_cpus"])
