"""CONTRIBUTING.md is true: its extensions, added to a copy of the project as it says, work and pass their own tests."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
BLOCK = re.compile(r"^`([\w/.]+\.py)`[^\n]*\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

USES_THEM = """
from contrastive.config import Data, Evaluation, Objective
Objective(loss="ce+alignment", view="first_last")
Evaluation(metrics=("mean_cosine",))
from contrastive.data import DATASETS
assert "play-lines" in DATASETS
"""


def test_the_extensions_work_as_written(tmp_path):
    shutil.copytree(CHECKOUT / "contrastive", tmp_path / "contrastive")
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    blocks = BLOCK.findall((CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for path, code in blocks:
        target = tmp_path / path
        if target.name == "__init__.py":
            add_line(target, code)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(code, encoding="utf-8")
    assert len(blocks) == 12
    environment = {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    for command in (["-m", "pytest", "-q", "tests"], ["-c", USES_THEM]):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def add_line(registry: Path, line: str) -> None:
    """Import the function and put its line into the registry's dict, as a person would."""
    name = re.search(r": (\w+),", line)[1]
    module = ".".join(registry.relative_to(registry.parents[2]).parent.parts)
    text = registry.read_text(encoding="utf-8")
    extended = re.sub(r"^((?:LOSSES|VIEWS|METRICS|DATASETS)\b.*=.*\{)", rf"\1{line}", text, count=1, flags=re.MULTILINE)
    assert extended != text
    imported = extended.replace("\nfrom ", f"\nfrom {module}.{name} import {name}\nfrom ", 1)
    registry.write_text(imported, encoding="utf-8")
