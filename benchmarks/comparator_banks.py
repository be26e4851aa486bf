"""Studies without a difference and with known ones, drawn from our bank of runs and from two public boards."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy import ndarray

from benchmarks import seed_bank
from benchmarks.comparator_rules import Studies
from benchmarks.resampled_studies import MARGIN, TEXTS, against_itself

BOARDS = Path(__file__).with_name("boards")
EFFECTS = (1, 2, 3)  # deviations of a run
FEWEST_RUNS = 8  # of a row of Track 3
OTHERS = """Others' noise: unpaired, and filtered by what was submitted. A study has three rows; of two, one is above
the first and one below by 1, 2 or 3 deviations of a run, or neither. The GSPRT looks for one deviation, the region of
practical equivalence is a tenth of one to each side, and we have no margin here."""


@dataclass(frozen=True)
class Bank:
    """`alike`: rows of one recipe; `apart`: of several, by name of the difference."""

    name: str
    about: str
    alike: Studies
    apart: dict[str, Studies]
    most: int


def of_seed_bank(studies: int, most: int) -> Bank:
    bank, generator = seed_bank.load(), np.random.default_rng(0)
    whole = bank.right.mean(2)
    apart = whole[1:] - whole[0]
    sigma = float(np.sqrt(apart.var(1, ddof=1).mean()))
    alike, differing, within = [], [], []
    for number in range(studies):
        alike.append(against_itself(bank, number % len(bank.recipes), 3, most, generator))
        columns = generator.choice(len(bank.seeds), most, replace=False)
        of_these = bank.right[:, :, np.sort(generator.choice(bank.right.shape[2], TEXTS, replace=False))]
        differing.append(of_these[:, columns])
        own = of_these.mean((1, 2))
        within.append(own[1:] - own[0])
    of_all = np.tile(apart.mean(1), (studies, 1))
    values = np.array([each.mean(2) for each in differing])
    studied = Studies(values, of_all, sigma, True, MARGIN, MARGIN, MARGIN, differing, np.array(within))
    same = np.array([each.mean(2) for each in alike])
    nothing = np.zeros((studies, 2))
    deviations = apart.std(1, ddof=1)
    about = f"""Eight recipes, 24 seeds, 6000 texts (benchmarks/seed_bank.npz), paired. A study: {most} seeds and
{TEXTS} texts, seven recipes beside the first; without a difference: three rows of one recipe, each with {most} seeds
of its own. Six of the seven differences are beyond the margin of {MARGIN}: "found" is of these. A true verdict has
the right sign, or says equivalent where the truth is within the margin. Truth is the whole bank, of which a study is
a part: this flatters every rule. All rules but `decide` and the crossed bootstrap speak of the texts of the study
only: the last column is for them. Deviation of a difference at one seed: pooled {sigma:.4f}, of single recipes
{deviations.min():.4f} to {deviations.max():.4f}."""
    null = Studies(same, nothing, sigma, True, MARGIN, MARGIN, MARGIN, alike, nothing)
    return Bank("Our seed bank", about, null, {"": studied}, most)


def residuals(file: str, column: str, fewest: int) -> list[ndarray]:
    """Of each row with enough runs; widened, so that their mean square is the row's variance."""
    rows = [group[column].to_numpy(float) for _, group in pd.read_csv(BOARDS / file).groupby("row")]
    kept = [row for row in rows if len(row) >= fewest]
    return [(row - row.mean()) * np.sqrt(len(row) / (len(row) - 1)) for row in kept]


def of_board(name: str, about: str, rows: list[ndarray], own_scale: bool, studies: int, most: int) -> Bank:
    """Three rows without pairs, drawn without replacement from pooled residuals; effects are one up and one down."""
    generator = np.random.default_rng(1)
    scales = np.array([np.sqrt(np.square(row).mean()) for row in rows])
    counts = np.array([len(row) for row in rows])
    pooled = float(np.sqrt((scales**2 * (counts - 1)).sum() / (counts - 1).sum()))
    noise = np.concatenate(
        [row / scale if own_scale else row / pooled for row, scale in zip(rows, scales, strict=True)]
    )

    def studied(effect: int) -> Studies:
        scale = generator.choice(scales, studies)[:, None] if own_scale else np.full((studies, 1), pooled)
        values = np.array([generator.choice(noise, (3, most), replace=False) for _ in range(studies)])
        truth = effect * scale * np.array([1.0, -1.0])
        shifted = values * scale[:, :, None] + np.hstack([np.zeros((studies, 1)), truth])[:, :, None]
        return Studies(shifted, truth, pooled * 2**0.5, False, None, pooled, pooled / 10)

    text = f"{len(rows)} rows, {counts.sum()} runs, deviation of a run (pooled) {pooled:.5f}. {about}"
    return Bank(name, text, studied(0), {f"{effect} sd": studied(effect) for effect in EFFECTS}, most)


def banks(studies: int, quick: bool = False) -> list[Bank]:
    track = f"""{OTHERS} Rows with at least {FEWEST_RUNS} runs (modded-nanogpt-track-3.csv, `val_loss`). Residuals
of all rows, each divided by its row's deviation, are drawn without replacement; a study has the deviation of one row,
which few runs tell only roughly."""
    golf = f"""{OTHERS} 3 to 6 runs a row (parameter-golf.csv, `val_bpb`), too few for a row's own deviation:
residuals of all rows are drawn without replacement, widened by √(n / (n − 1)) and else as they are. The rows that
vary most give single runs far off."""
    runs = residuals("modded-nanogpt-track-3.csv", "val_loss", FEWEST_RUNS)
    golfed = residuals("parameter-golf.csv", "val_bpb", 3)
    ours, theirs = (4, 4) if quick else (8, 15)  # most runs a row; 24 seeds of ours are enough for three rows of 8
    return [
        of_seed_bank(studies, ours),
        of_board("Track 3 of modded-nanogpt", track, runs, True, studies, theirs),
        of_board("parameter-golf", golf, golfed, False, studies, theirs),
    ]
