"""The verdict of each night on each metric. Plain functions: nights in, judgements out.

A change is first suspected, when the mean of the last night, or of the last three, stands out of the window after
Holm's correction over all metrics of the night. It is called when other data confirm it: a second run of the panel in
the same night (quality), or the night after by itself (also timings: a second run meets the same busy machine).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reports.bilingual import Words
from reports.nightly.evidence import Evidence, compare_nights
from reports.nightly.holm import holm
from reports.nightly.measured import (
    FEWEST_SEEDS,
    Measured,
    Metric,
    Night,
    Refused,
    Rules,
    Verdict,
    comparable_value,
    complete_values,
    rules_of,
    step_of,
)
from reports.nightly.settings import Nightly

LOOKS = (1, 3)  # the last nights whose mean is compared; two looks, so that each has half of the false alarms
AGREES = 0.05  # p of a night that confirms by itself what the one before made suspect


@dataclass(frozen=True)
class Judgement:
    """Numbers are on the metric's scale, of timings logarithms; NaN where there are none."""

    metric: Metric
    verdict: Verdict
    why: Words
    tonight: float = math.nan
    baseline: float = math.nan
    difference: float = math.nan
    half_width: float = math.nan
    detectable: float = math.nan
    p: float = math.nan  # after Holm
    nights: int = 0  # whose mean has this p
    suspected: int = 0  # 1 better, -1 worse

    @property
    def fails(self) -> bool:
        return self.verdict in ("regressed", "measured nothing")


def judge_by_documents(nights: Sequence[Night]) -> list[list[Judgement]]:
    """What was said of each night when it was the last one, by this code: nights after it change nothing."""
    return judge(nights, [rules_of(night) for night in nights])


def judge(nights: Sequence[Night], rules: Sequence[Rules]) -> list[list[Judgement]]:
    """For each night, in their order, the judgement of each metric of its rules."""
    judgements: list[list[Judgement]] = []
    metrics = {metric.name: metric for own in rules for metric in own.metrics}
    measured: dict[tuple[str, str], list[Measured]] = {}  # (epoch, metric) → its nights so far
    suspected: dict[str, dict[str, int]] = {}  # epoch → what the last of its nights made suspect
    for night, own in zip(nights, rules, strict=True):
        before = {name: measured.setdefault((night.epoch, name), []) for name in metrics}
        read = {name: comparable_value(night, metric, before[name]) for name, metric in metrics.items()}
        looks = {
            metric.name: look(before[metric.name], read[metric.name], night, metric, own.settings)
            for metric in own.metrics
        }
        adjusted, last = correct(own.metrics, looks), suspected.get(night.epoch, {})
        judgements.append([
            one_verdict(metric, looks[metric.name], adjusted, last.get(metric.name, 0), own.settings)
            for metric in own.metrics
        ])  # fmt: skip
        suspected[night.epoch] = {judgement.metric.name: judgement.suspected for judgement in judgements[-1]}
        for name, value in read.items():
            if isinstance(value, Measured):
                before[name].append(value)
    return judgements


@dataclass(frozen=True)
class Look:
    """One metric in one night: with how many nights there were for the window, and what came of the comparison."""

    refused: Refused | None = None
    before: int = 0
    tonight: float = math.nan
    baseline: float = math.nan
    alone: Evidence | None = None  # tonight by itself
    best: Evidence | None = None  # of the last nights, the mean with the smallest p
    nights: int = 0
    looks: int = 1  # of which that is the best
    again: Evidence | None = None  # the same with the second run in the place of tonight's

    @property
    def p(self) -> float:
        return math.nan if self.best is None else float(np.minimum(1.0, self.looks * self.best.p))


def look(before: Sequence[Measured], now: Measured | Refused, night: Night, metric: Metric, settings: Nightly) -> Look:
    """`before`: the earlier nights of this epoch that measured it; one that did not counts for nothing."""
    if isinstance(now, Refused):
        return Look(now, len(before))
    tonight, mean = now.values, float(now.values.mean())
    if len(tonight) < FEWEST_SEEDS and not metric.is_timing:
        why = Words(
            f"three seeds are needed, there {'is' if len(tonight) == 1 else 'are'} {len(tonight)}",
            f"至少需要三个种子，现有 {len(tonight)} 个",
        )
        return Look(Refused("inconclusive", why), len(before), mean)
    if len(before) < settings.window:
        return Look(None, len(before), mean)
    rows, step = [earlier.values for earlier in before], step_of(night.document.get("texts", {}), metric)
    window, since = np.stack(rows[: settings.window]), [*rows[settings.window :][-max(LOOKS) :], tonight]
    compared = {k: compare_nights(window, np.stack(since[-k:]), step) for k in LOOKS if k <= len(since)}
    nights = min(compared, key=lambda k: (math.isnan(compared[k].p), compared[k].p))
    second = None if metric.is_timing else complete_values(night.again, metric)
    if second is None or second.shape != tonight.shape:
        again = None
    else:
        again = compare_nights(window, np.stack([*since[-nights:-1], metric.scaled(second)]), step)
    return Look(
        None, len(before), mean, float(window.mean()), compared[1], compared[nights], nights, len(compared), again
    )


def correct(metrics: Sequence[Metric], looks: Mapping[str, Look]) -> dict[str, float]:
    """p after Holm, over the panel's metrics and over those of configurations, each with half of the false alarms."""
    families = [[m.name for m in metrics if m.is_part == part] for part in (False, True)]
    families = [family for family in families if family]
    return {
        name: float(np.minimum(1.0, len(families) * p))  # NaN stays NaN
        for family in families
        for name, p in zip(family, holm(np.array([looks[name].p for name in family])).tolist(), strict=True)
    }


def one_verdict(
    metric: Metric, seen: Look, adjusted: Mapping[str, float], last_night: int, settings: Nightly
) -> Judgement:
    if seen.refused is not None:
        return Judgement(metric, seen.refused.verdict, seen.refused.why, seen.tonight)
    if seen.best is None or seen.alone is None:
        have = min(seen.before + 1, settings.window)
        why = Words(
            f"night {have} of the window of {settings.window}", f"基线窗口 {settings.window} 晚中的第 {have} 晚"
        )
        return Judgement(metric, "inconclusive", why, seen.tonight)
    practical, p = metric.limit(metric.limits.practical), adjusted[metric.name]
    stands_out = p <= settings.false_alarms and abs(seen.best.difference) > practical
    suspected = better_or_worse(metric, seen.best.difference) if stands_out else 0
    # what is left of the false alarms for the smallest p of a family
    detectable = seen.alone.detectable(settings.false_alarms / max(1, len(adjusted)))
    base = Judgement(
        metric, "unchanged", Words("", ""), seen.tonight, seen.baseline, seen.alone.difference, seen.alone.half_width,
        detectable, p, seen.nights, suspected,
    )  # fmt: skip
    if suspected:
        return called(base, seen, last_night, settings)
    return bounded(base, practical, metric.limit(metric.limits.widest))


def better_or_worse(metric: Metric, difference: float) -> int:
    return 1 if (difference > 0) == metric.higher_is_better else -1


def called(base: Judgement, seen: Look, last_night: int, settings: Nightly) -> Judgement:
    """A suspected change is called where other data say the same."""
    metric, suspected = base.metric, base.suspected

    def says_so(evidence: Evidence | None, p: float) -> bool:
        return evidence is not None and evidence.p <= p and better_or_worse(metric, evidence.difference) == suspected

    verdict: Verdict = "improved" if suspected > 0 else "regressed"
    if says_so(seen.again, settings.false_alarms):
        return replace(base, verdict=verdict, why=Words("a second run says the same", "第二次运行结果一致"))
    if last_night == suspected and says_so(seen.alone, AGREES):
        return replace(base, verdict=verdict, why=Words("as the night before", "与前一晚一致"))
    word = Words("better", "变好") if suspected > 0 else Words("worse", "变差")
    why = Words(f"suspected to be {word.en}, not confirmed", f"疑似{word.zh}，未经证实")
    return replace(base, verdict="inconclusive", why=why)


def bounded(base: Judgement, practical: float, widest: float) -> Judgement:
    """Unchanged where the interval excludes every change that matters, or that such nights could show at all."""
    if math.isnan(base.half_width):
        why = Words("nothing varies that the difference could be measured by", "没有任何波动可供衡量差值")
        return replace(base, verdict="inconclusive", why=why)
    if base.detectable > widest and abs(base.difference) + base.half_width > practical:
        return replace(base, verdict="inconclusive", why=Words("too noisy to say", "噪声太大，无法判断"))
    if abs(base.difference) + base.half_width > max(practical, base.detectable):
        return replace(base, verdict="inconclusive", why=Words("the interval reaches further", "区间超出范围"))
    return base
