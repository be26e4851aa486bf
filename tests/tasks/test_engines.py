"""Engines: real worker processes, pinned, warm, replaced when they die, and never outliving their parent."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Resources
from contrastive.errors import UserError
from contrastive.runs import plugins
from tasks import engines
from tasks.engines import Engine, EngineName, Stopped, Watch, WorkerLost, local
from tests.waiting import soon


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One slot in a home of its own, for the tests that ask nothing else of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(tmp_path_factory.mktemp("home")))
        with started("local", 1, threads=1) as shared:
            yield shared


def started(name: EngineName, slots: int | None, threads: int, share: float = 1) -> AbstractContextManager[Engine]:
    return engines.start(name, Resources(slots=slots, gpus_per_cell=share), threads)


def pid() -> int:
    return os.getpid()


def environment(name: str) -> str | None:
    return os.environ.get(name)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def slow(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


def threads_of_libraries() -> set[int]:
    import torch
    from threadpoolctl import threadpool_info

    return {torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())}


def test_workers_are_warm_and_have_their_threads():
    with started("local", 1, threads=3) as engine:
        first = engine.run("train", pid)
        assert first != os.getpid() and engine.run("evaluate", pid) == first
        assert engine.run("train", environment, "OMP_NUM_THREADS") == "3"
        assert engine.run("train", threads_of_libraries) == {3}
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def run_own_code(evaluation: Evaluation) -> int:
    plugins.load(evaluation.plugins)
    return os.getpid()


def test_a_process_that_has_run_code_of_users_does_no_work_that_does_not_use_it(tmp_path: Path):
    """It may have changed anything, such as `torch.manual_seed`, for cells whose ids do not have it."""
    (tmp_path / "mine.py").write_text("def mine(inputs):\n    return []\n\nMETRICS = {'mine': mine}\n")
    own = Evaluation().model_copy(update={"plugins": (plugins.keep(tmp_path / "mine.py"),)})
    with started("local", 1, threads=1) as engine:
        first = engine.run("train", pid)
        assert engine.run("evaluate", run_own_code, own) == engine.run("evaluate", run_own_code, own) == first
        clean = engine.run("train", pid)
        assert clean != first and engine.run("evaluate", partial(run_own_code, own)) == clean
        assert engine.run("train", pid) != clean
    with started("inline", None, threads=1) as engine, pytest.raises(UserError, match="not --engine inline"):
        engine.run("evaluate", run_own_code, own)


def test_inline_works_in_this_process():
    with started("inline", None, threads=1) as engine:
        assert engine.run("train", pid) == os.getpid()


def test_workers_see_what_their_flow_sees_now(monkeypatch: pytest.MonkeyPatch):
    """Not what it saw when the process began that all of them are forked from."""
    for said in ("once", "again"):
        monkeypatch.setenv("ABLATE_SAID", said)
        with started("local", 1, threads=1) as engine:
            assert engine.run("train", environment, "ABLATE_SAID") == said


@pytest.mark.full
def test_workers_end_with_the_process_that_they_were_forked_from_and_both_are_replaced():
    with started("local", 1, threads=1) as engine:
        first, server = engine.run("train", pid), engine.run("train", os.getppid)
        os.kill(server, signal.SIGKILL)
        with pytest.raises(WorkerLost, match="died"):
            engine.run("train", slow, 30.0)
        assert engine.run("train", os.getppid) != server
        assert not Path(f"/proc/{first}").exists()


def test_more_threads_than_cores_are_told_with_the_number_of_slots_that_fits(caplog: pytest.LogCaptureFixture):
    cores = local.count_cores()
    with started("local", cores + 1, threads=1), started("local", None, threads=2 * cores):
        many, wide = caplog.messages
        assert f"{cores + 1} cells at a time with 1 threads each will be several times slower on {cores} cores" in many
        assert f"resources.slots to {cores} " in many
        assert f"1 cells at a time with {2 * cores} threads each" in wide
    caplog.clear()
    with started("local", None, threads=1):
        assert caplog.messages == []


def test_a_container_has_the_cores_whose_time_it_is_given(tmp_path: Path):
    seen, limit = local.count_cores(tmp_path / "none"), tmp_path / "cpu.max"
    for said, cores in (("max 100000", seen), ("100000 100000", 1), ("50000 100000", 1), ("99000000 100000", seen)):
        limit.write_text(said + "\n")
        assert local.count_cores(limit) == cores


def test_a_worker_outlives_an_error_of_its_work_and_a_dead_one_is_named_and_replaced(engine: Engine):
    first = engine.run("train", pid)
    with pytest.raises(ZeroDivisionError):
        engine.run("train", divmod, 1, 0)
    assert engine.run("train", pid) == first
    with pytest.raises(WorkerLost, match="died"):
        engine.run("train", die)
    assert engine.run("train", pid) != first


def test_work_that_hangs_is_killed(engine: Engine):
    first = engine.run("train", pid)
    with pytest.raises(WorkerLost, match="no step ended for [1-9] s; the work was considered hung"):
        engine.run("train", slow, 60.0, watch=Watch(lambda: "nothing new", patience=1.0))
    assert engine.run("train", pid) != first


@pytest.mark.full
def test_work_that_goes_on_is_left_alone():
    looked: list[int] = []

    def going() -> int:
        looked.append(1)
        return len(looked)

    with started("local", 1, threads=1) as engine:
        first = engine.run("train", pid)
        waiting = Watch(lambda: None, patience=1.0)  # for a device: it has not begun, and does not hang
        assert engine.run("train", slow, 4.0, watch=waiting) == "done"
        assert engine.run("train", slow, 7.0, watch=Watch(going, patience=3.0)) == "done" and len(looked) > 2
        assert engine.run("train", pid) == first


def test_what_runs_or_waits_when_the_engine_stops_is_stopped_and_nothing_is_started_anew():
    before = multiprocessing.active_children()
    with started("local", 1, threads=1) as engine, ThreadPoolExecutor(3) as threads:
        engine.run("train", pid)
        asked = [threads.submit(engine.run, "train", slow, 60.0) for _ in range(3)]
        soon(lambda: not engine.train.slots)
        began = time.monotonic()
        engine.stop()
        for one in asked:
            with pytest.raises(Stopped):
                one.result(timeout=300)
        assert time.monotonic() - began < 45  # the work alone would take 60
    assert set(multiprocessing.active_children()) <= set(before)


def told(*arguments: str, devices: str) -> tuple[str, ...]:
    return (*arguments, devices)


def test_work_of_several_slots_waits_for_all_of_them_and_is_told_their_devices(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,7")
    with started("local", None, threads=1) as engine, ThreadPoolExecutor(4) as threads:
        ran: list[str] = []

        def run(name: str, slots: int, seconds: float) -> None:
            engine.run("train", *((told, name) if slots > 1 else (slow, seconds)), processes=slots)
            ran.append(name)

        long = threads.submit(run, "long", 1, 3.0)
        soon(lambda: len(engine.train.slots) == 1)
        both = threads.submit(run, "both", 2, 0.0)
        soon(lambda: engine.train.changed._waiters or both.done())
        later = threads.submit(run, "later", 1, 0.1)  # a slot is free, and it waits: nobody starves who needs two
        for future in (long, both, later):
            future.result(timeout=300)
        assert ran == ["long", "both", "later"]
        assert engine.run("train", told, "x", processes=2) in (("x", "3,7"), ("x", "7,3"))
        with pytest.raises(UserError, match="a cell of 3 processes needs 3 devices .* but there are 2"):
            engine.check_capacity(3)
    with started("local", 4, threads=1) as engine:  # two slots on each of the two
        assert engine.run("train", told, "x", processes=2) in (("x", "3,7"), ("x", "7,3"))
        with pytest.raises(UserError, match="a cell of 3 processes needs 3 devices .* but there are 2"):
            engine.check_capacity(3)


def test_gpus_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert local.gpus() == ["2", "5"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert local.gpus() == []


ENDED_EARLY = """
import signal, sys, threading
from tasks.engines.local import Slot

def main():
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    slot = Slot({})
    threading.Timer(0.5, signal.raise_signal, [signal.SIGTERM]).start()
    try:
        slot.run(int)
    finally:
        slot.close()

if __name__ == "__main__":
    main()
"""


@pytest.mark.full
def test_a_worker_that_is_born_after_its_flow_has_ended_says_nothing(tmp_path: Path):
    """The flow is asked to end while workers import: what is to fork them does so only then."""
    script = tmp_path / "flow.py"
    script.write_text(ENDED_EARLY)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 143 and "Traceback" not in done.stderr
