"""The comparisons against the results: nothing that is in one may contradict the other, nor an interval its verdict."""

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from reports.claims.numbers import Numbers, SectionNumbers, Seeds
from reports.markdown import number, probability, signed
from reports.rows import ANY
from reports.statistics import ALPHA, summarise
from reports.verdicts import COMPARED, side, verdict

FORBIDDEN = "not comparable"  # the verdict where a guard forbids a comparison


def frames(numbers: Numbers) -> Iterator[str]:
    """Means, half-widths, differences, verdicts; that no configuration is left out."""
    for line in numbers.comparisons.to_dict("records"):
        name = f"{line['section']}, {line['label']}, {line['value']}"
        own = own_seeds(line, numbers)
        yield from check_mean(name, line, own)
        yield from against(name, line, own, numbers.seeds)
    for section in numbers.sections.values():
        yield from check_whole(section)
        yield from check_bold(section)


def own_seeds(line: dict[Any, Any], numbers: Numbers) -> dict[int, float]:
    """What a line was made of; of one that stands for all configurations, that of any of them."""
    kind = str(line["label"]).removeprefix(ANY)
    if kind == line["label"]:
        return numbers.seeds.get((line["section"], line["label"], line["value"]), {})
    of_all = [
        seeds
        for (section, label, value), seeds in numbers.seeds.items()
        if (section, value) == (line["section"], line["value"]) and label.endswith(kind)
    ]
    return of_all[0] if of_all and all(seeds == of_all[0] for seeds in of_all) else {}


def check_mean(name: str, line: dict[Any, Any], own: dict[int, float]) -> Iterator[str]:
    summary = summarise(list(own.values()))
    if summary is None:
        if math.isfinite(line["mean"]):
            yield f"{name}: a mean of no result"
        return
    if number(summary.mean) != number(line["mean"]):
        yield f"{name}: the mean is {number(summary.mean)}, not {number(line['mean'])}"
    half = math.nan if summary.half_width is None else summary.half_width
    if number(half) != number(line["half_width"]):
        yield f"{name}: the half-width is {number(half)}, not {number(line['half_width'])}"
    if line["bold"] and len(own) < 2:
        yield f"{name}: bold, of one seed"


def against(name: str, line: dict[Any, Any], own: dict[int, float], seeds: Seeds) -> Iterator[str]:
    """The columns that compare a row with its baseline."""
    if line["verdict"] not in COMPARED:
        if math.isfinite(line["p"]):
            yield f"{name}: compared with nothing"
        return
    theirs = seeds.get((line["section"], line["against"], line["value"]), {})
    both = sorted(own.keys() & theirs.keys())
    true = sum(own[seed] - theirs[seed] for seed in both) / len(both) if both else math.nan
    if not (abs(true - line["difference"]) <= 1e-6 or (math.isnan(true) and math.isnan(line["difference"]))):
        yield f"{name}: the difference is {signed(true)}, not {signed(line['difference'])}"
    if line["common"] != len(both):
        yield f"{name}: {len(both)} seeds are common, not {line['common']:.0f}"
    yield from decided(name, line, true, len(both))
    yield from check_text_counts(name, line, [own[seed] - theirs[seed] for seed in both])
    if math.isfinite(line["improvement"]) and both:
        ours, others = (np.array([values[seed] for seed in both]) for values in (own, theirs))
        apart = (ours[:, None] - others[None, :]) * (1 if line["higher"] else -1)
        chance = float(((apart > 0) + 0.5 * (apart == 0)).mean())
        if abs(chance - line["improvement"]) > 1e-6:
            yield f"{name}: the probability of improvement is {chance:.2f}, not {line['improvement']:.2f}"


def decided(name: str, line: dict[Any, Any], true: float, seeds: int) -> Iterator[str]:
    """The verdict follows from the interval, the margin, and which way is better; p agrees with the interval."""
    said, p, half = line["verdict"], line["p"], line["difference_half_width"]
    if said == FORBIDDEN:
        if math.isfinite(p) or math.isfinite(half):
            yield f"{name}: compared, and not comparable"
        return
    limit = line["margin"] if math.isfinite(line["margin"]) else None
    follows = verdict(true, half, bool(line["higher"]), limit, seeds)
    if said != follows:
        yield f"{name}: {said} at a difference of {signed(true)} ± {number(half)}: it is {follows}"
    if said in ("better", "worse") and seeds < 2:
        yield f"{name}: {said} by {seeds} seed"
    if math.isfinite(half) and line["side"] != side(true, half, bool(line["higher"])):
        yield f"{name}: which side of 0 {signed(true)} ± {number(half)} lies on is said wrongly"
    near = math.isfinite(p) and math.isfinite(half) and abs(abs(true) - half) <= 1e-6
    if not near and (p < ALPHA) != (abs(true) > half):
        yield f"{name}: p = {probability(p)} does not agree with {signed(true)} ± {number(half)}"
    for what in ("needs_seeds", "needs_texts"):
        if math.isfinite(line[what]) and said != "undecided":
            yield f"{name}: {what} of what is {said}"


def check_text_counts(name: str, line: dict[Any, Any], differences: list[float]) -> Iterator[str]:
    """Of each seed, the texts that only one of the two has right: the one with more of them is ahead there."""
    if not isinstance(line["only_ours"], str) or not line["only_ours"]:
        return
    ours, theirs = json.loads(line["only_ours"]), json.loads(line["only_theirs"])
    signs = [int(np.sign(round(difference, 9))) for difference in differences]
    if [int(np.sign(a - b)) for a, b in zip(ours, theirs, strict=False)] != signs:
        yield f"{name}: the counts of texts do not agree with the differences"


def check_whole(section: SectionNumbers) -> Iterator[str]:
    """Each configuration of the results is compared, in each score of its section."""
    compared = section.compared.frame
    for label in sorted(set(section.results["label"]) - set(compared["label"])):
        yield f"{section.title}: {label} is not among the comparisons"
    pairs = set(zip(compared["label"], compared["value"], strict=True))
    if len(pairs) != len(set(compared["label"])) * len(set(compared["value"])):
        yield f"{section.title}: a configuration has no line in a score"


def check_bold(section: SectionNumbers) -> Iterator[str]:
    """Nothing is bold that is worse than its baseline, and no baseline that something is better than."""
    frame = section.compared.frame
    bold = {(line["label"], line["value"]) for line in section.lines if line["bold"]}
    for line in frame.to_dict("records"):
        loser = {-1: line["label"], 1: line["against"]}.get(line["side"])
        if (loser, line["value"]) in bold:
            yield f"{section.title}: {loser} is bold in {line['value']}, and beaten there"


def blocked(section: SectionNumbers) -> tuple[int, int]:
    """Comparisons of a section that only a guard can forbid, for both have all seeds; and all that were made."""
    frame, seeds = section.compared.frame, section.results["seed"].nunique()
    compared = frame[frame["verdict"].isin(COMPARED)]
    if section.compared.most_seeds is not None:  # as many as its rows have that have any
        seeds = int(compared.loc[compared["common"] > 0, "common"].min()) if (compared["common"] > 0).any() else seeds
    forbidden = compared[compared["verdict"] == FORBIDDEN]
    return int((forbidden["common"] == seeds).sum()), int((compared["verdict"] != FORBIDDEN).sum())
