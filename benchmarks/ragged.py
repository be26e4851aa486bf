"""How often verdicts err and what they find where rows have other seeds: our rule beside its two halves.

    python -m benchmarks.ragged [GRIDS] [ROWS ...] [--into FILE]

`shared` compares each row with the baseline at the seeds that both have (the pooled model of a report), `all` by
Welch's t of all runs. The rule of a report takes for each pair the one whose interval is expected to be narrower, by
the numbers of runs alone. The worlds are those of `benchmarks.simulation` without single texts.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from benchmarks import results
from benchmarks.simulated_worlds import WORLDS, World, study
from benchmarks.simulation import Outcome, outcome, percent
from reports.families import RowGroup, by_all_runs, sample_of
from reports.rows import SeedValues, side_by_side
from reports.statistics.decide import Decided, compare_samples, decide

FILE = Path(__file__).with_name("ragged.md")
GRIDS, ROWS, SEEDS = 1000, (3, 6), 8
Mask = Bool[ndarray, "rows seeds"]


def one_missing(rows: int, generator: np.random.Generator) -> Mask:
    """Five seeds, of which one run of one row, perhaps the baseline, is missing."""
    mask = np.tile(np.arange(SEEDS) < 5, (rows, 1))
    mask[generator.integers(rows), generator.integers(5)] = False
    return mask


def fewer_and_fewer(rows: int, generator: np.random.Generator) -> Mask:
    """5, 4, 3, 2, 5, … of the first seeds."""
    return np.stack([np.arange(SEEDS) < 5 - row % 4 for row in range(rows)])


def own_choice(rows: int, generator: np.random.Generator) -> Mask:
    """Three to five of eight seeds, drawn by each row for itself."""
    counts = generator.integers(3, 6, rows)
    return np.stack([np.isin(np.arange(SEEDS), generator.permutation(SEEDS)[:count]) for count in counts])


def none_shared(rows: int, generator: np.random.Generator) -> Mask:
    """Four seeds of its own for each row."""
    return np.repeat(np.eye(rows, dtype=bool), 4, axis=1)


DESIGNS = {
    "one run missing": one_missing,
    "5, 4, 3, 2 runs": fewer_and_fewer,
    "own choice of seeds": own_choice,
    "no seed shared": none_shared,
}
Score = list[SeedValues]


def by_rule(group: RowGroup, values: Score) -> list[Decided]:
    unpaired = by_all_runs(group, group.pairs, values, None)
    return [unpaired.get(pair, line) for pair, line in zip(group.pairs, by_shared(group, values), strict=True)]


def by_shared(group: RowGroup, values: Score) -> list[Decided]:
    return decide(group.measured, group.pairs, group.share)


def by_all(group: RowGroup, values: Score) -> list[Decided]:
    samples = [sample_of(row) for row in values]
    return [compare_samples(samples[a], samples[b], len(group.pairs), group.share) for a, b in group.pairs]


WAYS: dict[str, Callable[[RowGroup, Score], list[Decided]]] = {"rule": by_rule, "shared": by_shared, "all": by_all}


def ragged_study(world: World, mask: Mask, generator: np.random.Generator) -> list[Float[ndarray, "rows seeds"]]:
    """Return each score of a section in which only the runs of the mask exist."""
    return [np.where(mask, score.values, np.nan) for score in study(world, *mask.shape, generator)]


def outcomes_of(world: World, rows: int, design: str, grids: int) -> dict[str, list[Outcome]]:
    """Return each way's outcome of each study."""
    generator = np.random.default_rng([rows, [*DESIGNS].index(design), list(WORLDS.values()).index(world)])
    found: dict[str, list[Outcome]] = {way: [] for way in WAYS}
    pairs = [(row, 0) for row in range(1, rows)]
    for _ in range(grids):
        mask = DESIGNS[design](rows, generator)
        decided: dict[str, list[Decided]] = {way: [] for way in WAYS}
        for score in ragged_study(world, mask, generator):
            values = [SeedValues(np.flatnonzero(own).tolist(), row[own]) for row, own in zip(score, mask, strict=True)]
            group = RowGroup([*range(rows)], pairs, side_by_side(values), 1 / world.scores, None)
            for way, work in WAYS.items():
                decided[way] += work(group, values)
        for way, lines in decided.items():
            found[way].append(outcome(world, rows, lines, int(mask.sum())))
    return found


def seen(outcomes: list[Outcome]) -> float:
    """Return the share of true differences that were called better or worse; nan without any."""
    differs = np.abs(outcomes[0].truth) > 0
    right = np.array([result.right for result in outcomes])
    return float(right[:, differs].mean()) if differs.any() else np.nan


def line_of(name: str, design: str, found: dict[str, list[Outcome]]) -> str:
    errors = [percent([result.wrong for result in outcomes]) for outcomes in found.values()]
    powers = [seen(outcomes) for outcomes in found.values()]
    shown = ["–" if np.isnan(power) else f"{100 * power:.0f}" for power in powers]
    return f"| {' | '.join([design, name, *errors, *shown])} |"


def table(rows: int, grids: int, into: Path) -> None:
    heads = ["runs", "world", *(f"wrong, {way}" for way in WAYS), *(f"seen, {way}" for way in WAYS)]
    lines = [f"| {' | '.join(heads)} |", f"|{' :-- |' * 2}{' --: |' * 6}"]
    worlds = {name: world for name, world in WORLDS.items() if world.texts is None}
    for design in DESIGNS:
        for name, world in worlds.items():
            lines.append(line_of(name, design, outcomes_of(world, rows, design, grids)))
            print(lines[-1], flush=True)
    text = f"{grids} studies of each world and design.\n\n" + "\n".join(lines)
    command = f"python -m benchmarks.ragged {grids} {rows}"
    results.write([results.Section(f"{rows} rows", time.strftime("%Y-%m-%d"), command, text)], into, TOP)


TOP = """# Rows with other seeds

Written by `python -m benchmarks.ragged`. "Wrong": studies with any wrong verdict, in per cent ± one standard error.
"Seen": per cent of the true differences that are called better or worse. "Rule" is what a report does; "shared" pairs
each row with the baseline at the seeds that both have, "all" is Welch's t of all runs.
"""


def main() -> None:
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.ragged", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("grids", nargs="?", type=int, default=GRIDS)
    command.add_argument("rows", nargs="*", type=int)
    command.add_argument("--into", type=Path, default=FILE)
    asked = command.parse_args()
    for rows in asked.rows or ROWS:
        table(rows, asked.grids, asked.into)


if __name__ == "__main__":
    main()
