"""What pyproject.toml, constraints.txt and the checks say about each other."""

import sys
import tomllib
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from contrastive.cells.identity import cell_id
from contrastive.losses.supcon import supcon
from tests.conftest import WITHOUT_SHAPES

CHECKOUT = Path(__file__).parents[1]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))


def test_a_wrong_shape_or_type_is_an_error():
    with pytest.raises(Exception, match="Type-check error"):
        supcon(torch.zeros(2, 3), labels=torch.zeros(2), temperature=0.1)  # no axis for views
    with pytest.raises(TypeError, match="violates type hint"):
        cell_id("no identity")  # in a room without shapes


def test_the_types_of_every_room_are_checked(pytestconfig: pytest.Config):
    """And shapes, too, wherever a signature has one."""
    modules = {module_name(path): path for path in (CHECKOUT / "contrastive").rglob("*/*.py")}
    with_shapes = tuple(pytestconfig.getoption("jaxtyping_packages").split(",")[:-1])
    without = tuple(f"contrastive.{room}" for room in WITHOUT_SHAPES)
    assert not [name for name in modules if not name.startswith(with_shapes + without)]
    assert not [name for name, path in modules.items() if has_shapes(path) and not name.startswith(with_shapes)]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)


def has_shapes(path: Path) -> bool:
    return "from jaxtyping import" in path.read_text(encoding="utf-8")


def test_the_tested_versions_are_within_the_ranges():
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    tested = {pin.name.lower().replace("_", "-"): str(pin.specifier).removeprefix("==") for pin in pins}
    extras = [line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra]
    own = f"{PROJECT['project']['name']}["  # one extra holds another
    wanted = [line for line in (*PROJECT["project"]["dependencies"], *extras) if not line.startswith(own)]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(tested[requirement.name.lower().replace("_", "-")]), str(requirement)


def test_processes_are_known_to_one_file():
    sources = (CHECKOUT / "contrastive").rglob("*.py")
    assert [path.name for path in sources if "torch.distributed" in path.read_text(encoding="utf-8")] == ["gather.py"]


def test_no_flow_hides_a_module_of_python():
    """The folder of a file that is run by its path, as Prefect runs flows, comes before everything else on the path."""
    assert not {path.stem for path in (CHECKOUT / "flows").rglob("*.py")} & set(sys.stdlib_module_names)
