"""Every loss is its oracle, in value and gradient, whatever the batch; for numbers, `python -m benchmarks.oracles`."""

import pytest

from contrastive.losses import LOSSES
from tests.contrastive.losses.draws import difference
from tests.contrastive.losses.oracles import ORACLES

TOLERANCE = 1e-8


@pytest.mark.parametrize("name", LOSSES)
def test_it_is_its_oracle(name: str):
    assert name in ORACLES, f"{name} has no oracle: write one in tests/contrastive/losses/oracles.py"
    for seed in range(18):
        found = difference(name, seed)
        assert found.value <= TOLERANCE and found.gradient <= TOLERANCE, f"{name}, seed {seed}: {found}"
