"""The verdict on scores, from the second night on: by the statistics of all reports, paired by seed with the first
night of the environment.

On one machine the same code gives the same bits. What is the same needs no test, and what moved was moved by other
code: the only spread is that between seeds, and a second run or another night would say the same again. Scores that
move by themselves, as on some GPUs, are not called more often: what moves them moves seeds apart from each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy import special

from reports.messages import Said, _, n_
from reports.nightly.judgement import NOTHING_VARIES, Judgement, refusal
from reports.nightly.measured import FEWEST_SEEDS, Measured, Metric, Refused
from reports.statistics import ALPHA, Decided, Measurements, decide, detectable
from reports.statistics.decide import level_of
from reports.statistics.paired import ROUNDING
from reports.statistics.power import MOST_SEEDS
from reports.verdicts import side

PAIR = ((0, 1),)  # now and then


def judge_scores(
    metrics: Sequence[Metric],
    now: Mapping[str, Measured | Refused],
    before: Mapping[str, Sequence[Measured]],
    false_alarms: float,
) -> dict[str, Judgement]:
    """`before`: the earlier nights of this environment that measured a score, of which the first one counts."""
    judgements, moved = dict[str, Judgement](), []
    for metric in metrics:
        measured, earlier = now[metric.name], before[metric.name]
        if isinstance(measured, Refused):
            judgements[metric.name] = refusal(metric, measured)
        elif (said := untested(metric, measured, earlier)) is not None:
            judgements[metric.name] = said
        else:
            moved.append((metric, measured, earlier[0]))
    levels = levels_of([metric for metric, *_rest in moved], false_alarms)
    return judgements | {
        metric.name: by_interval(metric, measured, then, levels[metric.name], false_alarms)
        for metric, measured, then in moved
    }


def untested(metric: Metric, now: Measured, earlier: Sequence[Measured]) -> Judgement | None:
    """What needs no test, or cannot have one."""
    if not earlier:
        why = _("the first measurement of it in this environment")
        return Judgement(metric, "inconclusive", why, now.mean)
    then = earlier[0]
    if np.allclose(now.values, then.values, rtol=ROUNDING, atol=0):
        why = _("the same at every seed")
        return Judgement(metric, "unchanged", why, now.mean, then.mean, difference=0.0, half_width=0.0)
    if (seeds := len(now.values)) < FEWEST_SEEDS:
        why = n_(
            "it moved; three seeds are needed to say more, there is {count}",
            "it moved; three seeds are needed to say more, there are {count}",
            seeds,
        )
        return Judgement(metric, "inconclusive", why, now.mean, then.mean)
    return None


def levels_of(moved: Sequence[Metric], false_alarms: float) -> dict[str, float]:
    """Half of the false alarms is for the panel's means and half for single configurations, so that these cost the
    means little; each half is divided among those that moved."""
    halves = [[metric.name for metric in moved if metric.is_part == part] for part in (False, True)]
    families = [names for names in halves if names]
    return {name: false_alarms / len(families) / len(names) for names in families for name in names}


def by_interval(metric: Metric, now: Measured, then: Measured, level: float, false_alarms: float) -> Judgement:
    share = level / ALPHA
    (decided,) = decide(Measurements(np.stack([now.values, then.values]), texts=now.texts), PAIR, share)
    judgement = Judgement(
        metric, "inconclusive", NOTHING_VARIES, now.mean, then.mean, decided.difference, decided.half_width
    )
    if np.isnan(decided.half_width):
        return judgement
    size = abs(decided.difference)
    judgement = replace(
        judgement,
        detectable=detectable_errors(decided.seeds, share) * decided.from_seeds**0.5,
        p=min(1.0, false_alarms / level * level_of(decided.reaches, size)),
    )
    sign = side(decided.difference, decided.half_width, metric.higher_is_better)
    if sign and size > metric.margin:
        return replace(judgement, verdict="improved" if sign > 0 else "regressed", why=_(""))
    if size + decided.half_width <= metric.margin:
        return replace(judgement, verdict="unchanged", why=_("moved by less than matters"))
    return replace(judgement, why=what_would_decide(decided, metric.margin, level))


@lru_cache(maxsize=1024)
def detectable_errors(seeds: int, share: float) -> float:
    """The detectable difference in standard errors, which is the same for all scores of a night."""
    return detectable([Decided(0.0, 1.0, 1.0, seeds, 1.0, 0.0, seeds - 1)], PAIR, 2, share) or np.nan


def what_would_decide(decided: Decided, margin: float, level: float) -> Said:
    """How many seeds, if the difference stays as it is: a large one has to leave 0, a small one the margin's ends.

    Two rows are Student's test, whose quantiles are there at once; `needed` would simulate each number of seeds.
    """
    size = abs(decided.difference)
    seeds = np.arange(decided.seeds + 1, MOST_SEEDS + 1)
    now, then = (-special.stdtrit(count - 1, level / 2) / count**0.5 for count in (decided.seeds, seeds))
    enough = seeds[decided.half_width * then / now < (size if size > margin else margin - size)]
    count: Said = str(enough[0]) if len(enough) else _("more than {most}", most=MOST_SEEDS)
    return _("the interval reaches beyond {margin}; {count} seeds would decide it", margin=f"{margin:g}", count=count)
