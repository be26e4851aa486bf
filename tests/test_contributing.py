"""CONTRIBUTING.md is true: its extensions, added to a copy of the project as it says, work and pass their own tests."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
BLOCK = re.compile(r"^`([\w/.]+\.py)`[^\n]*\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

ORACLES = Path("tests/contrastive/losses/oracles.py")

USES_THEM = """
from contrastive.config.cell import Data
from contrastive.config.objective import Objective
from contrastive.config.evaluation import Evaluation
Objective(loss="ce+alignment", view="first_last")
Evaluation(metrics=("mean_cosine",))
from contrastive.data import DATASETS
assert "play-lines" in DATASETS
"""


def test_the_extensions_work_as_written(tmp_path):
    shutil.copytree(CHECKOUT / "contrastive", tmp_path / "contrastive")
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    (tmp_path / ORACLES.parent).mkdir(parents=True)
    for name in ("oracles.py", "draws.py", "test_oracles.py"):
        shutil.copy(CHECKOUT / ORACLES.parent / name, tmp_path / ORACLES.parent)
    blocks = BLOCK.findall((CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for path, code in blocks:
        target = tmp_path / path
        if code.startswith(" "):
            add_line(target, code)
        elif path == str(ORACLES):
            add_function(target, code)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(code, encoding="utf-8")
    assert len(blocks) == 14
    environment = {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    new_ones = ["-k", "alignment or not test_it_is_its_oracle"]
    for command in (["-m", "pytest", "-q", "tests", *new_ones], ["-c", USES_THEM]):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def add_line(registry: Path, line: str) -> None:
    """Put its line into the registry's dict, and import the function where it is not there, as a person would."""
    name = re.search(r"(\w+)\)?,$", line.rstrip())[1]
    text = registry.read_text(encoding="utf-8")
    extended = re.sub(
        r"^((?:LOSSES|VIEWS|METRICS|DATASETS|ORACLES)\b.*=.*\{)", rf"\1{line}", text, count=1, flags=re.MULTILINE
    )
    assert extended != text
    if f"def {name}(" not in text:
        folders = registry.parent.parts
        module = ".".join(folders[folders.index("contrastive") :])
        extended = extended.replace("\nfrom ", f"\nfrom {module}.{name} import {name}\nfrom ", 1)
    registry.write_text(extended, encoding="utf-8")


def add_function(module: Path, code: str) -> None:
    """Above the helpers, which begin with `log_sum`."""
    text = module.read_text(encoding="utf-8")
    extended = text.replace("def log_sum(", f"{code}\n\ndef log_sum(", 1)
    assert extended != text
    module.write_text(extended, encoding="utf-8")
