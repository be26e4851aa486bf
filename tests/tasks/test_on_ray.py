"""The engine `ray` on a real cluster of several nodes on this machine, whose GPUs exist in Ray's books alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from ablate.commands import RunFailed, read_lines
from ablate.duel import Duel
from contrastive.config.experiment import Resources
from contrastive.errors import UserError
from contrastive.grid.identity import cell_id, identity
from contrastive.runs.store import run_folder
from contrastive.training.job import TrainRequest
from contrastive.training.launch import Machines
from flows.judging import RunOptions, decide_pair
from tasks import engines, worker_calls
from tasks.engines import Engine, Watch, WorkerLost
from tasks.engines.on_ray import OnRay, split_over_nodes
from tests.contrastive.training.launched import MORE, make, of_images, run, write_sources
from tests.tasks.test_engines import die, slow
from tests.waiting import soon

pytestmark = pytest.mark.full
GPUS = "CUDA_VISIBLE_DEVICES"
WORKERS_START = 300  # seconds: on a machine with other work, four fresh workers import torch for minutes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A node without GPUs and one with two. Their workers are not behind everything else that the machine does, as Ray
    has it: beside two busy processes they took ten minutes to import torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        started = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0, "include_dashboard": False}
        )
        started.add_node(num_cpus=4, num_gpus=2)
        yield started
        started.shutdown()


@pytest.fixture(scope="module", autouse=True)
def home(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(folder))
        patch.setenv("RAY_ADDRESS", cluster.address)
        yield folder


@pytest.fixture(scope="module")
def warm(home: Path) -> Iterator[Engine]:
    """One engine for all tests but the first ones, which have the cluster for themselves: its workers stay warm."""
    with engines.start("ray", Resources(), 1) as started:
        yield started


@pytest.fixture
def engine(warm: Engine) -> Engine:
    """The same, once Ray knows of the nodes that tests took away again."""
    soon(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
    return warm


def where() -> tuple[str, str, int, int]:
    """The devices of the work, those of a program that it starts, its process, and the worker of Ray around it."""
    told = subprocess.run([sys.executable, "-c", f"import os; print(os.environ['{GPUS}'])"], capture_output=True)
    return os.environ[GPUS], told.stdout.decode().strip(), os.getpid(), os.getppid()


def where_together(folder: Path, count: int) -> tuple[str, str, int, int]:
    """The same, once so many pieces of work have begun: they are at work at the same time, however busy the machine."""
    (folder / f"begun-{os.getpid()}").touch()
    soon(lambda: len(list(folder.glob("begun-*"))) >= count)
    return where()


def until_told(folder: Path, name: str) -> str:
    """Begins, and ends when a file says so."""
    (folder / name).touch()
    soon((folder / "go").exists)
    return "done"


def kill_around() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def test_a_share_of_a_device_packs_two_and_none_trains_on_cores(home: Path):
    with engines.start("ray", Resources(gpus_per_cell=0.5), 1) as engine, ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(engine.run, "train", where_together, home, 4) for _ in range(4)]
        assert sorted(future.result(WORKERS_START)[0] for future in asked) == ["0", "0", "1", "1"]
        with pytest.raises(UserError, match="a whole GPU for each, but gpus_per_cell is 0.5"):
            engine.check_capacity(2)
    with engines.start("ray", Resources(gpus_per_cell=0), 1) as engine:
        assert engine.run("train", where)[:2] == ("", "") and engine.max_in_flight() == 10


def test_other_packages_on_a_node_are_refused_with_both_versions(cluster: Cluster, tmp_path: Path):
    there = tmp_path / "there" / "torch-1.2.3.dist-info"
    there.mkdir(parents=True)
    (there / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.2.3\n")
    other = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(there.parent)})
    cluster.wait_for_nodes()
    try:
        with (
            pytest.raises(UserError, match=r"other package versions than this machine \(torch 1\.2\.3 instead of 2\."),
            engines.start("ray", Resources(), 1),
        ):
            pass
    finally:
        cluster.remove_node(other)


def test_work_is_pinned_warm_and_never_shares_a_device(engine: Engine, tmp_path: Path):
    assert engine.max_in_flight() == 4
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(engine.run, "train", where_together, tmp_path, 2) for _ in range(2)]
        found = [future.result(timeout=WORKERS_START) for future in asked]
    # A worker to which Ray hands the other device gets another process. Soon one has the device that it had before.
    places = [*found]
    while (place := engine.run("train", where)) not in places:
        places.append(place)
        assert len(places) < 12
    assert {place[0] for place in found} == {"0", "1"} and all(place[0] == place[1] for place in found)
    assert engine.run("train", where, processes=2)[0] in ("0,1", "1,0")
    assert engine.run("train", os.getenv, "OMP_NUM_THREADS") == "1"


def test_evaluation_sees_no_device_and_stays_off_the_node_that_has_some(engine: Engine, tmp_path: Path):
    assert engine.run("evaluate", where)[:2] == ("", "")
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(engine.run, "evaluate", until_told, tmp_path, "begun")
        soon((tmp_path / "begun").exists)
        try:  # of 5, and those 4 are of the node with GPUs
            soon(lambda: ray.available_resources()["CPU"] == 4.0)
        finally:
            (tmp_path / "go").touch()
        assert asked.result(timeout=WORKERS_START) == "done"


def test_an_error_of_the_work_arrives_and_what_dies_is_named_and_the_next_work_runs(engine: Engine):
    with pytest.raises(ZeroDivisionError):
        engine.run("train", divmod, 1, 0)
    with pytest.raises(WorkerLost, match="died"):
        engine.run("train", die)
    child = engine.run("train", where)[2]
    with pytest.raises(WorkerLost, match="died"):
        engine.run("train", kill_around)
    assert engine.run("train", slow, 0.0) == "done"
    soon(lambda: not Path(f"/proc/{child}").exists(), 10)


def test_work_that_hangs_is_killed(engine: Engine):
    with pytest.raises(WorkerLost, match="no step ended for [3-9] s"):
        engine.run("train", slow, 60.0, watch=Watch(lambda: "nothing new", patience=3.0))
    assert engine.run("train", slow, 0.0) == "done"


def test_a_node_that_goes_takes_its_work_with_it_and_another_one_does_it(
    engine: Engine, cluster: Cluster, tmp_path: Path
):
    extra = cluster.add_node(num_cpus=1, num_gpus=1, resources={"extra": 1})
    cluster.wait_for_nodes()
    with ThreadPoolExecutor(3) as threads:
        names = ["first", "second", "third"]  # on all three devices
        asked = [threads.submit(engine.run, "train", until_told, tmp_path, name) for name in names]
        soon(lambda: all((tmp_path / name).exists() for name in names))
        cluster.remove_node(extra, allow_graceful=False)
        soon(lambda: any(future.done() for future in asked))
        (tmp_path / "go").touch()
        ended = [future.exception(timeout=WORKERS_START) for future in asked]
    assert sorted(type(error).__name__ for error in ended) == ["NoneType", "NoneType", "WorkerLost"]
    assert engine.run("train", slow, 0.0) == "done"


def test_a_cell_that_no_node_holds_and_an_address_that_nobody_answers_are_errors(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    engine.check_capacity(2)
    with pytest.raises(UserError, match=r"3 processes needs 3 GPUs, but the cluster has fewer.*2 GPUs, 4"):
        engine.check_capacity(3)
    for address, said in (("127.0.0.1:1", "no Ray cluster answers"), ("http://here:x", "give HOST:PORT")):
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(UserError, match=said), engines.start("ray", Resources(), 1):
            pass
    monkeypatch.delenv("RAY_ADDRESS")
    with pytest.raises(UserError, match="set RAY_ADDRESS"), engines.start("ray", Resources(), 1):
        pass


def lead(folder: Path, machines: Machines) -> str:
    """As `launch` does on the first machine: says where the others meet it."""
    (folder / "meeting").write_text(f"{machines.host} {machines.shares}")
    soon((folder / "heard").exists)
    return (folder / "heard").read_text() + " by " + os.environ[GPUS]


def help_out(folder: Path, index: int) -> str:
    soon((folder / "meeting").exists)
    (folder / "heard").write_text(f"{(folder / 'meeting').read_text()} and {index} with {os.environ[GPUS]}")
    return ""


def lost(index: int) -> str:
    return "process 2 of the cell ended with code -9"


def wait_for_the_other(machines: Machines) -> None:
    time.sleep(60)


def fail_when_alone(machines: Machines) -> dict[str, str]:
    return {"kind": "code", "error": "the other side hung up"}


def test_work_larger_than_a_node_is_shared_by_several(engine: Engine, cluster: Cluster, tmp_path: Path):
    extra = cluster.add_node(num_cpus=1, num_gpus=1)
    cluster.wait_for_nodes()
    try:
        engine.check_capacity(3)
        told = engine.run("train", lead, tmp_path, processes=3, assist=partial(help_out, tmp_path))
        assert told == f"{extra.node_ip_address} (2, 1) and 1 with 0 by 0,1"
        for work in (wait_for_the_other, fail_when_alone):  # who waits for the other one, and who complains of it
            with pytest.raises(WorkerLost, match="process 2 of the cell ended with code -9"):
                engine.run("train", work, processes=3, assist=lost)
    finally:
        cluster.remove_node(extra)


def test_shares_are_such_as_the_nodes_have_room_for():
    assert split_over_nodes(4, [1, 2, 1]) == [2, 1, 1] and split_over_nodes(9, [8, 0, 8]) == [8, 1]
    assert split_over_nodes(16, [8, 8, 8]) == [8, 8]


@pytest.mark.parametrize("kind", ["texts", "images"])
def test_a_cell_of_two_nodes_has_the_numbers_of_one(
    kind: str, engine: Engine, home: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
):
    cell = of_images(3) if kind == "images" else make(write_sources(tmp_path_factory.mktemp("sources")), 3)
    name = cell_id(identity(cell))
    alone, failed = run(cell)
    assert failed is None
    alone = alone.rename(home / f"{kind} alone")
    extra = cluster.add_node(num_cpus=1, num_gpus=1)
    cluster.wait_for_nodes()
    try:
        assist, asked = partial(worker_calls.assist, name, ""), TrainRequest(cell, "a cell", 1000, MORE)
        assert engine.run("train", worker_calls.train, asked, name, processes=3, assist=assist) is None
    finally:
        cluster.remove_node(extra)
    for file in ("checkpoint/weights.safetensors", "embeddings.npz"):
        assert (run_folder(name) / file).read_bytes() == (alone / file).read_bytes()


def test_a_node_that_does_not_see_the_store_is_refused(engine: Engine):
    assert isinstance(engine, OnRay)
    engine.look_at_nodes()
    engine.permit.unlink()
    with pytest.raises(UserError, match="does not see .* set ABLATE_HOME to a folder that all nodes share"):
        engine.look_at_nodes()


def test_judge_runs_its_commands_on_the_cluster_each_with_a_device(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engines, "start", lambda *_: nullcontext(engine))
    meet = f"touch {tmp_path}/{{job}}; until [ -e {tmp_path}/0 -a -e {tmp_path}/1 ]; do sleep .01; done"
    command = f"{meet}; echo devices $CUDA_VISIBLE_DEVICES score: $((10 + {{seed}} % 2 {{}}))"
    on_ray = RunOptions("ray", jobs=2)
    duel = Duel(command.replace("{}", ""), command.replace("{}", "+ 90 + {seed} % 3"), "score: ([0-9]+)")
    assert decide_pair(duel, on_ray, tmp_path / "kept").verdict == "better"
    logs = [file.read_text() for file in (tmp_path / "kept").glob("*.log")]
    assert {text.split()[1] for text in logs} == {"0", "1"} and len(logs) == len(
        read_lines(tmp_path / "kept/runs.jsonl")
    )
    broken = Duel("exit {seed}9", "exit {seed}9", "(x)")
    with pytest.raises(RunFailed):
        decide_pair(broken, on_ray, tmp_path / "broken")
