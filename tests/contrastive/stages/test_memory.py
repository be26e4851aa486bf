"""The largest size of a piece of work, also in a process that was larger before."""

import numpy as np
import pytest
import torch

from contrastive.stages import memory


def test_a_peak_is_that_of_the_work_and_of_nothing_before(monkeypatch: pytest.MonkeyPatch):
    """As on a machine without a GPU, which counts its own."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with memory.Peak() as large:
        np.ones(300 * 2**17).sum()
    with memory.Peak() as small:
        np.ones(100 * 2**17).sum()
    assert 150 * 2**20 < large.bytes - small.bytes < 250 * 2**20
    assert small.bytes > memory.resident("VmRSS") / 2
