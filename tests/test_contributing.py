"""CONTRIBUTING.md is true: its extensions, added to a copy of the project as it says, work and pass their own tests."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
BLOCK = re.compile(r"^`([\w/.]+\.py)`[^\n]*\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

BLOCKS = BLOCK.findall((CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8"))

ORACLES = Path("tests/contrastive/losses/oracles.py")
# What every loss and every view is tested by, with what that is made of.
MEET = [ORACLES, *(ORACLES.with_name(name) for name in ("draws.py", "test_oracles.py"))]
VIEWS = Path("tests/contrastive/views")
MEET += [VIEWS / name for name in ("conftest.py", "test_contract.py", "toy_translation.py")]

USES_THEM = """
from contrastive.config.evaluation import Evaluation
Evaluation(metrics=("mean_cosine",))
from contrastive.data import DATASETS
assert "play-lines" in DATASETS
"""

# A view with two passes is priced, shared, split and refused by what its own file says.
USES_THE_VIEW = """
from pydantic import ValidationError
from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.objective import Objective
from contrastive.models import model
from contrastive.grid import deepspeed_file, estimate, frozen_readers

def cell(**objective):
    encoder = Encoder(model="scratch:bert", tune={"last_blocks": 1})
    data = Data(source="package:play-lines", test=10)
    return Cell(data=data, encoder=encoder, objective=Objective(**objective), training=Training(), seed=0).canonical()

def refusal(**objective):
    try:
        Objective(**objective)
    except ValidationError as error:
        return str(error)

new, old = cell(loss="ce+alignment", view="first_last"), cell(loss="ce+alignment", view="cls")
assert estimate.encoder_passes(new) == (2, 0)
assert estimate.training_work(new, 1000, 10) == 2 * estimate.training_work(old, 1000, 10)
assert frozen_readers.separable_blocks(old) == 1 and frozen_readers.separable_blocks(new) == 0
assert deepspeed_file.sharding_conflict(new.objective, Training(sharding="fsdp")) == ""
assert "compares 4 views of a text: take span, not first_last" in refusal(loss="declutr", view="first_last")
assert "compares 2 predictions" in refusal(loss="rdrop", view="first_last")
assert "first_last, " in refusal(loss="simcse", view="cls")
assert refusal(loss="simcse", view="first_last") is None
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the extensions of the guide."""
    copy = tmp_path_factory.mktemp("project")
    shutil.copytree(CHECKOUT / "contrastive", copy / "contrastive")
    shutil.copy(CHECKOUT / "pyproject.toml", copy)
    for name in MEET:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, copy / name)
    for path, code in BLOCKS:
        target = copy / path
        if code.startswith(" "):
            add_line(target, code, ".".join(Path(path).parent.parts))
        elif path == str(ORACLES):
            add_function(target, code)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(code, encoding="utf-8")
    return copy


def run(copy: Path, *command: str) -> None:
    environment = {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
def test_the_extensions_pass_their_tests_and_the_contracts(copied: Path):
    assert len(BLOCKS) == 14
    new = "alignment or first_last or not (test_it_is_its_oracle or test_contract)"
    run(copied, "-m", "pytest", "-q", "tests", "-k", new)
    run(copied, "-c", USES_THEM)


def test_a_view_with_two_passes_is_priced_shared_split_and_refused(copied: Path):
    run(copied, "-c", USES_THE_VIEW)


def test_an_extension_touches_its_file_and_one_line(copied: Path):
    """Two files a kind of extension, and of those that were there the registries alone."""
    files = [path.relative_to(copied) for path in (copied / "contrastive").rglob("*.py")]
    there = {path for path in files if (CHECKOUT / path).exists()}
    changed = {path for path in there if (CHECKOUT / path).read_bytes() != (copied / path).read_bytes()}
    kinds = ("data", "evaluation/metrics", "losses", "views")
    assert changed == {Path("contrastive", kind, "__init__.py") for kind in kinds}
    assert len(set(files) - there) == len(kinds)


def add_line(registry: Path, line: str, package: str) -> None:
    """Put its line into the registry's dict, and import the function where it is not there, as a person would."""
    name = re.search(r"(\w+)\)?,$", line.rstrip())[1]
    text = registry.read_text(encoding="utf-8")
    extended = re.sub(
        r"^((?:LOSSES|VIEWS|METRICS|DATASETS|ORACLES)\b.*=.*\{)", rf"\1{line}", text, count=1, flags=re.MULTILINE
    )
    assert extended != text
    if f"def {name}(" not in text:
        extended = extended.replace("\nfrom ", f"\nfrom {package}.{name} import {name}\nfrom ", 1)
    registry.write_text(extended, encoding="utf-8")


def add_function(module: Path, code: str) -> None:
    """Above the helpers, which begin with `log_sum`."""
    text = module.read_text(encoding="utf-8")
    extended = text.replace("def log_sum(", f"{code}\n\ndef log_sum(", 1)
    assert extended != text
    module.write_text(extended, encoding="utf-8")
