"""`ablate run --engine slurm` on a real Slurm: whatever happens to jobs, workers and the controller, the scores are
those of an undisturbed run."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from contrastive.runs import store
from flows.serve.servers import any_free_port
from tests.e2e.conftest import ABLATE, kept
from tests.e2e.test_workers import LONG, scores, start
from tests.slurm import Slurm, why_not
from tests.waiting import soon

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

    def jobs(self) -> list[str]:
        return self.slurm.ask("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%i").split()


@pytest.fixture
def grid(tmp_path: Path, slurm: Slurm, prefect_home: Path, server: str) -> Grid:
    return Grid(tmp_path, slurm, {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": server})


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


def nothing(grid: Grid) -> None:
    pass


@pytest.mark.parametrize("harm", [nothing, cancel_a_job, kill_a_worker, lose_the_controller])
def test_the_scores_are_those_of_an_undisturbed_run(
    harm: Callable[[Grid], None], grid: Grid, undisturbed: dict[str, object]
):
    process = grid.run()
    soon(grid.trains, 120, while_runs=process)
    harm(grid)
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0, said
    assert scores(grid.home) == undisturbed and "report: " in said


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
