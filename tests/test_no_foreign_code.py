"""Nothing that is read runs: no pickle, no code of a model's authors. What loaders refuse stands in their own tests."""

import ast
import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrastive.config.evaluation import Evaluation
from contrastive.evaluation import evaluate
from contrastive.training import checkpoint

CHECKOUT = Path(__file__).parents[1]
PACKAGES = ("contrastive", "flows", "reports", "tasks")


class Runs:
    """Unpickled, it leaves a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_that_runs_something_is_none(tmp_path: Path):
    pickle.loads(pickle.dumps(Runs(tmp_path / "it would run")))
    assert (tmp_path / "it would run").exists()
    (tmp_path / "resume").mkdir()
    torch.save({"step": 3, "model": Runs(tmp_path / "ran")}, tmp_path / "resume" / "state.pt")
    assert checkpoint.read_checkpoint(tmp_path) is None and not (tmp_path / "ran").exists()


def test_arrays_that_run_something_are_refused(tmp_path: Path):
    held = np.empty(1, dtype=object)
    held[0] = Runs(tmp_path / "ran")
    content = io.BytesIO()
    np.savez(content, **dict.fromkeys(("test", "test.labels", "test.ids"), held))
    for name in ("embeddings.npz", "predictions.npz"):
        (tmp_path / name).write_bytes(content.getvalue())
    with pytest.raises(ValueError, match="allow_pickle"):
        evaluate.evaluate_folder(tmp_path, Evaluation(), into=tmp_path)
    assert not (tmp_path / "ran").exists()


def calls() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Where, the call as it is written, and its keywords that are constants."""
    for package in PACKAGES:
        for path in (CHECKOUT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    given = {k.arg: k.value.value for k in node.keywords if k.arg and isinstance(k.value, ast.Constant)}
                    yield f"{path.relative_to(CHECKOUT)}:{node.lineno}", ast.unparse(node.func), given


def test_every_loader_of_the_project_is_told_so():
    found = list(calls())
    pretrained = [(where, name, given) for where, name, given in found if name.endswith(".from_pretrained")]
    assert len(pretrained) >= 4
    for where, name, given in pretrained:
        assert given.get("trust_remote_code") is False and given.get("local_files_only") is True, where
        assert given.get("use_safetensors") is True or name.startswith(("AutoConfig", "AutoTokenizer")), where
    for where, name, given in found:
        assert name != "torch.load" or given.get("weights_only") is True, where
        assert "allow_pickle" not in given, where
        assert name.rpartition(".")[0] not in ("pickle", "cloudpickle", "dill", "joblib"), where
        assert name not in ("eval", "exec", "os.system"), where
