"""How often studies drawn from the seed bank conclude what the whole bank says, what they cost, and how often they err.

    python -m benchmarks.decision [STUDIES] [--quick] [--into FILE]    # writes benchmarks/decided.md

All recipes of a drawn study share its seeds and its texts. Each design sees the first seeds of the same studies.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy import ndarray

from benchmarks import results, seed_bank
from benchmarks.resampled_studies import (
    MARGIN,
    TEXTS,
    Conclusions,
    Truth,
    against_itself,
    by_t_and_holm,
    called,
    drawn,
    fixed,
    measured,
    pairs_with_first,
    stopping,
    together,
    truth_of,
)
from benchmarks.seed_bank import Bank
from benchmarks.simulation import percent
from reports.statistics.decide import ALPHA, Measurements, decide

FILE = Path(__file__).with_name("decided.md")
STUDIES, QUICK_STUDIES = 1000, 8
FEWER_CELLS, FEWER_MINUTES = 0.4, 5.0  # the goals: share of cells saved, times fewer minutes
COLUMNS = (
    "seeds", "decided by", "true conclusions", "studies with a false one, %", "… beyond truth ± 2 se, %", "undecided",
    "cells", "core-minutes",
)  # fmt: skip
DECIDE, ALONE, PLAIN = "`decide`", "`decide`, these texts only", "t and Holm"
REGARDLESS = "`decide`, `--regardless`"  # further seeds also where they will hardly decide


@dataclass(frozen=True)
class Sizes:
    """`alike`: rows and seeds of the studies of a recipe against itself, and whether they stop by themselves."""

    studies: int
    seeds: tuple[int, ...]
    most: int
    alike: tuple[tuple[int, int, bool], ...]


def sizes(studies: int, quick: bool) -> Sizes:
    if quick:
        return Sizes(studies, (2, 3), 3, ((3, 2, False), (3, 3, True)))
    of_three = tuple((3, seeds, False) for seeds in range(2, 9))
    return Sizes(
        studies, (2, 3, 4, 5, 8, 12), 16, (*of_three, (8, 2, False), (8, 3, False), (3, 8, True), (8, 3, True))
    )


@dataclass(frozen=True)
class Outcomes:
    """What the same studies conclude by each design."""

    fixed: dict[tuple[str, int], Conclusions]
    stopping: dict[str, Conclusions]
    plain: dict[int, Conclusions]


def outcomes(bank: Bank, size: Sizes) -> Outcomes:
    generator = np.random.default_rng(0)
    of_fixed: dict[tuple[str, int], list[Conclusions]] = {(w, s): [] for s in size.seeds for w in (DECIDE, ALONE)}
    of_stopping: dict[str, list[Conclusions]] = {DECIDE: [], REGARDLESS: [], ALONE: []}
    values = []
    for _ in range(size.studies):
        each = drawn(bank, size.most, generator)
        studies = {DECIDE: measured(each), ALONE: measured(each, over_texts=False)}
        values.append(studies[DECIDE].values)
        for (way, seeds), studied in of_fixed.items():
            studied.append(fixed(studies[way], seeds))
        for way, studied in of_stopping.items():
            each_way = studies[DECIDE if way == REGARDLESS else way]
            studied.append(stopping(each_way, size.most, gives_up=way != REGARDLESS))
    plain = {seeds: by_t_and_holm(np.array(values), seeds) for seeds in range(2, size.most + 1)}
    return Outcomes(
        {key: together(studied) for key, studied in of_fixed.items()},
        {way: together(studied) for way, studied in of_stopping.items()},
        plain,
    )


def mean(values: ndarray) -> str:
    """With its standard error."""
    return f"{values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}"


def line(name: str, way: str, concluded: Conclusions, truth: Truth, bank: Bank) -> str:
    parts = [
        name,
        way,
        mean(concluded.true(truth)),
        percent(concluded.any_false(truth)),
        percent(concluded.any_false(truth, 2.0)),
        f"{concluded.undecided.mean():.2f}",
        f"{concluded.cells.mean():.1f}",
        f"{concluded.minutes(bank).mean():.1f}",
    ]
    return f"| {' | '.join(parts)} |"


def headed(lines: list[str]) -> str:
    return "\n".join([f"| {' | '.join(COLUMNS)} |", f"| --: | :-- |{' --: |' * (len(COLUMNS) - 2)}", *lines])


def text_of_truth(bank: Bank, truth: Truth) -> str:
    """All seeds and texts of the bank, as a report would judge them."""
    study = measured(bank.right)
    said = called(decide(study, pairs_with_first(len(bank.recipes))))
    lines = ["| recipe | accuracy | difference | se | verdict | seconds |", "| :-- | --: | --: | --: | :-- | --: |"]
    lines.append(f"| {bank.recipes[0]} | {study.values[0].mean():.4f} | | | baseline | {bank.seconds[0]:.0f} |")
    for number, recipe in enumerate(bank.recipes[1:]):
        mean_of, seconds = study.values[number + 1].mean(), bank.seconds[number + 1]
        both = f"{truth.differences[number]:+.4f} | {truth.errors[number]:.4f}"
        lines.append(f"| {recipe} | {mean_of:.4f} | {both} | {said[number]} | {seconds:.0f} |")
    counted = (
        f"{len(bank.seeds)} seeds, {bank.right.shape[2]} texts; margin {MARGIN}. The standard error is of the pair"
    )
    return f"{counted} alone, over seeds and texts; seconds are the median of a training.\n\n" + "\n".join(lines)


def text_of_fixed(judged: Outcomes, truth: Truth, bank: Bank) -> str:
    lines = []
    for (way, seeds), concluded in judged.fixed.items():
        lines.append(line(str(seeds), way, concluded, truth, bank))
        if way == ALONE:
            lines.append(line(str(seeds), PLAIN, judged.plain[seeds], truth, bank))
    return headed(lines)


def text_of_alike(bank: Bank, size: Sizes) -> str:
    """The share of studies that call any row of a recipe better or worse than another of the same recipe."""
    lines = ["| rows | seeds | any better or worse, % | these texts only, % |", "| --: | --: | --: | --: |"]
    shares = []
    for number, (rows, seeds, stops) in enumerate(size.alike):
        generator = np.random.default_rng([1, number])
        calls = []
        for study in range(size.studies):
            each = against_itself(bank, study % len(bank.recipes), rows, seeds, generator)
            calls.append([differs(measured(each, over), seeds, stops) for over in (True, False)])
        shares.append(np.mean(calls, axis=0))
        shown = f"stops, at most {seeds}" if stops else str(seeds)
        lines.append(f"| {rows} | {shown} | {' | '.join(percent(column) for column in np.array(calls).T)} |")
    level = f"{100 * ALPHA:.0f} %"
    clearly = ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / size.studies)
    both = zip(("With other texts", "Of these texts only"), np.array(shares).T, strict=True)
    says = [
        f"{which}, the mean of the lines is {100 * of_way.mean():.1f} % and the largest {100 * of_way.max():.1f} %; "
        f"{(of_way > ALPHA).sum()} of {len(of_way)} are above {level}, {(of_way > clearly).sum()} by more than 2 se."
        for which, of_way in both
    ]
    return "\n".join([f"{size.studies} studies in each line.\n", *lines, "", *says])


def differs(study: Measurements, seeds: int, stops: bool) -> bool:
    concluded = stopping(study, seeds) if stops else fixed(study, seeds)
    return bool(np.isin(concluded.verdicts, ("better", "worse")).any())


def text_of_stopping(judged: Outcomes, truth: Truth, bank: Bank, most: int) -> str:
    lines = [line(f"stops, at most {most}", way, concluded, truth, bank) for way, concluded in judged.stopping.items()]
    lines += [line(str(seeds), PLAIN, concluded, truth, bank) for seeds, concluded in judged.plain.items()]
    everything, differing = np.ones(len(truth.differences), bool), truth.beyond
    compared = [
        beside_plain(way, counted, judged, truth, bank)
        for way in judged.stopping
        for counted in ({"all comparisons": everything, "differences beyond the margin": differing}).items()
    ]
    return "\n\n".join([headed(lines), *compared, text_of_rows(judged, truth, bank)])


def beside_plain(way: str, counted: tuple[str, ndarray], judged: Outcomes, truth: Truth, bank: Bank) -> str:
    """The smallest fixed design with as many true conclusions by t-tests, and whether the goals are met against it."""
    ours, (of_which, columns) = judged.stopping[way], counted
    right = {seeds: plain.right(truth)[:, columns].sum(1).mean() for seeds, plain in judged.plain.items()}
    wanted = ours.right(truth)[:, columns].sum(1)
    error = wanted.std(ddof=1) / np.sqrt(len(wanted))
    least, seeds, most = (enough(right, wanted.mean() + shift) for shift in (-error, 0.0, error))
    begun = f"**{way}, stopping by itself**, {of_which}:\n{mean(wanted)} true conclusions with {spent(ours, bank)}."
    if seeds is None:
        last = max(right)
        return (
            f"{begun}\nt-tests with Holm do not reach that: {right[last]:.2f} with {spent(judged.plain[last], bank)}."
        )
    theirs = judged.plain[seeds]
    fewer = 1 - ours.cells.mean() / theirs.cells.mean()
    times = theirs.minutes(bank).mean() / ours.minutes(bank).mean()
    fewer_cells, fewer_minutes = ("met" if met else "missed" for met in (fewer >= FEWER_CELLS, times >= FEWER_MINUTES))
    lines = [
        begun,
        f"t-tests with Holm need {seeds} seeds for as many (within 1 se {least} to {most or f'over {max(right)}'}): "
        f"{right[seeds]:.2f} with {spent(theirs, bank)}.",
        f"So stopping takes {100 * abs(fewer):.0f} % {'fewer' if fewer >= 0 else 'more'} cells, and the t-tests take "
        f"{times:.2f} times its minutes:",
        f"the goal of {100 * FEWER_CELLS:.0f} % fewer cells is {fewer_cells}, that of {FEWER_MINUTES:.0f} times fewer "
        f"minutes is {fewer_minutes}.",
    ]
    return "\n".join(lines)


def enough(right: dict[int, float], wanted: float) -> int | None:
    return next((seeds for seeds, conclusions in right.items() if conclusions >= wanted), None)


def text_of_rows(judged: Outcomes, truth: Truth, bank: Bank) -> str:
    """Which rows stay open in studies that stop: there the cells go."""
    ways = list(judged.stopping)
    titles = [f"{title}, {way}" for title in ("seeds", "true, %") for way in ways]
    lines = [f"| recipe | {' | '.join(titles)} |", f"| :-- |{' --: |' * len(titles)}"]
    for number, recipe in enumerate(bank.recipes):
        seeds = [f"{judged.stopping[way].seeds[:, number].mean():.1f}" for way in ways]
        right = [
            f"{100 * judged.stopping[way].right(truth)[:, number - 1].mean():.0f}" if number else "" for way in ways
        ]
        lines.append(f"| {recipe} | {' | '.join([*seeds, *right])} |")
    explained = "Studies that stop by themselves, row by row: while a row stays open, the baseline trains on with it."
    return f"{explained}\n\n" + "\n".join(lines)


def spent(concluded: Conclusions, bank: Bank) -> str:
    return f"{concluded.cells.mean():.1f} cells and {concluded.minutes(bank).mean():.1f} core-minutes"


TOP = f"""# What studies drawn from real trainings conclude

Written by `python -m benchmarks.decision` from benchmarks/seed_bank.npz. Truth is the whole bank. A conclusion is true
where its sign is right, or where it says equivalent and the truth is within the margin of {MARGIN}; false where it says
otherwise; the second column of false ones allows for two standard errors of the truth. ± is one standard error over
the studies. They share one bank, of which a study holds a third of the texts and up to two thirds of the seeds: this
flatters every design, the more the more seeds it has, and no error here is one over other banks.

`decide` speaks of other texts as well: each study has {TEXTS} of its own. "These texts only" is `decide` over seeds
alone; t-tests also speak of these texts only, and never say equivalent: where the truth is within the margin, they are
right only by the sign. Where a row is compared with others of its own recipe, no two share a seed, and the recipes take
turns.
"""


def main() -> None:
    asked = options().parse_args()
    began, bank = time.monotonic(), seed_bank.load()
    size = sizes(asked.studies or (QUICK_STUDIES if asked.quick else STUDIES), asked.quick)
    truth, judged = truth_of(bank), outcomes(bank, size)
    texts = {
        "Truth": text_of_truth(bank, truth),
        "Fixed numbers of seeds": f"{size.studies} studies.\n\n{text_of_fixed(judged, truth, bank)}",
        "A recipe against itself": text_of_alike(bank, size),
        "Studies that stop by themselves": text_of_stopping(judged, truth, bank, size.most),
    }
    command = f"python -m benchmarks.decision {size.studies}{' --quick' if asked.quick else ''}"
    sections = [results.Section(title, time.strftime("%Y-%m-%d"), command, text) for title, text in texts.items()]
    results.write(sections, asked.into, TOP)
    print(f"{asked.into}: {time.monotonic() - began:.0f} seconds")


def options() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.decision", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("studies", nargs="?", type=int, metavar="STUDIES")
    command.add_argument("--quick", action="store_true", help="eight studies of few seeds, to see that everything runs")
    command.add_argument("--into", type=Path, default=FILE)
    return command


if __name__ == "__main__":
    main()
