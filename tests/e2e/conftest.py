"""A real run of a small grid by the command line, shared by the tests of this folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ABLATE = str(Path(sys.executable).parent / "ablate")
SMOKE = Path(__file__).parent / "smoke.yaml"
Ablate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="session")
def ablate_in(prefect_home: Path) -> Ablate:
    """Runs `ablate` with a home; whatever happens, nobody sees a traceback."""

    def call(home: Path, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        dropped = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "QUICKSTART", "PYTEST_ARGS")
        environment = {name: value for name, value in os.environ.items() if name not in dropped}
        environment |= {"ABLATE_HOME": str(home), "PREFECT_HOME": str(prefect_home)}
        done = subprocess.run(
            [ABLATE, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300, **options
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, ablate_in: Ablate) -> Path:
    home = tmp_path_factory.mktemp("finished")
    done = ablate_in(home, "run", SMOKE)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished home. MLflow's artifacts are named by their place, so that of the original is read."""
    copy = tmp_path / "home"
    shutil.copytree(finished, copy, copy_function=shutil.copy2)
    return copy
