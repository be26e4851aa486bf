"""A ledger of proposals: each is kept only if it beats the baseline, with an error shared by all of them.

A proposal first gets one run. If that is not clearly above the baseline's recent runs, it is dropped. Otherwise fresh
pairs of runs (proposal and baseline, same seed, in turn) decide it, so that neither the lucky first run nor a drift of
the machine counts. The level of all these tests together is ALPHA: the k-th spends 20 / ((k + 19) (k + 20)) of it. The
spread of a run is pooled over the ledger; the pairs of a proposal that vary more count by their own spread. A kept
proposal is the new baseline, and is measured with fresh seeds before the next proposal.
`benchmarks/ledger.md` has the error rates and costs of this rule, by simulation.
"""

import json
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import special

from ablate.commands import (
    BASELINE,
    CANDIDATE,
    STRICT,
    Run,
    RunFailed,
    RunFolder,
    append,
    check_command,
    check_metric,
    damaged,
    in_turn,
    read_lines,
)
from ablate.metric import lower_is_better
from contrastive.errors import UserError, brief
from contrastive.runs.store import write_atomic

ALPHA = 0.05
SPENDING = 20  # tests that share half of the level
REFERENCE = 8  # runs of a new baseline, and recent ones that a first run is compared with
REFRESH = 4  # proposals after which the baseline runs once more
SCREEN = 1.1  # standard errors that a first run must be above the baseline's recent runs
LOOKS = (3, 4, 6, 8)  # pairs at which a proposal can be kept
LOOK_SHARE = 2  # the level of a test is divided by this for its looks (they are much alike)
FUTILE = 0.3  # a test ends when its statistic is below this; after the first pair, below FUTILE − 1
ALIKE = 2 / 3  # degrees of freedom of a successive difference
AGAIN = "baseline again"  # side of the baseline's run with every REFRESH-th proposal

Result = Literal["kept", "dropped", "failed"]
SeedRunner = Callable[[str, int], float]  # (side, seed) → value, higher is better


@dataclass
class Spread:
    """The pooled variance of one run."""

    squares: float = 0.0
    freedom: float = 0.0

    def add_series(self, values: Sequence[float]) -> None:
        """Add runs of one command in order of time, by successive differences: a drift adds little to them."""
        differences = np.diff(values)
        self.squares += ALIKE * float(np.square(differences).sum()) / 2
        self.freedom += ALIKE * len(differences)

    def add_pairs(self, differences: Sequence[float]) -> None:
        if len(differences) > 1:
            self.squares += float(np.var(differences)) * len(differences) / 2
            self.freedom += len(differences) - 1

    @property
    def deviation(self) -> float:
        return math.sqrt(self.squares / self.freedom) if self.freedom else math.nan


@dataclass
class LedgerState:
    """Memory of the rule: the baseline's runs, the spread, and how much of the level is spent."""

    reference: list[float] = field(default_factory=list)
    spread: Spread = field(default_factory=Spread)
    proposals: int = 0
    tests: int = 0
    seed: int = 0  # the next fresh one

    def begin(self, run: SeedRunner) -> None:
        """Measure a new baseline with fresh seeds."""
        self.reference = [run(BASELINE, self.fresh()) for _ in range(REFERENCE)]
        self.spread.add_series(self.reference)

    def fresh(self) -> int:
        self.seed += 1
        return self.seed - 1

    def judge(self, run: SeedRunner) -> tuple[Result, list[float]]:
        """Judge a proposal; return kept or dropped, and the differences of its pairs."""
        self.proposals += 1
        value = run(CANDIDATE, self.fresh())
        if self.proposals % REFRESH == 0:
            self.reference.append(run(AGAIN, self.fresh()))
            self.spread.add_series(self.reference[-2:])
        recent = self.reference[-REFERENCE:]
        first = value - float(np.mean(recent))
        if first <= SCREEN * self.spread.deviation * math.sqrt(1 + 1 / len(recent)):
            return "dropped", []
        self.tests += 1
        differences = list[float]()
        result: Result | None = None
        while result is None:
            seed = self.fresh()
            values = {side: run(side, seed) for side in in_turn(len(differences))}
            differences.append(values[CANDIDATE] - values[BASELINE])
            result = self.decide(differences)
        self.spread.add_pairs(differences)
        return result, differences

    def decide(self, differences: Sequence[float]) -> Result | None:
        """Return whether the pairs so far keep or drop the proposal; None if more are needed."""
        spread = Spread(self.spread.squares, self.spread.freedom)
        spread.add_pairs(differences)
        count, mean = len(differences), float(np.mean(differences))
        variance = float(np.var(differences, ddof=1)) if count > 1 else 0.0  # a proposal may be noisier
        error = math.sqrt(max(2 * spread.deviation**2, variance) / count)
        statistic = mean / error if error else math.inf * mean if mean else 0.0
        if count in LOOKS and statistic >= self.cutoff(spread.freedom):
            return "kept"
        if statistic < (FUTILE if count > 1 else FUTILE - 1) or count == LOOKS[-1]:
            return "dropped"
        return None

    def cutoff(self, freedom: float) -> float:
        level = ALPHA * SPENDING / ((self.tests + SPENDING - 1) * (self.tests + SPENDING))
        return -float(special.stdtrit(freedom, level / LOOK_SHARE))


@dataclass(frozen=True)
class Settings:
    """The line of ledger.json: what every proposal of a ledger shares."""

    __pydantic_config__ = STRICT

    metric: str
    lower: bool


@dataclass(frozen=True)
class Proposal:
    """A judged proposal, as a line of ledger.jsonl."""

    __pydantic_config__ = STRICT

    number: int
    candidate: str
    baseline: str
    result: Result
    runs: int
    seconds: float
    pairs: int = 0
    difference: float | None = None  # mean over the pairs, candidate minus baseline, as printed by the commands
    why: str = ""  # of a failure
    code: str = ""  # identifies the baseline, as it was measured
    candidate_code: str = ""  # identifies the candidate and the baseline; empty if it was interrupted

    def __str__(self) -> str:
        plural = "s" * (self.pairs != 1)
        size = "" if self.difference is None else f", {self.difference:+.4g} over {self.pairs} pair{plural}"
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        return f"{self.number:4} {self.result:8} {runs}{size}: {brief(self.candidate, 120)}"


@dataclass(frozen=True, kw_only=True)
class LedgerRun(Run):
    """A line of runs.jsonl: a run of a proposal, or with -N of the baseline that was measured before it."""

    proposal: int
    command: str


@dataclass
class Ledger:
    """The proposals of a folder, with every run, so that an interrupted one continues and nothing runs twice."""

    folder: RunFolder
    lower: bool
    code_of: Callable[..., str] = lambda *commands: json.dumps(commands)  # identifies what commands would do
    proposals: list[Proposal] = field(default_factory=list)
    state: LedgerState = field(default_factory=LedgerState)
    current: tuple[str, str] | None = None  # the baseline that is measured, and its code

    def load(self) -> None:
        """Read the folder, and judge its proposals again by their runs; raise UserError if they do not fit."""
        file = self.folder.path / "ledger.jsonl"
        self.proposals = read_lines(file, Proposal)
        self.folder.runs = read_lines(file.with_name("runs.jsonl"), LedgerRun)
        for number, proposal in enumerate(self.proposals, 1):
            if (proposal.number, proposal.runs) != (number, count := len(self._runs(number))):
                raise damaged(file, number, f"runs.jsonl has {count} runs of proposal {number}")
            self._measure(proposal.number, proposal.baseline, proposal.code)
            if proposal.result == "failed":
                self._spend(proposal.number)
                continue
            run = self._replay(proposal.number, proposal.baseline, proposal.candidate)
            result, differences = self.state.judge(run)
            if (result, len(differences)) != (proposal.result, proposal.pairs):
                raise damaged(file, proposal.number, f"runs.jsonl gives {result} over {len(differences)} pairs")

    def _measure(self, number: int, baseline: str, code: str) -> None:
        """Measure a baseline (as proposal -N) if it is new, its code has changed, or a proposal was kept."""
        if number > 1 and self.proposals[number - 2].result == "kept":
            self.current = None
        if self.current == (baseline, code):
            return
        if self.current and self.current[0] == baseline and number > len(self.proposals):
            self.folder.tell("the baseline's code has changed since it was measured, so that it is measured anew")
        self.state.begin(self._replay(-number, baseline, baseline, code))
        self.current = baseline, code

    def _spend(self, number: int) -> None:
        """Count the test of a failed proposal, if it had begun: it might have been kept. Its seeds are used up."""
        sides = [run.side for run in self._runs(number)]
        self.state.tests += BASELINE in sides or sides.count(CANDIDATE) > 1
        self.state.seed = max([self.state.seed, *(run.seed + 1 for run in self._runs(number))])

    @property
    def baseline(self) -> str:
        """The command that the next proposal must beat; empty before the first one."""
        last = self.proposals[-1] if self.proposals else None
        return "" if last is None else last.candidate if last.result == "kept" else last.baseline

    def known(self, candidate: str, baseline: str) -> Proposal | None:
        """Return the proposal that was kept last, or the last one against this baseline, if it is this one, with the
        code that it had. An interrupted one is judged anew."""
        last_kept = [proposal for proposal in self.proposals if proposal.result == "kept"][-1:]
        last = [proposal for proposal in self.proposals[-1:] if proposal.baseline == baseline]
        for proposal in (*last_kept, *last):
            code = self.code_of(candidate, proposal.baseline)
            if (proposal.candidate, proposal.candidate_code) == (candidate, code):
                return proposal
        return None

    def judge(self, candidate: str, baseline: str = "") -> Proposal:
        """Judge a proposal and record it; an interrupted one continues if its code is the same."""
        if not (baseline := baseline or self.baseline):
            raise UserError("a new ledger needs --baseline: the command that proposals must beat")
        check_command("--candidate", candidate)
        check_command("--baseline", baseline)
        if known := self.known(candidate, baseline):
            self.folder.tell(f"proposal {known.number} again, with the same code: nothing runs")
            return known
        if candidate == baseline:
            raise UserError("the proposal is the baseline's own command: give the baseline a folder of its own")
        self._measure(len(self.proposals) + 1, baseline, self.code_of(baseline))
        code = self.code_of(candidate, baseline)
        if others := [run for run in self._runs(len(self.proposals) + 1) if run.code != code]:
            command = next((run.command for run in others if run.side == CANDIDATE), "unknown")
            why = "interrupted, and another proposal or version followed"
            recorded = self._record(command, baseline, "", RunFailed(CANDIDATE, why, 0.0))
            self.folder.tell(f"{recorded} ({why})")
        before = deepcopy(self.state)
        run = self._replay(len(self.proposals) + 1, baseline, candidate, code)
        try:
            return self._record(candidate, baseline, code, self.state.judge(run))
        except RunFailed as failed:
            if failed.side != CANDIDATE:
                raise  # the same call goes on when the baseline is mended
            self.state = before
            return self._record(candidate, baseline, code, failed)

    def _record(
        self, candidate: str, baseline: str, code: str, outcome: tuple[Result, list[float]] | RunFailed
    ) -> Proposal:
        """Append a proposal to the ledger. Its outcome is a result with the differences of its pairs, or a failure."""
        runs = self._runs(number := len(self.proposals) + 1)
        seconds, why = sum(run.seconds for run in runs), ""
        result: Result
        if isinstance(outcome, RunFailed):
            result, differences = "failed", list[float]()
            seconds, why = seconds + outcome.seconds, str(outcome)
            self._spend(number)
        else:
            result, differences = outcome
        mean = (-1 if self.lower else 1) * float(np.mean(differences)) + 0.0 if differences else None
        counted = len(runs), seconds, len(differences), mean
        baseline_code = self.current[1] if self.current else ""
        proposal = Proposal(number, candidate, baseline, result, *counted, why, baseline_code, code)
        append(self.folder.path / "ledger.jsonl", asdict(proposal))
        self.proposals.append(proposal)
        return proposal

    def _runs(self, number: int) -> list[LedgerRun]:
        return [run for run in self.folder.runs if isinstance(run, LedgerRun) and run.proposal == number]

    def _replay(self, number: int, baseline: str, candidate: str, code: str = "") -> SeedRunner:
        """Return a runner that gives the stored runs of a proposal first, then new ones if it is not recorded yet."""
        # several baselines may have been measured before the proposal was judged
        stored = iter([run for run in self._runs(number) if number > 0 or run.code == code])
        sign, file = -1.0 if self.lower else 1.0, self.folder.path / "runs.jsonl"

        def run(side: str, seed: int) -> float:
            line = next(stored, None)
            if line is None:
                if abs(number) <= len(self.proposals):
                    raise damaged(file.with_name("ledger.jsonl"), abs(number), "runs.jsonl lacks runs of its baseline")
                command = candidate if side == CANDIDATE else baseline
                finished = self.folder.run_twice(side, command, seed, f"{abs(number)}-", code)
                line = LedgerRun(**asdict(finished), proposal=number, command=command)
                self.folder.record(line)
            if (line.side, line.seed) != (side, seed):
                place = self.folder.runs.index(line) + 1
                raise damaged(file, place, f"here belongs a run of the {side} with seed {seed}")
            return sign * line.value

        return run

    def summary(self) -> str:
        """Return the last line of a ledger that is shown: what it has tried and kept, and what that cost."""
        kept = sum(proposal.result == "kept" for proposal in self.proposals)
        seconds = sum(proposal.seconds for proposal in self.proposals)  # failed runs too
        seconds += sum(run.seconds for number in range(1, len(self.proposals) + 2) for run in self._runs(-number))
        return f"{len(self.proposals)} proposals, {kept} kept, {len(self.folder.runs)} runs, {seconds / 3600:.1f} h"


def settings(path: Path, metric: str, lower: bool | None) -> Settings:
    """Return the settings of a ledger, fixed by its first run; raise UserError if others are given."""
    file = path / "ledger.json"
    if not (path / "runs.jsonl").exists():
        if not metric:
            raise UserError("a new ledger needs --metric: a regular expression that finds the number in the output")
        check_metric(metric)
        write_atomic(file, json.dumps(asdict(Settings(metric, lower_is_better(metric, lower)))))
    for begun in read_lines(file, Settings):
        if metric not in ("", begun.metric) or lower not in (None, begun.lower):
            option = "--lower" if begun.lower else "--higher"
            raise UserError(f"this ledger began with --metric `{brief(begun.metric)}` {option}; leave both out")
        return begun
    raise damaged(file, 1, "it needs a metric and lower")
