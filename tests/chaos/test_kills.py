"""SIGKILL at random moments, at everything in turn; the same command again until it is done.

In short with `make test-all`, under `ablate run`, here and on nodes of Ray; in long by `make chaos`, under `ablate up`
and its services, and one kill in four on nodes of Ray.
"""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import grid, processes, soak
from tests.chaos.cluster import OnRay
from tests.chaos.soak import Soak
from tests.chaos.ways import Command, Deployment, Way

pytestmark = pytest.mark.e2e


def test_whatever_is_killed_the_grid_ends_as_if_nothing_had_been(
    tmp_path: Path,
    experiment: Path,
    empty_store: Path,
    environment: dict[str, str],
    truth: dict[str, dict[str, str]],
    request: pytest.FixtureRequest,
):
    kills, table = request.config.getoption("--kills"), request.config.getoption("--table")
    shares = {Deployment: kills - kills // 4, OnRay: kills // 4} if kills else {Command: 2, OnRay: 2}
    soaks = []
    for number, (way, share) in enumerate(shares.items()):
        home = tmp_path / str(number)
        home.mkdir()
        shutil.copy(empty_store, home / "mlflow.db")
        soaks.append(Soak(way(home, experiment, environment), truth, seed=request.config.getoption("--seed")))
        go_through(soaks[-1], share)
    print(soak.table(soaks))
    if table:
        Path(table).write_text(soak.table(soaks) + "\n", encoding="utf-8")
    for one in soaks:
        assert not one.faults, "\n".join(one.faults)
        for kind, row in one.rows.items():
            assert (row.lost, row.duplicated, row.orphaned) == (0, 0, 0), kind
            assert row.most <= grid.CHECKPOINT_EVERY, f"{kind}: {row.most} steps were done in vain by one kill"


def go_through(one: Soak, kills: int) -> None:
    try:
        for kind in itertools.islice(turns(one.way), kills):
            one.kill(kind)
        one.finish()
    finally:  # where something went wrong, nothing of it disturbs what follows
        for left in processes.of(one.way.home):
            left.kill()


def turns(way: Way) -> Iterator[str]:
    """Each kind in turn; a service, whose restart takes longest, once a round."""
    services = itertools.cycle(way.services)
    while True:
        yield from (*way.kinds, *itertools.islice(services, 1))
