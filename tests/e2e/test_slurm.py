"""`ablate run --engine slurm` on a real Slurm: whatever happens to jobs, workers and the controller, the scores are
those of an undisturbed run."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import psutil
import pytest

from contrastive.runs import claim, store
from flows.serve.servers import any_free_port
from tests.e2e.conftest import ABLATE, kept
from tests.e2e.test_workers import LONG, outcomes, scores, start
from tests.slurm import Slurm, why_not
from tests.waiting import gone_within, soon

pytestmark = [pytest.mark.full, pytest.mark.skipif(bool(why_not()), reason=why_not())]
JOBS = """resources:
  checkpoint_every: 20
  slots: 1
  slurm: {workers: 2, time: "5", lines: ["export OMP_NUM_THREADS=1"]}
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    ports = any_free_port(), any_free_port(), any_free_port()
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # munge's socket must be open to all, which pytest's folders are not
        cluster = Slurm(Path(folder), ports)
        yield cluster
        cluster.stop()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "long.yaml").write_text(LONG + JOBS)
    worker = start(place, place / "long.yaml")
    said = worker.communicate(timeout=150)[0]
    assert worker.returncode == 0, said
    return scores(place)


class Grid:
    """An experiment in a home of its own, run by Slurm."""

    def __init__(self, folder: Path, slurm: Slurm, settings: dict[str, str]):
        self.file, self.home, self.slurm = folder / "long.yaml", folder / "shared", slurm
        self.environment = kept(settings | slurm.environment | {"ABLATE_HOME": str(self.home)})
        self.file.write_text(LONG + JOBS)

    def run(self, *options: str) -> subprocess.Popen[str]:
        command = [ABLATE, "run", str(self.file), "--engine", "slurm", *options]
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def trains(self) -> list[Path]:
        """Return the logs of the trainings that have begun well."""
        logs = self.home.glob("runs/*/attempts/*/metrics.jsonl")
        return [log for log in logs if log.stat().st_size > 3000]

    def held(self) -> list[psutil.Process]:
        """Suspend the trainings that have begun well, so that none ends before it is harmed; return their processes."""
        pids = [store.read_json(log.parent / "attempt.json")["pid"] for log in self.trains()]
        processes = [psutil.Process(pid) for pid in pids]
        for process in processes:
            process.suspend()
        return processes

    def jobs(self) -> list[str]:
        return sorted(self.slurm.ask("squeue", "-h", "-r", "-t", "RUNNING", "-p", "p", "-o", "%i").split())

    def restarts(self, job: str) -> int:
        """Return how often Slurm has requeued a job."""
        (count,) = re.findall(r"Restarts=(\d+)", self.slurm.ask("scontrol", "show", "job", job))
        return int(count)

    def outcomes(self) -> list[list[str]]:
        """Return how the trainings of each cell ended."""
        return sorted(outcomes(run) for run in (self.home / "runs").iterdir())


@pytest.fixture
def grid(tmp_path: Path, slurm: Slurm, prefect_home: Path, server: str) -> Iterator[Grid]:
    yield Grid(tmp_path, slurm, {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": server})
    slurm.ask("scancel", "--user=root")  # such as a job that was requeued and has found nothing to do


def cancel_a_job(grid: Grid) -> None:
    grid.slurm.ask("scancel", grid.jobs()[0])


def kill_a_worker(grid: Grid) -> None:
    attempt = store.read_json(grid.trains()[0].parent / "attempt.json")
    os.kill(attempt["pid"], signal.SIGKILL)


def lose_the_controller(grid: Grid) -> None:
    """It is killed and forgets all jobs."""
    grid.slurm.kill("controller")
    shutil.rmtree(grid.slurm.folder / "state")
    (grid.slurm.folder / "state").mkdir()
    grid.slurm.start("controller", "slurmctld", "-D")
    soon(lambda: grid.slurm.ask("sinfo", "-h", "-o", "%T %D") != "")


def preempt(grid: Grid) -> None:
    """A job of a partition that goes first takes both nodes, and Slurm requeues all others."""
    options = ["--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true"]
    assert "Submitted" in grid.slurm.ask("sbatch", *options)
    soon(lambda: not grid.jobs())


def end_the_time_of_a_job(grid: Grid) -> None:
    """The last job of an array, whose number is that of the array, gets the signal of its wall time; it requeues itself
    and no other one."""
    grid.slurm.ask("scancel", "--batch", "--signal=USR1", grid.jobs()[-1])


def lose_a_node(grid: Grid) -> None:
    """All processes of a node are killed; it comes back once its jobs run elsewhere."""
    jobs = grid.jobs()
    node = grid.slurm.ask("squeue", "-h", "-j", jobs[0], "-o", "%N")
    grid.slurm.kill(node)
    of_jobs = [process for process in psutil.process_iter() if runs_on(process, node, grid.slurm)]
    steps = [process.parent() for process in of_jobs]
    killed = {*of_jobs, *(step for step in steps if step is not None and step.name() == "slurmstepd")}
    for process in killed:
        process.kill()
    assert len(killed) > len(of_jobs) and gone_within(30, killed)
    soon(lambda: grid.slurm.ask("squeue", "-h", "-r", "-t", "RUNNING", "-w", node, "-o", "%i") == "" and grid.jobs())
    grid.slurm.start(node, "slurmd", "-D", "-N", node)
    soon(lambda: "down" not in grid.slurm.ask("sinfo", "-h", "-o", "%T"))


def runs_on(process: psutil.Process, node: str, slurm: Slurm) -> bool:
    """Return whether a process belongs to a job on a node."""
    try:
        return (slurm.environment | {"SLURMD_NODENAME": node}).items() <= process.environ().items()
    except psutil.Error:  # it has ended
        return False


def nothing(grid: Grid) -> None:
    pass


STOPPED, LOST = ["Stopped", "done"], ["lost", "done"]


@pytest.mark.parametrize(
    ("harm", "ends", "restarts"),
    [
        (nothing, [["done"], ["done"]], [0, 0]),
        (cancel_a_job, [STOPPED, ["done"]], [0, 0]),
        (kill_a_worker, [["done"], ["the wor", "done"]], [0, 0]),  # "the worker process died"
        (preempt, [STOPPED, STOPPED], [1, 1]),
        (end_the_time_of_a_job, [STOPPED, ["done"]], [0, 1]),
        (lose_a_node, [LOST, LOST], [1, 1]),
        (lose_the_controller, None, None),
    ],
)
def test_the_scores_are_those_of_an_undisturbed_run(
    harm: Callable[[Grid], None],
    ends: list[list[str]] | None,
    restarts: list[int] | None,
    grid: Grid,
    undisturbed: dict[str, object],
):
    process = grid.run()
    trainings = soon(lambda: len(held := grid.held()) == 2 and held, 120, while_runs=process)
    jobs = grid.jobs()
    harm(grid)
    resume(trainings)
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0, said
    assert scores(grid.home) == undisturbed and "report: " in said
    assert [each.count("done") for each in grid.outcomes()] == [1, 1]
    if ends is not None:
        assert (grid.outcomes(), [grid.restarts(job) for job in jobs]) == (ends, restarts), said


def test_near_its_wall_time_a_job_writes_a_checkpoint_and_requeues_itself(grid: Grid, undisturbed: dict[str, object]):
    grid.file.write_text(LONG + JOBS.replace('time: "5"', 'time: "0:04:00"'))  # the signal comes after two minutes
    process = grid.run()
    trainings = soon(lambda: len(held := grid.held()) == 2 and held, 240, while_runs=process)
    jobs = grid.jobs()
    soon(lambda: len([*grid.home.glob("permits/*.preempted")]) == 2, while_runs=process)  # both have got the signal
    resume(trainings)
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0 and scores(grid.home) == undisturbed, said
    assert grid.outcomes() == [STOPPED, STOPPED] and [grid.restarts(job) for job in jobs] == [1, 1]


def test_a_job_too_short_for_any_cell_ends_and_is_not_requeued(grid: Grid):
    lines = '"#SBATCH --signal=B:USR1@1", '  # not at once, when it would end the shell
    grid.file.write_text(LONG + JOBS.replace('time: "5"', 'time: "0:02:00"').replace("lines: [", f"lines: [{lines}"))
    said = grid.run("--detach").communicate(timeout=60)[0]
    assert "Submitted batch job" in said, said
    logs = grid.home / "workers" / "long"
    soon(lambda: len([log for log in logs.glob("slurm-*") if "2 cells are left" in log.read_text()]) == 2, 120)
    soon(lambda: not grid.slurm.ask("squeue", "-h"), 60)
    assert not [*grid.home.glob("runs/*/attempts")]


def resume(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def test_a_submitting_process_may_go(grid: Grid, undisturbed: dict[str, object]):
    process = grid.run("--detach")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and "Submitted batch job" in said, said
    soon(lambda: scores(grid.home) == undisturbed, 150)
    process = grid.run()
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 0 and "report: " in said and scores(grid.home) == undisturbed, said
    grid.file.write_text(grid.file.read_text().replace("[accuracy]", "[accuracy, macro_f1]"))  # finished cells, again
    process = grid.run()
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 0 and "done" in said, said
    assert all("test.macro_f1" in str(each) for each in scores(grid.home).values())


def test_what_slurm_refuses_is_said(grid: Grid):
    grid.file.write_text(grid.file.read_text().replace("slurm: {", "slurm: {partition: nowhere, "))
    process = grid.run()
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 2 and "invalid partition specified" in said, said


def test_what_cannot_be_trained_is_tried_once_over_all_jobs(grid: Grid):
    vectors = grid.file.with_name("vectors.parquet")
    pd.DataFrame({"text": ["no training text"], "embedding": [[1.0, 0.0]]}).to_parquet(vectors)
    rows = f"rows: {{guided: {{loss: distil_cos, guide: 'file:{vectors}'}}}}"
    grid.file.write_text(grid.file.read_text().replace("rows: {ce: {}}", rows))
    process = grid.run()
    said = process.communicate(timeout=150)[0]
    assert process.returncode == 1 and "lacks" in said and "training texts" in said, said
    for run in (grid.home / "runs").iterdir():
        assert [(each["stage"], each["kind"]) for each in claim.attempts(run)] == [("train", "settings")]
    assert not grid.slurm.ask("squeue", "-h")


def test_ctrl_c_cancels_the_jobs_which_write_checkpoints(grid: Grid, undisturbed: dict[str, object]):
    process = grid.run()
    soon(grid.trains, 120, while_runs=process)
    process.send_signal(signal.SIGINT)
    assert "stopped" in process.communicate(timeout=90)[0]
    soon(lambda: not grid.slurm.ask("squeue", "-h"), 60)
    assert [*grid.home.glob("runs/*/attempts/*/resume/state.pt")]
    process = grid.run()
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0 and scores(grid.home) == undisturbed, said
