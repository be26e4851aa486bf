"""Checks of the project itself: types at run time, versions, links and pages, length of files and functions.

Also that files which are read cannot run code: no pickle, no remote code.
"""

import ast
import io
import os
import pickle
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement

from contrastive.config.evaluation import Evaluation
from contrastive.evaluation import evaluate
from contrastive.grid.identity import cell_id
from contrastive.losses.supcon import supcon
from contrastive.training import checkpoint
from tests import changed
from tests.conftest import WITHOUT_SHAPES

CHECKOUT = Path(__file__).parents[1]
PRODUCT = ("ablate", "contrastive", "flows", "reports", "tasks")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))


def product_files() -> Iterator[Path]:
    return (path for package in PRODUCT for path in sorted((CHECKOUT / package).rglob("*.py")))


def test_a_wrong_shape_or_type_is_an_error():
    with pytest.raises(Exception, match="Type-check error"):
        supcon(torch.zeros(2, 3), labels=torch.zeros(2), temperature=0.1)  # no axis for views
    with pytest.raises(TypeError, match="violates type hint"):
        cell_id("no identity")  # in a package without shapes


def test_the_types_of_every_package_are_checked(pytestconfig: pytest.Config):
    """Shapes are checked, too, in every module that has some in its signatures."""
    modules = {module_name(path): path for path in (CHECKOUT / "contrastive").rglob("*/*.py")}
    with_shapes = tuple(pytestconfig.getoption("jaxtyping_packages").split(",")[:-1])
    without = tuple(f"contrastive.{package}" for package in WITHOUT_SHAPES)
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
    nested = f"{PROJECT['project']['name']}["  # an extra that includes another extra
    lines = [line for line in (*PROJECT["project"]["dependencies"], *extras) if not line.startswith(nested)]
    for requirement in map(Requirement, lines):
        assert requirement.specifier.contains(tested[requirement.name.lower().replace("_", "-")]), str(requirement)


def test_one_file_imports_torch_distributed():
    sources = (CHECKOUT / "contrastive").rglob("*.py")
    assert [path.name for path in sources if "torch.distributed" in path.read_text(encoding="utf-8")] == ["gather.py"]


def test_no_flow_hides_a_module_of_python():
    """Prefect runs flows by their path, and Python then looks for modules in the flow's folder first."""
    assert not {path.stem for path in (CHECKOUT / "flows").rglob("*.py")} & set(sys.stdlib_module_names)


class Runs:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_that_would_run_code_is_ignored(tmp_path: Path):
    pickle.loads(pickle.dumps(Runs(tmp_path / "it would run")))
    assert (tmp_path / "it would run").exists()
    (tmp_path / "resume").mkdir()
    torch.save({"step": 3, "model": Runs(tmp_path / "ran")}, tmp_path / "resume" / "state.pt")
    assert checkpoint.load_checkpoint(tmp_path, first_process=False) is None and not (tmp_path / "ran").exists()


def test_arrays_that_would_run_code_are_refused(tmp_path: Path):
    array = np.empty(1, dtype=object)
    array[0] = Runs(tmp_path / "ran")
    content = io.BytesIO()
    np.savez(content, **dict.fromkeys(("test", "test.labels", "test.ids"), array))
    for name in ("embeddings.npz", "predictions.npz"):
        (tmp_path / name).write_bytes(content.getvalue())
    with pytest.raises(ValueError, match="allow_pickle"):
        evaluate.evaluate_folder(tmp_path, Evaluation(), into=tmp_path)
    assert not (tmp_path / "ran").exists()


def calls() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the position, the function and the constant keyword arguments of every call in the product."""
    for path in product_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                keywords = {k.arg: k.value.value for k in node.keywords if k.arg and isinstance(k.value, ast.Constant)}
                yield f"{path.relative_to(CHECKOUT)}:{node.lineno}", ast.unparse(node.func), keywords


def test_every_loader_refuses_to_run_code():
    found = list(calls())
    pretrained = [(where, name, keywords) for where, name, keywords in found if name.endswith(".from_pretrained")]
    assert len(pretrained) >= 4
    for where, name, keywords in pretrained:
        assert keywords.get("trust_remote_code") is False and keywords.get("local_files_only") is True, where
        assert keywords.get("use_safetensors") is True or name.startswith(("AutoConfig", "AutoTokenizer")), where
    for where, name, keywords in found:
        assert name != "torch.load" or keywords.get("weights_only") is True, where
        assert "allow_pickle" not in keywords, where
        assert name.rpartition(".")[0] not in ("pickle", "cloudpickle", "dill", "joblib"), where
        assert name not in ("eval", "exec", "os.system"), where


def test_a_change_selects_the_tests_that_it_can_reach_and_no_others():
    """Through imports, through `READERS`, or through the folder of a program that nothing imports."""
    reached = changed.reached_tests(["contrastive/losses/supcon.py"])
    assert "tests/contrastive/losses/test_oracles.py" in reached and "tests/flows/test_work_pools.py" not in reached
    assert "tests/test_project.py" in changed.reached_tests(["docs/log.md"])
    assert "tests/ablate/test_tables.py" in changed.reached_tests(["reports/statistics/decide.py"])
    assert "tests/contrastive/grid/test_estimate.py" in changed.reached_tests(["contrastive/grid/identity.py"])
    tests = [str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "tests").rglob("test_*.py")]
    readers = {reader for readers in changed.READERS.values() for reader in readers}
    assert not [reader for reader in readers if not any(test.startswith(reader) for test in tests)]
    assert not [path for path in changed.READERS if not (CHECKOUT / path).exists()]


LONGEST_FILE, LONGEST_FUNCTION = 600, 60


def test_files_and_functions_are_short():
    too_long = []
    for path in product_files():
        text = path.read_text(encoding="utf-8")
        functions = [
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
        too_long += [f"{path}: {name}" for name, lines in lengths.items() if lines > LONGEST_FUNCTION]
        too_long += [str(path)] if len(text.splitlines()) > LONGEST_FILE else []
    assert not too_long


PAGES = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("#"):
            yield target.partition("#")[0]


def test_every_link_leads_to_a_file():
    assert not [(page, to) for page in PAGES for to in links(page) if not (page.parent / to).exists()]


def test_the_index_names_every_page():
    index = CHECKOUT / "docs" / "README.md"
    named = {(index.parent / target).resolve() for target in links(index)}
    assert {page.resolve() for page in (CHECKOUT / "docs").rglob("*.md") if page != index} <= named


def test_code_names_only_pages_that_exist():
    assert not [
        (path.name, page)
        for path in product_files()
        for page in re.findall(r"docs/[a-z/]+\.md", path.read_text(encoding="utf-8"))
        if not (CHECKOUT / page).exists()
    ]
