"""What only a GPU shows: the same bits in each run, whichever kernels compute attention."""

from pathlib import Path

import pytest
import torch

from contrastive.errors import UserError
from tests.contrastive.training.trained import make, numbers, run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
WIDE = {"scratch": {"layers": 2, "hidden": 128, "heads": 2, "vocabulary": 300}}


@pytest.fixture
def long_texts(tmp_path: Path) -> str:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    lines = [" ".join(words[(at * step) % 9] for at in range(300)) + f",{'ab'[step % 2]}" for step in range(128)]
    (tmp_path / "long.csv").write_text("text,label\n" + "\n".join(f"word{n} {x}" for n, x in enumerate(lines)) + "\n")
    return f"file:{tmp_path / 'long.csv'}"


@pytest.mark.filterwarnings("ignore:Seems like `optimizer.step")  # Accelerate replaces the step of fp16 for a moment
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
def test_two_runs_are_equal_to_the_bit(model, precision, long_texts, home, monkeypatch):
    """256 tokens a text: enough that kernels add up gradients in several parts, in an order that may differ."""
    sizes = {"train": 64, "max_length": 256}
    training = {"precision": precision, "batch_size": 32, "epochs": 2}
    cell = make(long_texts, loss="ce+supcon", encoder=WIDE | {"model": model}, data=sizes, training=training)
    first = numbers(run(cell))
    monkeypatch.setenv("ABLATE_HOME", str(home / "again"))
    assert numbers(run(cell)) == first


def test_more_processes_than_gpus_are_refused_before_they_begin(long_texts: str, home: Path):
    count = torch.cuda.device_count() + 1
    asked = make(long_texts, data={"max_length": 32}, loss="ce", training={"processes": count, "batch_size": 2 * count})
    with pytest.raises(UserError, match=f"in {count} processes, one on each GPU, but there"):
        run(asked)
