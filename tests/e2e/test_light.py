"""The wheel in an environment with what it needs for verdicts alone, without the extra `train`."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from contrastive.config.registry import PACKAGE_ROOT
from tests.e2e.conftest import install_wheel, kept

SHIPPED = PACKAGE_ROOT / "configs" / "quickstart.yaml"
PAIR = ("--baseline", "echo loss: 1.{seed}2", "--candidate", "echo loss: 0.{seed}1")
PAIR += ("--metric", "loss: (.*)", "--lower")


def needs(asked: Distribution, extras: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the names and extras that a distribution requires here."""
    for requirement in map(Requirement, asked.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            yield requirement.name, frozenset(requirement.extras)


def link_needs(asked: Distribution, extras: frozenset[str], site: Path) -> None:
    """Link everything that a distribution requires from this environment into another one."""
    for name, more in needs(asked, extras):
        found = distribution(name)
        tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
        new = [top for top in tops if not (site / top).exists()]
        for top in new:
            (site / top).symlink_to(found.locate_file(top))
        if new:
            link_needs(found, more, site)


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel and its dependencies, without extras."""
    programs, site = install_wheel(tmp_path_factory.mktemp("light"))
    (own,) = site.glob("ablate_contrastive-*.dist-info")
    link_needs(Distribution.at(own), frozenset(), site)
    return programs


@pytest.fixture
def ablate(light: Path, tmp_path: Path):
    def run(*arguments: object) -> tuple[int, str]:
        command = [light / "ablate", *map(str, arguments)]
        environment = kept({"ABLATE_HOME": str(tmp_path / "home"), "PYTHONPATH": ""})
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


def test_help_and_import(ablate, light: Path):
    code, said = ablate("--help")
    assert code == 0 and "judge" in said
    subprocess.run([light / "python", "-c", "import ablate; ablate.judge"], check=True)


def test_a_table_is_reported_as_with_the_extra(ablate, tmp_path: Path):
    lines = [
        f"{row},{seed},{0.8 + index * (0.01 + 0.001 * seed)}" for index, row in enumerate("ab") for seed in range(3)
    ]
    (tmp_path / "small.csv").write_text("\n".join(["recipe,seed,accuracy", *lines]))
    words = "report", "--from", "small.csv", "--baseline", "a"
    code, said = ablate(*words)
    assert code == 0 and "Use b: " in said, said
    everything = kept({"ABLATE_HOME": str(tmp_path / "other"), "PYTHONPATH": str(PACKAGE_ROOT)})
    full = [sys.executable, "-c", "from flows.cli import main; main()", *words]
    subprocess.run(full, cwd=tmp_path, env=everything, check=True, capture_output=True)
    ours, theirs = (
        {path.name: path for path in tmp_path.glob(f"{home}/reports/tables/*/*")} for home in ("home", "other")
    )
    assert theirs.keys() == ours.keys()
    for name, path in ours.items():
        if path.is_file():
            assert path.read_bytes() == theirs[name].read_bytes(), name


def test_two_commands_are_judged(ablate, tmp_path: Path):
    code, said = ablate("judge", *PAIR, "--max-runs", "8", "--gate", "verdict.md")
    assert code in (0, 2) and "candidate, seed 1: 0.11" in said, said
    assert (tmp_path / "verdict.md").read_text(encoding="utf-8").startswith("**")


@pytest.mark.full
def test_a_ledger_judges_a_proposal_and_is_shown(ablate):
    code, said = ablate("judge", "ledger", "ledger", *PAIR)
    assert code in (0, 1), said
    code, said = ablate("judge", "ledger", "ledger")
    assert code == 0 and "1 proposals" in said, said


@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        (("run", SHIPPED), "torch"),
        (("up",), "torch"),
        (("report", SHIPPED), r"\w+"),
        (("report", "--from", "mlflow:mine"), "mlflow"),
    ],
)
def test_a_command_that_lacks_packages_names_the_extra(ablate, words: tuple[object, ...], lacks: str):
    code, said = ablate(*words)
    sentence = rf"ablate: this command needs packages that are not installed \(no {lacks}\): "
    advice = r"`pip install '\.\[train\]' -c constraints\.txt` in the checkout"
    assert code == 2 and re.search(rf"^{sentence}{advice}$", said, re.MULTILINE), said


@pytest.mark.full
def test_a_parquet_file_asks_for_pyarrow(ablate, tmp_path: Path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    code, said = ablate("report", "--from", "t.parquet")
    assert code == 2 and "t.parquet: Parquet files need pyarrow; install it, or save the table as CSV" in said, said
