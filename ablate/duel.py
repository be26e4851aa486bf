"""Decide between two commands with as few runs as possible: pairs of runs by seed, and a test after each look."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from pydantic import TypeAdapter

from ablate.commands import BASELINE, CANDIDATE, RunFolder, check_command, check_metric, in_turn
from contrastive.errors import UserError, printable
from reports.markdown import code
from reports.statistics.cutoffs import looks_up_to
from reports.statistics.decide import DECIDED, Decided, Family, Measurements, Verdict, decide, verdict
from reports.statistics.power import needed

SAME = 4  # pairs of equal differences after which no more are run


@dataclass(frozen=True)
class Duel:
    """Two commands, the number that they print, and when a difference matters."""

    baseline: str
    candidate: str
    metric: str
    lower: bool = False
    margin: float | None = None
    max_runs: int = 16

    def check(self) -> None:
        check_command("--baseline", self.baseline)
        check_command("--candidate", self.candidate)
        check_metric(self.metric)
        if self.max_runs < 4:
            raise UserError(f"--max-runs is {self.max_runs}; a verdict needs two pairs of runs, so at least 4")
        if self.margin is not None and not 0 < self.margin < math.inf:
            raise UserError(f"--margin is {self.margin:g}; give a size above 0")


@dataclass(frozen=True)
class Outcome:
    """The verdict on the candidate after some pairs of runs. `difference`: candidate minus baseline."""

    verdict: Verdict
    pairs: int
    runs: int
    difference: float = math.nan
    half_width: float = math.nan
    p: float = math.nan
    baseline: float = math.nan
    candidate: float = math.nan
    seconds: float = 0.0
    folder: str = ""
    pairs_needed: int | None = None  # that would probably decide it, if it is undecided

    @property
    def size(self) -> str:
        width = f" ± {self.half_width:.4g}" if math.isfinite(self.half_width) else ""
        return f"{self.difference:+.4g}{width}"

    def as_json(self) -> str:
        return TypeAdapter(Outcome).dump_json(self).decode()  # numbers that are not finite are null

    @property
    def remark(self) -> str:
        """A sentence on a verdict that is undecided or has no interval; empty for others."""
        if not math.isfinite(self.half_width):
            return " All pairs differ by exactly the same size, so that there is no interval."
        if self.pairs_needed:
            return f" About {self.pairs_needed} pairs would decide it: `--max-runs {2 * self.pairs_needed}`."
        return "" if self.verdict in DECIDED else " More pairs of runs are unlikely to decide it."

    def __str__(self) -> str:
        if self.pairs < 2:
            return f"{self.verdict} after {self.runs} runs: a verdict needs two pairs of runs"
        means = f"candidate {self.candidate:.6g}, baseline {self.baseline:.6g}, difference {self.size}"
        return f"{self.verdict} after {2 * self.pairs} runs: {means}" + (self.remark and f".{self.remark}")

    def as_markdown(self, duel: Duel) -> str:
        """Return the verdict as a comment on a pull request."""
        if self.pairs < 2:
            return f"**Undecided**: {self.runs} runs were finished within `--budget`, and a verdict needs two pairs\n"
        direction = "lower" if duel.lower else "higher"
        return (
            f"**{self.verdict.capitalize()}** by {code(duel.metric)} ({direction} is better)\n\n"
            f"| baseline | this change | difference | pairs of runs |\n|--:|--:|--:|--:|\n"
            f"| {self.baseline:.6g} | {self.candidate:.6g} | {self.size} | {self.pairs} |\n\n"
            "The interval holds in 95 % of cases; a change that does nothing is called worse in 2.5 %."
            f"{self.remark}\n\n"
            f"Baseline:\n\n{fenced(duel.baseline)}\nThis change:\n\n{fenced(duel.candidate)}"
        )


def fenced(text: str) -> str:
    """Return a text as a Markdown code block that it cannot leave: its tags, links and mentions are only shown."""
    shown = printable(text)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+|~+", shown)), default=0))
    return f"{fence}\n{shown}\n{fence}\n"


def fight(duel: Duel, folder: RunFolder, tell: Callable[[str], None]) -> Outcome:
    """Run pairs until a look decides, or the most runs or the deadline are reached."""
    nothing = Outcome("undecided", 0, len(folder.runs), seconds=folder.seconds, folder=str(folder.path))
    last = [nothing, *looks(duel, folder, tell)][-1]
    if last.verdict != "undecided" or not last.half_width > 0:
        return last
    line = judged(duel, values_at(folder, last.pairs))[1]
    needs = needed(line, Family(2, ((1, 0),), most_seeds=duel.max_runs // 2), duel.margin, 0).seeds  # takes a second
    return replace(last, pairs_needed=needs)


def looks(duel: Duel, folder: RunFolder, tell: Callable[[str], None]) -> Iterator[Outcome]:
    """Run pairs and yield what each look finds, to the one that decides."""
    commands = {BASELINE: duel.baseline, CANDIDATE: duel.candidate}
    for pairs in looks_up_to(duel.max_runs // 2):
        wanted = [(side, seed) for seed in range(pairs) for side in in_turn(seed)]
        if not folder.complete(wanted, commands):
            tell("the budget is spent")
            break
        yield (outcome := outcome_at(duel, folder, pairs))
        tell(f"{pairs} pairs: {outcome.size}, {outcome.verdict}")
        if outcome.verdict in DECIDED:
            break
        baseline, candidate = values_at(folder, pairs)
        if pairs >= SAME and np.ptp(candidate - baseline) == 0:
            tell("the commands differ by the same size at every seed, so that more runs would tell nothing")
            break


def outcome_at(duel: Duel, folder: RunFolder, pairs: int) -> Outcome:
    """Return the verdict of the first `pairs` seeds, by the test of a study that adds seeds."""
    values = values_at(folder, pairs)
    baseline, candidate = values.mean(axis=1).tolist()
    word, line = judged(duel, values)
    numbers = line.difference, line.half_width, line.p, baseline, candidate
    return Outcome(word, pairs, len(folder.runs), *numbers, folder.seconds, str(folder.path))


def values_at(folder: RunFolder, pairs: int) -> np.ndarray:
    """Return the values [baseline and candidate, seed] of the first pairs."""
    return np.array([[folder.values(side)[seed] for seed in range(pairs)] for side in (BASELINE, CANDIDATE)])


def judged(duel: Duel, values: np.ndarray) -> tuple[Verdict, Decided]:
    """Return the verdict of a look at values [baseline and candidate, seed], and its interval."""
    (line,) = decide(Measurements(values), ((1, 0),), most_seeds=duel.max_runs // 2)
    word = verdict(line.difference, line.half_width, not duel.lower, duel.margin, line.seeds)
    if word == "no spread":  # the same numbers at every seed
        word = "equivalent" if duel.margin is not None and abs(line.difference) < duel.margin else "undecided"
    return word, line
