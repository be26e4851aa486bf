"""How often the tests of a report err where nothing is better, what their intervals cover and what they find.

    python -m benchmarks.simulation [GRIDS]

Texts are right or wrong by a probit model: a difficulty of each text, what a recipe makes of it, what a seed does to
all recipes and to one, and noise of each text at each seed. Without effect all recipes have the same accuracy.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd
from reports.statistics.spread import half_width
from scipy import stats

from reports import statistics as st

GRIDS, BLOCK, SEEDS = 2000, 100, (2, 3, 5)
DIFFICULTY, SHARED, ROWS = 1.5, 0.1, 6  # standard deviations beside a text's noise of 1; rows of a section


@dataclass(frozen=True)
class Data:
    """Standard deviations of what a seed and a text do to one recipe; whether the score is the mean of texts."""

    seeds: float
    texts: float
    accuracy: float = 0.85
    count: int = 400
    macro: bool = False


DATA = {
    "seeds and texts": Data(0.3, 0.7),
    "no seed effect": Data(0.0, 0.7),
    "the same recipe": Data(0.0, 0.0),
    "few errors": Data(0.1, 0.5, accuracy=0.98),
    "macro-F1, seeds": Data(0.3, 0.0, macro=True),
    "macro-F1, no seed effect": Data(0.0, 0.0, macro=True),
}


def grids(data: Data, seeds: int, count: int, rows: int = ROWS, start: int = 0) -> Iterator[np.ndarray]:
    """Which texts each row has right at each seed, rows × seeds × texts."""
    generator = np.random.default_rng(start)
    whole = np.sqrt(1 + data.seeds**2 + data.texts**2 + SHARED**2 + DIFFICULTY**2)

    def normal(*shape: int) -> np.ndarray:
        return generator.standard_normal((BLOCK, *shape), dtype=np.float32)

    for _ in range(-(-count // BLOCK)):
        latent = normal(rows, seeds, data.count) + data.seeds * normal(rows, seeds, 1) + SHARED * normal(1, seeds, 1)
        latent += data.texts * normal(rows, 1, data.count) + DIFFICULTY * normal(1, 1, data.count)
        yield from latent > -stats.norm.ppf(data.accuracy) * whole


def macro_f1(right: np.ndarray) -> np.ndarray:
    """Of two classes, that the texts have in turn."""
    ones, zeros = right[..., ::2], right[..., 1::2]
    wrong = (~right).sum(-1)
    return sum(2 * part.sum(-1) / (2 * part.sum(-1) + wrong) for part in (ones, zeros)) / 2


@dataclass(frozen=True)
class Found:
    """Shares of the grids with a wrong finding against the baseline, and with a row wrongly not bold; and coverage."""

    family: float
    unbold: float
    coverage: float


def no_effect(data: Data, seeds: int, count: int = GRIDS) -> Found:
    upper = np.triu_indices(ROWS, 1)
    family, unbold, covered = [], [], []
    for right in grids(data, seeds, count):
        values = macro_f1(right) if data.macro else right.mean(2)
        pairs = st.all_pairs(values, *((None, data.count) if data.macro else (right,)))
        family.append((st.holm(pairs.p[1:, 0]) <= st.ALPHA).any())
        adjusted = np.full((ROWS, ROWS), np.nan)
        adjusted[upper] = st.holm(pairs.p[upper])
        unbold.append(not st.tied(values.mean(1), np.fmin(adjusted, adjusted.T), higher=True).all())
        for i in np.flatnonzero(~np.isnan(pairs.p[0])):
            spread = st.Spread(pairs.seeds[i, 0], pairs.freedom, pairs.texts[i, 0], pairs.texts_freedom)
            covered.append(abs(pairs.mean[i, 0]) <= half_width(spread))
    return Found(float(np.mean(family)), float(np.mean(unbold)), float(np.mean(covered)))


def planted(seeds: int, over_texts: bool, count: int = GRIDS, comparisons: int = 5) -> tuple[float, float]:
    """One of several comparisons differs by what `detectable` says: how often it is found, with the spread known, and
    the power, on average, at what it says with the spread that it estimates from the grid."""
    texts, of_seed, of_text = 100, 0.1, 1.0 if over_texts else 0.0
    known = st.Spread(2 * (of_seed**2 + 1 / texts) / seeds, seeds - 1)
    if over_texts:
        known = st.Spread(known.seeds, known.freedom, 2 * of_text**2 / texts, texts - 1)
    alpha = st.ALPHA / comparisons
    effect = st.detectable(known, alpha)
    generator, found, powers = np.random.default_rng(seeds), [], []
    for _ in range(count):
        each = sum(
            size * generator.standard_normal((comparisons + 1, *shape))
            for size, shape in ((1.0, (seeds, texts)), (of_seed, (seeds, 1)), (of_text, (1, texts)))
        )
        each[1] += effect
        values = each.mean(2)
        pairs = st.all_pairs(values, each if over_texts else None)
        found.append(st.holm(pairs.p[1:, 0])[0] <= st.ALPHA)
        if len(powers) < count // 8:
            differences = [
                st.paired(values[i], values[0], *((each[i], each[0]) if over_texts else ()))
                for i in range(1, comparisons + 1)
            ]
            powers.append(st.power(st.detectable(st.pooled(differences), alpha), known, alpha))
    return float(np.mean(found)), float(np.mean(powers))


def mcnemar(count: int = GRIDS) -> float:
    """The family-wise error over trained models, one seed each."""
    same = DATA["seeds and texts"]
    wrong = 0
    for right in grids(Data(0.0, same.texts), 1, count, start=1):
        p = np.array([st.mcnemar(right[i, 0], right[0, 0])[2] for i in range(1, ROWS)])
        wrong += bool((st.holm(p) <= st.ALPHA).any())
    return wrong / count


def axes(seeds: int, count: int = GRIDS) -> tuple[float, float]:
    """The family-wise error over main effects and interactions of two axes, and coverage of a level's deviation."""
    generator, wrong, covered = np.random.default_rng(seeds), [], []
    cells = pd.MultiIndex.from_product([range(3), range(2), range(seeds)], names=["k", "alpha", "seed"])
    frame = cells.to_frame(index=False)
    for _ in range(count):
        frame["value"] = generator.standard_normal(len(frame)) + generator.standard_normal(seeds)[frame["seed"]]
        wrong.append((st.effects(frame, ["k", "alpha"], "value")["p_holm"] <= st.ALPHA).any())
        level = st.levels(frame, ["k", "alpha"], "k", "value")
        covered.append((level["mean"] - level["mean"].mean()).abs() <= level["half_width"])
    return float(np.mean(wrong)), float(np.mean(covered))


def axes_over_texts(seeds: int, count: int = GRIDS) -> float:
    """The family-wise error over two axes of recipes that are alike on all texts, and not on these."""
    cells = pd.MultiIndex.from_product([range(2), range(2), range(seeds)], names=["k", "alpha", "seed"])
    frame, wrong = cells.to_frame(index=False), []
    for each in islice(grids(DATA["seeds and texts"], seeds, count, rows=4, start=3), count):
        frame["value"] = each.mean(2).ravel()
        found = st.effects(frame, ["k", "alpha"], "value", from_texts=st.interaction_of_texts(each))
        wrong.append((found["p_holm"] <= st.ALPHA).any())
    return float(np.mean(wrong))


def summaries(seeds: int, count: int = GRIDS) -> float:
    """Coverage of mean ± half-width over seeds."""
    values = np.random.default_rng(seeds).normal(size=(count, seeds))
    found = [st.summarise(row) for row in values]
    return float(np.mean([abs(one.mean) <= one.half_width for one in found]))


def interquartile(seeds: int, sets: int = 6, count: int = GRIDS) -> float:
    """Coverage of the interquartile mean over data sets whose scores differ by more than seeds do."""
    generator, centres = np.random.default_rng(seeds), np.linspace(0.6, 0.9, sets)
    scores = centres[:, None] + 0.01 * generator.standard_normal((count, sets, seeds))
    many = centres[:, None] + 0.01 * generator.standard_normal((20_000, sets, seeds))
    truth = stats.trim_mean(many.reshape(20_000, -1), 0.25, axis=1).mean()
    found = [st.interquartile_mean(dict(enumerate(one)), i) for i, one in enumerate(scores)]
    return float(np.mean([low <= truth <= high for _, low, high in found]))


def main(count: int = GRIDS) -> None:
    print(f"{count} grids each; ± is the standard error\n\n| Test | Seeds | Data | Family-wise error | Coverage |")
    print("| :-- | --: | :-- | --: | --: |")

    def row(test: str, seeds: int, data: str, error: float | None, coverage: float | None) -> None:
        wrong = "–" if error is None else f"{error:.1%} ± {np.sqrt(max(error * (1 - error), 1 / count) / count):.1%}"
        print(f"| {test} | {seeds} | {data} | {wrong} | {'–' if coverage is None else f'{coverage:.1%}'} |", flush=True)

    for name, data in DATA.items():
        for seeds in SEEDS:
            found = no_effect(data, seeds, count)
            row("5 differences to a baseline, Holm", seeds, name, found.family, found.coverage)
            row("tied with the best, 15 pairs, Holm", seeds, name, found.unbold, None)
    row("McNemar of 5 trained models, Holm", 1, "seeds and texts", mcnemar(count), None)
    for seeds in SEEDS:
        row("main effects and interaction, Holm; a level", seeds, "normal", *axes(seeds, count))
        row("main effects and interaction, Holm", seeds, "seeds and texts", axes_over_texts(seeds, count), None)
        row("mean over seeds", seeds, "normal", None, summaries(seeds, count))
        row("interquartile mean of 6 data sets", seeds, "normal", None, interquartile(seeds, count=count))
    print("\n| Seeds | Data | Power printed | Found | Power at what an estimated spread calls detectable |")
    print("| --: | :-- | --: | --: | --: |")
    for seeds in SEEDS:
        for over_texts in (False, True):
            found, on_average = planted(seeds, over_texts, count)
            kind = "with texts" if over_texts else "values only"
            print(f"| {seeds} | {kind} | {st.POWER:.0%} | {found:.1%} | {on_average:.1%} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
