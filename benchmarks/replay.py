"""Compare what added seeds decide with what a fixed number of seeds would have decided, from the same trained cells.

    python -m benchmarks.replay reports/output/study-terms [FIXED] ...

FIXED is the report of the same file with the seeds of the fixed design for all rows. Its verdicts are the usual ones:
paired t with Holm's correction, and two one-sided tests for equivalence, over the rows of a section. Cells that rows
share count once in both.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.simulation import usual_verdicts
from reports.statistics.decide import DECIDED


def added(report: Path) -> tuple[int, int, int]:
    """Return the numbers of comparisons, of decided ones and of trainings of a report."""
    lines = primary_lines(report)
    cells = pd.read_csv(report / "results.csv").query("status == 'finished'").cell.nunique()
    return len(lines), int(lines.verdict.isin(DECIDED).sum()), cells


def fixed(report: Path, seeds: int) -> tuple[int, int, int]:
    """Return the same for a design with so many seeds of every row."""
    lines, results = primary_lines(report), pd.read_csv(report / "results.csv")
    results = results[results.score == lines.value.iloc[0]]
    first = sorted(results.seed.unique())[:seeds]
    results = results[results.seed.isin(first)]
    decided = 0
    for title, compared in lines.groupby("section", sort=False):
        values = results[results.section == title].pivot(index="label", columns="seed", values="value")
        apart = np.array([values.loc[line.label] - values.loc[line.against] for line in compared.itertuples()])
        assert np.isfinite(apart).all() and apart.shape[1] == seeds, f"{report}: {title} has fewer seeds"
        decided += int(np.isin(usual_verdicts(apart[None], float(compared.margin.iloc[0])), DECIDED).sum())
    return len(lines), decided, results.cell.nunique()


def primary_lines(report: Path) -> pd.DataFrame:
    """Return the comparisons in the first score that has a margin."""
    lines = pd.read_csv(report / "comparisons.csv")
    return lines[(lines.value == lines[lines.margin.notna()].value.iloc[0]) & lines.against.notna()]


def main() -> None:
    first, *others = [Path(each) for each in sys.argv[1:]]
    print("| design | comparisons | decided | trainings | trainings a verdict |\n|---|---|---|---|---|")
    designs = {"added seeds": added(first)}
    for report in others:
        most = pd.read_csv(report / "results.csv").seed.nunique()
        designs |= {f"{seeds} seeds": fixed(report, seeds) for seeds in range(2, most + 1)}
    for design, (comparisons, decided, cells) in designs.items():
        print(f"| {design} | {comparisons} | {decided} | {cells} | {cells / decided if decided else np.inf:.1f} |")


if __name__ == "__main__":
    main()
