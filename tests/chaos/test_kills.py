"""SIGKILL at random moments, at everything in turn; the same command again until it is done.

In short with every `make test`, under `ablate run`; in long by `make chaos`, under `ablate up` and its services too.
"""

import itertools
import shutil
from pathlib import Path

import pytest

from tests.chaos import grid, processes
from tests.chaos.soak import Command, Deployment, Soak

pytestmark = [pytest.mark.chaos, pytest.mark.e2e]


def test_whatever_is_killed_the_grid_ends_as_if_nothing_had_been(
    tmp_path: Path,
    experiment: Path,
    empty_store: Path,
    environment: dict[str, str],
    truth: dict[str, dict[str, str]],
    request: pytest.FixtureRequest,
):
    kills, table = request.config.getoption("--kills"), request.config.getoption("--table")
    (tmp_path / "home").mkdir()
    shutil.copy(empty_store, tmp_path / "home" / "mlflow.db")
    way = (Deployment if kills else Command)(tmp_path / "home", experiment, environment)
    soak = Soak(way, truth, seed=request.config.getoption("--seed"))
    try:
        for kind in itertools.islice(turns(way), kills or 3):
            soak.kill(kind)
        soak.finish()
    finally:  # where something went wrong, nothing of it disturbs the tests that follow
        for left in processes.of(way.home):
            left.kill()
    print(soak.table())
    if table:
        Path(table).write_text(soak.table() + "\n", encoding="utf-8")
    assert not soak.faults, "\n".join(soak.faults)
    for kind, row in soak.rows.items():
        assert (row.lost, row.duplicated, row.orphaned) == (0, 0, 0), kind
        assert row.most <= grid.CHECKPOINT_EVERY, f"{kind}: {row.most} steps were done in vain by one kill"


def turns(way: Command | Deployment) -> itertools.chain[str]:
    """Each kind in turn; a service, whose restart takes longest, once a round."""
    services = itertools.cycle(getattr(way, "services", ()) or (way.kinds[0],))
    return itertools.chain.from_iterable((*way.kinds, next(services)) for _ in itertools.count())
