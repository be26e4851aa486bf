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
from contrastive.planning import estimate
from contrastive.sources import deepspeed_file, locate

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
made = estimate.Batches(10, 1000, 100, 10)
assert estimate.passes(new) == (2, 0)
assert estimate.training_work(new, made) == 2 * estimate.training_work(old, made)
assert locate.cut(old) == 1 and locate.cut(new) == 0
assert deepspeed_file.unshareable(new.objective, Training(sharding="fsdp")) == ""
assert "compares 4 views of a text, as span give; first_last does not" in refusal(loss="declutr", view="first_last")
assert "compares 2 predictions" in refusal(loss="rdrop", view="first_last")
assert "first_last, " in refusal(loss="simcse", view="cls")
assert refusal(loss="simcse", view="first_last") is None
"""


# Another view reads one of its settings only where another one has a certain value.
CUTOFFS = """
from contrastive.config.facts import FactsVariant, ViewFacts

FACTS = ViewFacts(
    vectors=2, unread=("rate",), variants=(FactsVariant("change", "token_cutoff", ViewFacts(vectors=2)),)
)


def cutoffs(encode, batch, *, change="feature_cutoff", rate=0.2):
    return encode(batch)
"""
USES_CUTOFFS = """
from contrastive.grid.load import ExperimentError, parse_experiment

FILE = '''
name: cutoffs
data: {source: "package:play-lines", test: 10}
encoder: {model: "scratch:bert"}
seeds: [0]
sections: [{title: T, base: {loss: simcse, view: cutoffs, change: %s}, axes: {rate: [0.1, 0.3]}}]
'''
rates = {cell.objective.rate for cell in parse_experiment(FILE % "token_cutoff").cells}
assert rates >= {0.1, 0.3}, rates
try:
    parse_experiment(FILE % "feature_cutoff")
except ExperimentError as error:
    assert "no cell here reads this setting: it is for " in str(error), error
    assert "cutoffs with change token_cutoff" in str(error), error
else:
    raise AssertionError("rate is not read")
"""
MISSPELT = """
from contrastive.config import registry
from contrastive.errors import UserError

try:
    registry.views()
except UserError as error:
    assert "cutoffs.py, line 4: FACTS: " in str(error) and "'unraed'" in str(error), error
    assert "a ViewFacts says in literals: vectors, predictions, " in str(error), error
else:
    raise AssertionError("nobody saw it")
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


@pytest.mark.full
def test_a_view_that_reads_a_setting_where_another_one_has_a_value_says_so_in_its_file(copied: Path, tmp_path: Path):
    copy = shutil.copytree(copied, tmp_path / "project")
    file = copy / "contrastive" / "views" / "cutoffs.py"
    file.write_text(CUTOFFS, encoding="utf-8")
    add_line(file.with_name("__init__.py"), '\n    "cutoffs": cutoffs,', "contrastive.views")
    run(copy, "-c", USES_CUTOFFS)
    file.write_text(CUTOFFS.replace("unread", "unraed"), encoding="utf-8")
    run(copy, "-c", MISSPELT)


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
