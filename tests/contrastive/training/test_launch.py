"""A cell of several processes: the numbers of one, the files of one, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from contrastive.config.cell import Training
from contrastive.runs import store
from contrastive.training import launch
from contrastive.training.launch import Machines
from tests.contrastive.training.launched import make, of_images, run, write_sources
from tests.contrastive.training.trained import curve, folder_of

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return write_sources(tmp_path_factory.mktemp("sources"))


def wait(until: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not until() and time.monotonic() < deadline:
        time.sleep(0.01)


def has_ended(jobs: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) for pid in jobs)


@pytest.mark.parametrize("kind", ["texts", "images"])
def test_two_processes_train_as_one(kind: str, sources: tuple[str, str]):
    slowly = {"head_lr": 1e-4, "encoder_lr": 1e-5}  # else Adam makes much of the last bits
    pair = [make(sources, n, slowly) if kind == "texts" else of_images(n, slowly) for n in (1, 2)]
    (alone, failed), (together, also) = map(run, pair)
    assert failed is None and also is None
    names = ("loss", "gradient_norm")
    np.testing.assert_allclose(curve(together, *names), curve(alone, *names), rtol=1e-4, atol=1e-6)
    assert all(store.read_json(each / "provenance.json")["training_cpu_seconds"] for each in (alone, together))
    assert {p.name for p in together.rglob("*")} == {p.name for p in alone.rglob("*")}
    with np.load(alone / "embeddings.npz") as one, np.load(together / "embeddings.npz") as two:
        np.testing.assert_allclose(two["test"], one["test"], atol=1e-3)


@pytest.mark.full
def test_a_killed_process_ends_the_others_and_the_next_attempt_goes_on(sources: tuple[str, str], home: Path):
    undisturbed = curve(run(make(sources, 2, training={"epochs": 4}))[0], "loss")
    cell = make(sources, 2, training={"epochs": 4}).model_copy(update={"seed": 1})
    with ThreadPoolExecutor(1) as other:
        training = other.submit(run, cell, checkpoint_every=2)
        wait(lambda: list(folder_of(cell).glob("attempts/*/resume/state.pt")), 60)
        jobs = processes(home)
        os.kill(max(jobs), signal.SIGKILL)
    folder, report = training.result()
    assert report["kind"] == "infrastructure" and "ended with code -9" in report["error"]
    assert has_ended(jobs) and run(cell, checkpoint_every=2)[1] is None
    assert len(curve(folder, "loss")) == len(undisturbed)


@pytest.mark.full
def test_what_forks_has_neither_threads_nor_a_device_nor_what_no_training_needs():
    threads = (
        "import os, sys, contrastive.training.preloaded\n"
        "print(len(os.listdir('/proc/self/task')), *({'sklearn', 'pandas', 'deepspeed', 'mlflow'} & {*sys.modules}))\n"
        "print(*({'transformers.models.bert.modeling_bert', 'contrastive.training.train', 'peft'} - {*sys.modules}))\n"
    )
    devices = (
        "import torch\n"
        "def never(*_): raise AssertionError('a device is asked for')\n"
        "torch.cuda.is_available = torch.cuda.device_count = torch.cuda._lazy_init = never\n"
        "import contrastive.training.preloaded\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    asked = {"capture_output": True, "text": True, "timeout": 120, "env": environment}
    assert subprocess.run([sys.executable, "-c", devices], **asked).returncode == 0
    done = subprocess.run([sys.executable, "-c", threads], **asked)
    assert done.stdout == "1\n\n", done.stderr[-1000:]


@pytest.mark.full
def test_nothing_outlives_the_process_that_began_it(sources: tuple[str, str], tmp_path: Path):
    cell = make(sources, 2, training={"epochs": 200})
    (tmp_path / "cell.json").write_text(cell.model_dump_json())
    script = (
        "import sys; from pathlib import Path; from contrastive.config.cell import Cell\n"
        "from tests.contrastive.training.launched import run\n"
        "run(Cell.model_validate_json(Path(sys.argv[1]).read_text()))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "cell.json")])
    wait(lambda: list(tmp_path.glob("runs/*/attempts/*/metrics.jsonl")), 60)
    jobs = processes(tmp_path)
    assert len(jobs) == 2
    parent.kill()
    parent.wait()
    wait(lambda: has_ended(jobs))
    assert has_ended(jobs)


def processes(home: Path) -> list[int]:
    """The processes of jobs that run now in this home, which say there what goes wrong."""
    found = []
    for path in Path("/proc").glob("[0-9]*/fd/2"):
        with suppress(OSError):
            if path.readlink().is_relative_to(home):
                found.append(int(path.parts[2]))
    return found


@pytest.mark.full
def test_processes_of_two_machines_meet_at_an_address(sources: tuple[str, str], home: Path):
    """One of them leads and the other assists, a process each, beside one launch of two."""
    cell = make(sources, 2)
    folder, failed = run(cell)
    assert failed is None
    apart = home / "apart" / "attempts" / "0002"
    apart.mkdir(parents=True)
    (apart / "config.json").write_bytes((folder / "config.json").read_bytes())
    two = Machines("127.0.0.1", (1, 1))
    with ThreadPoolExecutor(1) as other:
        lost = other.submit(launch.join_remote_cell, home / "apart", "0001", 1)
        trained = launch.launch(apart, 1000, cell.training, "", two)
        assert trained == store.read_json(folder / "provenance.json")["trained_parameters"] > 0
        assert lost.result(timeout=300) == ""
    for name in ("checkpoint/weights.safetensors", "embeddings.npz"):
        assert (apart / name).read_bytes() == (folder / name).read_bytes()
    assert {path.name for path in apart.iterdir()} == {
        "checkpoint", "config.json", "embeddings.npz", "metrics.jsonl", "predictions.npz", "resume"
    }  # fmt: skip


def test_only_a_meeting_on_this_machine_keeps_to_loopback():
    for meeting in ("/a/file", "tcp://127.0.0.1:5"):
        assert launch.process_environment(Training(), "", meeting, 1).items() >= launch.LOOPBACK.items()
    far = launch.process_environment(Training(), "", "tcp://node-3:29500", 1)
    assert (far["MASTER_ADDR"], far["MASTER_PORT"]) == ("node-3", "29500") and "GLOO_SOCKET_IFNAME" not in far
