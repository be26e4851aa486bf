"""How often the verdicts of a report err, what its intervals cover, and what it finds, in worlds whose truth is known.

    python -m benchmarks.simulation [GRIDS] [ROWS ...] [--worlds WORD ...] [--quick] [--into FILE]

Each study is read as of 2, 3 and 5 fixed seeds, and as one that stops by itself: at each look, rows that are decided
train no further, and their verdicts stand. It is read once more with the seeds that a second question adds, which
compares the same rows with row 1: each row then has the larger of its two numbers of seeds. Beside them, five fixed
seeds by the usual tests: paired t with Holm, and two one-sided tests (TOST) for equivalence.
"""

import argparse
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy import stats

from benchmarks import results
from benchmarks.worlds import MARGIN, WORLDS, MadeUpWorld, World
from reports.statistics.cutoffs import looks_up_to
from reports.statistics.decide import ALPHA, DECIDED, Decided, Measurements, decide, verdict

FILE = Path(__file__).with_name("simulated.md")
GRIDS, ROWS, FIXED = 2000, (3, 6, 13), (2, 3, 5)
QUICK_GRIDS, QUICK_ROWS = 2, (3,)
TEXT_SHARE = 4  # of so many grids, one where each text is made up: that takes ten times as long
USUAL_GRIDS, USUAL_MOST, USUAL_SEEDS = 400, 64, 5
MOST_REAL_ROWS = 8
USUAL = f"{USUAL_SEEDS}, t, Holm and TOST"
COLUMNS = (
    "world", "seeds", "any wrong verdict", "where the guard is silent", "the guard speaks", "all intervals hold",
    "each interval holds", "differences seen", "called equivalent", "cells", "cells, t and Holm",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """Of one study, a number a comparison; `truth`: the true differences."""

    verdicts: list[str]
    lows: Float[ndarray, " n"]
    highs: Float[ndarray, " n"]
    unequal: bool
    truth: Float[ndarray, " n"]
    margin: float
    cells: int

    @property
    def right(self) -> list[bool]:
        return [is_right(*both, self.margin) for both in zip(self.verdicts, self.truth, strict=True)]

    @property
    def wrong(self) -> bool:
        called = [said in DECIDED for said in self.verdicts]
        return any(some and not right for some, right in zip(called, self.right, strict=True))

    @property
    def covered(self) -> Float[ndarray, " n"]:
        """Whether each interval holds the truth; one without an interval says nothing wrong."""
        return ~((self.lows > self.truth) | (self.highs < self.truth))


def is_right(said: str, truth: float, margin: float) -> bool:
    if said == "equivalent":
        return abs(truth) < margin
    return (said == "better" and truth > 0) or (said == "worse" and truth < 0)


def outcome(world: World, rows: int, decided: list[Decided], cells: int) -> Outcome:
    """Of the comparisons of all scores, one score after another."""
    truth = np.tile(world.truth(rows), world.scores)
    margin = world.margin
    verdicts = [verdict(line.difference, line.half_width, True, margin, line.seeds) for line in decided]
    sizes, halves = (np.array([getattr(line, name) for line in decided]) for name in ("difference", "half_width"))
    lows, highs = sizes - halves, sizes + halves
    return Outcome(list(verdicts), lows, highs, any(line.unequal for line in decided), truth, margin, cells)


def up_to(measured: Measurements, seeds: ndarray) -> Measurements:
    """The same, of each row only so many seeds."""
    most = int(seeds.max())
    values = np.where(np.arange(most) < seeds[:, None], measured.values[:, :most], np.nan)
    return Measurements(values, None if measured.per_text is None else measured.per_text[:, :most], measured.texts)


def judged(scores: list[Measurements], seeds: ndarray, most_seeds: int | None, baseline: int = 0) -> list[Decided]:
    pairs = tuple((row, baseline) for row in range(len(seeds)) if row != baseline)
    share = 1 / len(scores)
    return [line for measured in scores for line in decide(up_to(measured, seeds), pairs, share, most_seeds)]


def fixed(world: World, scores: list[Measurements], seeds: int) -> Outcome:
    rows = len(scores[0].values)
    return outcome(world, rows, judged(scores, np.full(rows, seeds), None), rows * seeds)


def stopped_seeds(world: World, scores: list[Measurements], baseline: int, most: int) -> Int[ndarray, " rows"]:
    """Each row's number of seeds at the end. The baseline trains as long as any row does, and a row as long as any of
    its scores is undecided; its verdicts stand from then on."""
    rows = len(scores[0].values)
    seeds, others = np.zeros(rows, int), np.delete(np.arange(rows), baseline)
    open_rows, last = others, np.full((world.scores, rows - 1), "", object)
    for look in looks_up_to(most):
        seeds[[baseline, *open_rows]] = look
        lines = judged(scores, seeds, most, baseline)
        verdicts = np.array(outcome(world, rows, lines, 0).verdicts, object).reshape(world.scores, -1)
        stands = ~np.isin(others, open_rows)
        assert (verdicts[:, stands] == last[:, stands]).all(), "a later look takes a verdict back"
        last, decided = verdicts, np.isin(verdicts.astype(str), DECIDED).all(0)
        open_rows = others[~decided & np.isin(others, open_rows)]
        if not len(open_rows):
            break
    return seeds


def stopping(world: World, scores: list[Measurements], most: int) -> tuple[Outcome, Outcome]:
    """The outcome by the seeds of one question, and with those that a second one adds, which compares with row 1."""
    rows = len(scores[0].values)
    alone = stopped_seeds(world, scores, 0, most)
    both = np.maximum(alone, stopped_seeds(world, scores, 1, most))
    first, second = (outcome(world, rows, judged(scores, seeds, most), int(seeds.sum())) for seeds in (alone, both))
    return first, second


def simulated(world: World, rows: int, grids: int) -> dict[str, list[Outcome]]:
    """Each design's outcome of each study."""
    generator = np.random.default_rng([rows, list(WORLDS.values()).index(world)])
    most = world.most_seeds(rows)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for _ in range(grids):
        scores = world.study(rows, most, generator)
        for seeds in FIXED:
            if seeds <= most:
                outcomes[str(seeds)].append(fixed(world, scores, seeds))
        for design, ended in zip(stopping_designs(most), stopping(world, scores, most), strict=True):
            outcomes[design].append(ended)
        if most >= USUAL_SEEDS:
            outcomes[USUAL].append(by_usual_tests(world, scores))
    return outcomes


def stopping_designs(most: int) -> tuple[str, str]:
    return f"stops, at most {most}", f"stops, at most {most}; seeds of two questions"


def holm(p: Float[ndarray, "studies tests"]) -> Float[ndarray, "studies tests"]:
    """Adjusted over the tests of each study (Holm, 1979)."""
    order = np.argsort(p, axis=1)
    steps = np.take_along_axis(p, order, 1) * np.arange(p.shape[1], 0, -1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(steps, axis=1), 1)
    return adjusted


def paired_p(apart: Float[ndarray, "studies tests seeds"]) -> Float[ndarray, "studies tests"]:
    """Two-sided p of Student's t of paired differences; 1 where all of them are zero."""
    means, errors = means_and_errors(apart)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(2 * stats.t.sf(np.abs(means) / errors, apart.shape[2] - 1), nan=1.0)


def half_widths(apart: Float[ndarray, "studies tests seeds"]) -> Float[ndarray, "studies tests"]:
    """Of intervals that hold for all tests of a study together, by Bonferroni."""
    tests, seeds = apart.shape[1:]
    return np.asarray(stats.t.isf(ALPHA / 2 / tests, seeds - 1) * means_and_errors(apart)[1])


def tost(apart: Float[ndarray, "studies tests seeds"], margin: float) -> Bool[ndarray, "studies tests"]:
    """Two one-sided tests of equivalence (Schuirmann, 1987): whether the interval is within the margin."""
    return np.asarray(np.abs(apart.mean(2)) + half_widths(apart) < margin)


def means_and_errors(apart: ndarray) -> tuple[ndarray, ndarray]:
    return apart.mean(2), apart.std(2, ddof=1) / np.sqrt(apart.shape[2])


def usual_verdicts(apart: Float[ndarray, "studies tests seeds"], margin: float) -> ndarray:
    """By paired t with Holm; what does not differ by it may be equivalent by TOST."""
    equal = np.where(tost(apart, margin), "equivalent", "undecided")
    return np.where(holm(paired_p(apart)) > ALPHA, equal, np.where(apart.mean(2) > 0, "better", "worse"))


def by_usual_tests(world: World, scores: list[Measurements]) -> Outcome:
    """Of a study of five seeds, all scores together one family."""
    rows = len(scores[0].values)
    values = [measured.values[:, :USUAL_SEEDS] for measured in scores]
    apart = np.concatenate([each[1:] - each[0] for each in values])[None]
    means, half = apart.mean(2)[0], half_widths(apart)[0]
    verdicts = usual_verdicts(apart, world.margin)[0].tolist()
    truth = np.tile(world.truth(rows), world.scores)
    return Outcome(verdicts, means - half, means + half, False, truth, world.margin, rows * USUAL_SEEDS)


def cells_by_usual_tests(world: World, rows: int, wanted: float) -> str:
    """Of a fixed design that is right of as many comparisons by the usual tests."""
    truth = world.truth(rows)
    values = np.random.default_rng(rows).standard_normal((USUAL_GRIDS, rows, USUAL_MOST))
    apart = values[:, 1:] - values[:, :1] + truth[:, None]
    for seeds in range(2, USUAL_MOST + 1):
        verdicts = usual_verdicts(apart[:, :, :seeds], MARGIN)
        right = [[is_right(*both, MARGIN) for both in zip(study, truth, strict=True)] for study in verdicts]
        if np.mean(right) >= wanted:
            return str(rows * seeds)
    return f"> {rows * USUAL_MOST}"


def percent(values: list[bool] | ndarray) -> str:
    """With its standard error; of none a dash."""
    if not len(values):
        return "–"
    share = float(np.mean(values))
    error = np.sqrt(max(share * (1 - share), 1 / len(values)) / len(values))
    return f"{100 * share:.1f} ± {100 * error:.1f}"


def line_of(world: World, name: str, design: str, rows: int, outcomes: list[Outcome]) -> str:
    silent = [result.wrong for result in outcomes if not result.unequal]
    covered = np.stack([result.covered for result in outcomes])
    right = np.array([result.right for result in outcomes])
    differs = np.abs(outcomes[0].truth) > 0
    inside = np.abs(outcomes[0].truth) < world.margin
    cells = float(np.mean([result.cells for result in outcomes]))
    stops = design == stopping_designs(world.most_seeds(rows))[0]
    other = (
        cells_by_usual_tests(world, rows, right.mean())
        if isinstance(world, MadeUpWorld) and world.plain and stops
        else ""
    )
    parts = [
        name,
        design,
        percent([result.wrong for result in outcomes]),
        percent(silent),
        f"{100 * np.mean([result.unequal for result in outcomes]):.0f}",
        percent(covered.all(1)),
        f"{100 * covered.mean():.1f}",
        f"{100 * right[:, differs].mean():.0f}" if differs.any() else "–",
        f"{100 * right[:, ~differs & inside].mean():.0f}" if (~differs & inside).any() else "–",
        f"{cells:.0f}",
        other,
    ]
    return f"| {' | '.join(parts)} |"


def table(rows: int, grids: int, worlds: list[str], into: Path, command: str) -> None:
    """Of so many rows; the file has each world as soon as it is there."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' :-- |' * 2}{' --: |' * (len(COLUMNS) - 2)}"]
    for name in worlds:
        world = WORLDS[name]
        count = max(2, grids // TEXT_SHARE) if world.slow else grids
        for design, outcomes in simulated(world, rows, count).items():
            lines.append(line_of(world, name, design, rows, outcomes))
            print(lines[-1], flush=True)
        said = f"{grids} grids of each world, {max(2, grids // TEXT_SHARE)} where texts are made up."
        text = f"{said}\n\n" + "\n".join(lines)
        results.write([results.Section(f"{rows} rows", time.strftime("%Y-%m-%d"), command, text)], into, TOP)


TOP = f"""# What the verdicts of a report are worth

Written by `python -m benchmarks.simulation`; [statistics](../docs/reference/statistics.md) says what is tested and how.
Numbers are per cent of the studies, ± one standard error. A verdict is wrong where it names a difference that is not
there or has the other sign, or calls equivalent what is not inside the margin of {MARGIN} sd of a row at one seed (1
point of accuracy where there are texts). "All intervals hold" is of all comparisons of a study together. "Differences
seen" and "called equivalent" are per cent of the comparisons for which that is right; "cells" is how many are trained
on average, beside those of a fixed design that is right as often with a paired t-test of each comparison and Holm.
The worlds "real" are drawn from benchmarks/seed_bank.npz (recipes, 24 seeds, 6 000 texts; a study has 2 000 texts), of
which a study is a part: this flatters every design.
"""


def main() -> None:
    asked = options().parse_args()
    grids = asked.grids if asked.grids is not None else QUICK_GRIDS if asked.quick else GRIDS
    worlds = [name for name in WORLDS if not asked.worlds or any(word in name for word in asked.worlds)]
    for rows in asked.rows or (QUICK_ROWS if asked.quick else ROWS):
        possible = [name for name in worlds if isinstance(WORLDS[name], MadeUpWorld) or rows <= MOST_REAL_ROWS]
        table(rows, grids, possible, asked.into, f"python -m benchmarks.simulation {grids} {rows}")


def options() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("grids", nargs="?", type=int)
    command.add_argument("rows", nargs="*", type=int)
    command.add_argument("--worlds", nargs="*", metavar="WORD", help="only those with one of these words")
    command.add_argument("--quick", action="store_true", help="two grids of three rows, to see that everything runs")
    command.add_argument("--into", type=Path, default=FILE)
    return command


if __name__ == "__main__":
    main()
