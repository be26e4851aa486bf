"""Rows with other seeds: the choice between shared seeds and all runs, and how often its verdicts err."""

import numpy as np
import pytest

from benchmarks.simulation import Outcome, outcome
from benchmarks.worlds import WORLDS
from reports.families import RowGroup, by_all_runs
from reports.rows import SeedValues, side_by_side
from reports.statistics.decide import Family, decide, worth_pairing

STUDIES, ROWS, SEEDS = 200, 3, 12
# which of the twelve seeds each row has
DESIGNS = {
    "5, 4, 3 runs": np.arange(SEEDS) < np.array([[5], [4], [3]]),
    "five runs, of which four are shared": (np.arange(SEEDS) < 4) | np.eye(ROWS, SEEDS, 4, dtype=bool),
    "no seed shared": np.repeat(np.eye(ROWS, dtype=bool), 4, axis=1),
}


@pytest.mark.parametrize(
    ("shared", "counts", "freedom", "paired"),
    [
        (2, (2, 2), 1, True),  # the same seeds are always paired
        (1, (5, 5), 20, False),
        (0, (3, 4), 0, False),
        (2, (5, 5), 1, False),  # Student's cut-off at one degree of freedom is 12.7
        (3, (5, 5), 2, False),
        (3, (5, 5), 20, True),  # other rows tell the variance
        (4, (5, 4), 3, True),
    ],
)
def test_the_choice_is_by_numbers_of_runs(shared: int, counts: tuple[int, int], freedom: float, paired: bool):
    assert worth_pairing(shared, counts, freedom, tests=1) is paired
    assert worth_pairing(shared, counts[::-1], freedom, tests=1) is paired


def outcomes(world: str, design: str) -> list[Outcome]:
    """Judge studies in which only the runs of the design exist, as a report does."""
    generator, pairs, judged = np.random.default_rng(0), [(1, 0), (2, 0)], []
    for _ in range(STUDIES):
        (score,) = WORLDS[world].study(ROWS, SEEDS, generator)
        values = [
            SeedValues(np.flatnonzero(has).tolist(), row[has])
            for row, has in zip(score.values, DESIGNS[design], strict=True)
        ]
        group = RowGroup(side_by_side(values), Family(ROWS, pairs))
        unpaired = by_all_runs(group, values)
        shared = decide(group.measured, pairs)
        lines = [unpaired.get(pair, line) for pair, line in zip(pairs, shared, strict=True)]
        judged.append(outcome(WORLDS[world], ROWS, lines, 0))
    return judged


@pytest.mark.parametrize("world", ["nothing differs", "the baseline varies 3 times as much"])
@pytest.mark.parametrize("design", DESIGNS)
def test_verdicts_err_no_more_than_five_times_in_a_hundred(design: str, world: str):
    wrong = sum(study.wrong for study in outcomes(world, design)) / STUDIES
    assert wrong <= 0.05 + 2 * (0.05 * 0.95 / STUDIES) ** 0.5


@pytest.mark.parametrize("design", DESIGNS)
def test_differences_are_found(design: str):
    assert np.mean([study.right[0] for study in outcomes("one row is better by 4 sd", design)]) > 0.25
