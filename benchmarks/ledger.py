"""False and true verdicts of `ablate judge`, its ledger, and of keeping any improvement, on simulated commands.

python -m benchmarks.ledger [--nights N] [--into FILE]    # writes benchmarks/ledger.md, in about four minutes
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy import ndarray

from ablate.duel import Duel, judged
from ablate.ledger import CANDIDATE, LedgerState
from benchmarks.worlds import bank, heavy_tails, normal
from contrastive.runs.provenance import processor
from reports.statistics.cutoffs import looks_up_to
from reports.statistics.decide import DECIDED

FILE = Path(__file__).with_name("ledger.md")
PROPOSALS, TRUE = 100, 10  # in a night; how many of them are real improvements, if any
WALK = 0.12  # standard deviation of a step of the drifting machine, in those of a run: some 2 over a night


@dataclass(frozen=True)
class Noise:
    """How runs vary: by draws of standard deviation 1, by a drift, and proposals perhaps more than the baseline."""

    draw: Callable[[np.random.Generator], float]
    drift: float = 0.0
    proposed: float = 1.0


class Machine:
    """Runs commands whose true value is known. The unit is the standard deviation of a run."""

    def __init__(self, kind: "Noise", rng: np.random.Generator):
        self.kind, self.rng = kind, rng
        self.level, self.runs = 0.0, 0

    def run(self, truth: float, *, proposed: bool = False) -> float:
        self.runs += 1
        self.level += self.kind.drift * self.rng.normal()
        return truth + self.level + self.kind.draw(self.rng) * (self.kind.proposed if proposed else 1.0)


@dataclass
class Night:
    """What a rule made of a night."""

    false: int
    found: int
    runs: int
    off: float  # recorded value of the baseline less its true one


Rule = Callable[[Machine, ndarray], Night]


def played(
    machine: Machine, effects: ndarray, judge: Callable[[float, float], bool], recorded: Callable[[], float]
) -> Night:
    """Judge one proposal after another; a kept one is the baseline of the next."""
    truth, kept = 0.0, list[float]()
    for effect in effects:
        if judge(truth, truth + effect):
            truth += effect
            kept.append(effect)
    false = sum(effect == 0 for effect in kept)
    return Night(false, len(kept) - false, machine.runs, recorded() - truth - machine.level)


def our_ledger(machine: Machine, effects: ndarray) -> Night:
    state = LedgerState()
    state.begin(lambda *_: machine.run(0.0))

    def judge(baseline: float, candidate: float) -> bool:
        def run(who: str, _: int) -> float:
            proposed = who == CANDIDATE
            return machine.run(candidate if proposed else baseline, proposed=proposed)

        result, _ = state.judge(run)
        if result == "kept":
            state.begin(lambda *_: machine.run(candidate))
        return result == "kept"

    return played(machine, effects, judge, lambda: float(np.mean(state.reference[-8:])))


def any_improvement(machine: Machine, effects: ndarray) -> Night:
    """Keep a proposal whose only run is better than the recorded best."""
    best = machine.run(0.0)

    def judge(_: float, candidate: float) -> bool:
        nonlocal best
        value, before = machine.run(candidate, proposed=True), best
        best = max(before, value)
        return value > before

    return played(machine, effects, judge, lambda: best)


RULES: dict[str, Rule] = {"one run, any improvement": any_improvement, "**`ablate judge ledger`**": our_ledger}


@cache
def of_real_trainings() -> ndarray:
    """Return the spread of real trainings: accuracies of eight recipes at 24 seeds, less each recipe's mean."""
    accuracy = bank().right.mean(2)
    centred = accuracy - accuracy.mean(1, keepdims=True)
    return np.asarray((centred / centred.std(axis=1, ddof=1, keepdims=True)).ravel())


NOISES = {
    "normal": Noise(lambda rng: float(normal(rng, ()))),
    "t(3)": Noise(lambda rng: float(heavy_tails(rng, ()))),
    "real trainings": Noise(lambda rng: float(rng.choice(of_real_trainings()))),
    "normal, drifting": Noise(lambda rng: float(normal(rng, ())), WALK),
    "lognormal": Noise(lambda rng: float(rng.lognormal() - np.exp(0.5)) / ((np.e - 1) * np.e) ** 0.5),
    "normal, proposals twice": Noise(lambda rng: float(normal(rng, ())), proposed=2.0),
}


def nights(rule: Rule, noise: str, effect: float, count: int, seed: int = 0) -> list[Night]:
    """Play nights without real improvements (effect 0), or with TRUE of them."""
    played_nights = []
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        effects = np.zeros(PROPOSALS)
        if effect:
            effects[rng.choice(PROPOSALS, TRUE, replace=False)] = effect
        played_nights.append(rule(Machine(NOISES[noise], rng), effects))
    return played_nights


def duels(noise: str, effect: float, count: int) -> Counter[str]:
    """Count the verdicts of `ablate judge` on a change of this size, and its runs."""
    duel, found = Duel("baseline", "candidate", ""), Counter[str]()
    for number in range(count):
        machine = Machine(NOISES[noise], np.random.default_rng((1, number)))
        values, word = np.empty((2, 0)), "undecided"
        for look in looks_up_to(duel.max_runs // 2):
            while values.shape[1] < look:
                truths = (0.0, effect)
                order = (0, 1) if values.shape[1] % 2 == 0 else (1, 0)
                pair = {who: machine.run(truths[who], proposed=who == 1) for who in order}
                values = np.column_stack([values, [pair[0], pair[1]]])
            word, _line = judged(duel, values)
            if word in DECIDED:
                break
        found.update({word: 1, "runs": machine.runs})
    return found


def share_false(played_nights: list[Night]) -> float:
    return float(np.mean([night.false > 0 for night in played_nights]))


def lines(count: int) -> Iterator[str]:
    yield "# `ablate judge` and its ledger, simulated\n"
    yield f"`python -m benchmarks.ledger --nights {count}`, {processor()}. Sizes are in standard deviations of a run.\n"
    yield f"## Nothing is an improvement ({count} nights)\n"
    yield "| noise | rule | nights with a false keep | recorded best, off the truth | runs a proposal |"
    yield "|---|---|--:|--:|--:|"
    for noise in NOISES:
        for name, rule in RULES.items():
            these = nights(rule, noise, 0.0, count)
            off, runs = np.mean([n.off for n in these]), np.mean([n.runs for n in these]) / PROPOSALS
            yield f"| {noise} | {name} | {share_false(these):.3f} | {off:+.1f} | {runs:.2f} |"
    yield f"\n## {TRUE} of {PROPOSALS} proposals are improvements ({count} nights)\n"
    yield "| noise | size | found by the ledger | runs a proposal | nights with a false keep |\n|---|--:|--:|--:|--:|"
    for noise in NOISES:
        for size in (1.0, 2.0, 3.0, 4.0):
            these = nights(our_ledger, noise, size, count)
            found, runs = np.mean([n.found for n in these]) / TRUE, np.mean([n.runs for n in these]) / PROPOSALS
            yield f"| {noise} | {size:g} | {found:.2f} | {runs:.2f} | {share_false(these):.3f} |"

    yield f"\n## One change, by `ablate judge` ({5 * count} changes)\n"
    yield "| noise | size | better | worse | runs |\n|---|--:|--:|--:|--:|"
    for noise in NOISES:
        for size in (0.0, -1.0, -2.0, -3.0):
            found = duels(noise, size, 5 * count)
            shares = " | ".join(f"{found[word] / (5 * count):.3f}" for word in ("better", "worse"))
            yield f"| {noise} | {size:g} | {shares} | {found['runs'] / (5 * count):.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nights", type=int, default=1000)
    parser.add_argument("--into", type=Path, default=FILE)
    given = parser.parse_args()
    given.into.write_text("\n".join(lines(given.nights)) + "\n", encoding="utf-8")
    print(f"see {given.into}")


if __name__ == "__main__":
    main()
