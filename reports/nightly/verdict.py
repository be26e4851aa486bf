"""The verdict of each night on each metric. Plain functions: nights in, judgements out.

A change is first suspected, when the mean of the last night, or of the last three, stands out of the window after
Holm's correction over all metrics of the night. It is called when other data confirm it: a second run of the panel in
the same night (quality), or the night after by itself (also timings: a second run meets the same busy machine).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from reports.nightly.evidence import Evidence, compare
from reports.nightly.settings import TIMINGS, Limits, Nightly
from reports.statistics import holm
from reports.words import Words

Verdict = Literal["improved", "regressed", "unchanged", "inconclusive", "measured nothing"]
LOOKS = (1, 3)  # the last nights whose mean is compared; two looks, so that each has half of the false alarms
AGREES = 0.05  # p of a night that confirms by itself what the one before made suspect
AT = " @ "  # score @ configuration
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Night:
    """Metric → a value a seed (of a timing: or a repeat), NaN where there is none. `again`: a second run."""

    when: str
    epoch: str
    values: Values
    again: Values = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Metric:
    name: str
    higher_is_better: bool
    limits: Limits

    @property
    def is_timing(self) -> bool:
        return self.name in TIMINGS

    @property
    def is_part(self) -> bool:
        """Whether it is of one configuration: those make a family of their own, so that they cost the others little."""
        return AT in self.name

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Timings as logarithms: a machine is slower by a factor."""
        return np.log(values) if self.is_timing else values

    def shown(self, value: float) -> float:
        return math.exp(value) if self.is_timing else value

    def limit(self, which: float) -> float:
        return math.log1p(which) if self.is_timing else which


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


def metrics_of(settings: Nightly, nights: Sequence[Night]) -> list[Metric]:
    """What every night has to measure: the scores over the panel and of each configuration, and the timings."""
    directions: dict[str, bool] = {}
    parts: dict[str, None] = {}
    for night in nights:
        directions |= night.document.get("directions", {})
        parts = dict.fromkeys(night.document.get("configurations", ()))
    whole = [Metric(name, directions.get(name, True), limits) for name, limits in settings.quality.items()]
    whole += [Metric(name, higher, settings.speed) for name, higher in TIMINGS.items()]
    by_part = [replace(one, name=one.name + AT + part) for one in whole if not one.is_timing for part in parts]
    return whole + (by_part if len(parts) > 1 else [])


def judge(nights: Sequence[Night], metrics: Sequence[Metric], settings: Nightly) -> list[list[Judgement]]:
    """For each night, in their order, the judgement of each metric."""
    found: list[list[Judgement]] = []
    measured: dict[tuple[str, str], list[np.ndarray]] = {}  # (epoch, metric) → its nights so far
    suspected: dict[tuple[str, str], int] = {}  # what the last of them made suspect
    for night in nights:
        looks = {
            metric.name: look(measured.setdefault((night.epoch, metric.name), []), night, metric, settings)
            for metric in metrics
        }
        adjusted = correct(metrics, looks)
        found.append([
            one_verdict(metric, looks[metric.name], adjusted, suspected.get((night.epoch, metric.name), 0), settings)
            for metric in metrics
        ])  # fmt: skip
        for metric, judgement in zip(metrics, found[-1], strict=True):
            suspected[night.epoch, metric.name] = judgement.suspected
            if (values := whole(night.values, metric)) is not None:
                measured[night.epoch, metric.name].append(metric.scaled(values))
    return found


@dataclass(frozen=True)
class Look:
    """One metric in one night: with how many nights there were for the window, and what came of the comparison."""

    missing: Words | None = None
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
        return math.nan if self.best is None else min(1.0, self.looks * self.best.p)


def look(before: Sequence[np.ndarray], night: Night, metric: Metric, settings: Nightly) -> Look:
    """`before`: the earlier nights of this epoch that measured it; one that did not counts for nothing."""
    values = whole(night.values, metric)
    if values is None:
        return Look(nothing(night.values.get(metric.name)), len(before))
    tonight = metric.scaled(values)
    if len(tonight) > 2 and np.ptp(tonight) == 0 and any(np.ptp(row) > 0 for row in before[:1]):
        why = Words("all seeds have the same value, which they never had", "所有种子的值都相同，以前从未如此")
        return Look(why, len(before))
    mean = float(tonight.mean())
    if len(before) < settings.window:
        return Look(None, len(before), mean)
    window, since = np.stack(before[: settings.window]), [*before[settings.window :][-max(LOOKS) :], tonight]
    compared = {k: compare(window, np.stack(since[-k:])) for k in LOOKS if k <= len(since)}
    nights = min(compared, key=lambda k: compared[k].p)
    second = None if metric.is_timing else whole(night.again, metric)
    again = None if second is None else compare(window, np.stack([*since[-nights:-1], metric.scaled(second)]))
    return Look(
        None, len(before), mean, float(window.mean()), compared[1], compared[nights], nights, len(compared), again
    )


def whole(values: Values, metric: Metric) -> np.ndarray | None:
    """The values of a metric, if each seed has one."""
    found = values.get(metric.name)
    if found is None or len(found) == 0 or not np.isfinite(found).all():
        return None
    return None if metric.is_timing and bool((found <= 0).any()) else found


def nothing(values: np.ndarray | None) -> Words:
    if values is None or len(values) == 0:
        return Words("nothing has this name tonight", "今晚没有这个指标")
    count = int((~np.isfinite(values)).sum()) or int((values <= 0).sum())
    return Words(f"{count} of {len(values)} values are missing", f"{len(values)} 个值中缺 {count} 个")


def correct(metrics: Sequence[Metric], looks: Mapping[str, Look]) -> dict[str, float]:
    """p after Holm, over the panel's metrics and over those of configurations, each with half of the false alarms."""
    families = [[m.name for m in metrics if m.is_part == part] for part in (False, True)]
    families = [family for family in families if family]
    return {
        name: min(1.0, len(families) * p)
        for family in families
        for name, p in zip(family, holm(np.array([looks[name].p for name in family])).tolist(), strict=True)
    }


def one_verdict(
    metric: Metric, seen: Look, adjusted: Mapping[str, float], last_night: int, settings: Nightly
) -> Judgement:
    if seen.missing is not None:
        return Judgement(metric, "measured nothing", seen.missing)
    if seen.best is None or seen.alone is None:
        have = min(seen.before + 1, settings.window)
        why = Words(
            f"night {have} of the window of {settings.window}", f"基线窗口 {settings.window} 晚中的第 {have} 晚"
        )
        return Judgement(metric, "inconclusive", why, seen.tonight)
    practical, p = metric.limit(metric.limits.practical), adjusted[metric.name]
    stands_out = p <= settings.false_alarms and abs(seen.best.difference) > practical
    suspected = direction(metric, seen.best.difference) if stands_out else 0
    # what is left of the false alarms for the smallest p of a family
    detectable = seen.alone.detectable(settings.false_alarms / max(1, len(adjusted)))
    base = Judgement(
        metric, "unchanged", Words("", ""), seen.tonight, seen.baseline, seen.alone.difference, seen.alone.half_width,
        detectable, p, seen.nights, suspected,
    )  # fmt: skip
    if suspected:
        return called(base, seen, last_night, settings)
    return bounded(base, practical, metric.limit(metric.limits.widest))


def direction(metric: Metric, difference: float) -> int:
    return 1 if (difference > 0) == metric.higher_is_better else -1


def called(base: Judgement, seen: Look, last_night: int, settings: Nightly) -> Judgement:
    """A suspected change is called where other data say the same."""
    metric, suspected = base.metric, base.suspected

    def says_so(evidence: Evidence | None, p: float) -> bool:
        return evidence is not None and evidence.p <= p and direction(metric, evidence.difference) == suspected

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
    if base.detectable > widest and abs(base.difference) + base.half_width > practical:
        return replace(base, verdict="inconclusive", why=Words("too noisy to say", "噪声太大，无法判断"))
    if abs(base.difference) + base.half_width > max(practical, base.detectable):
        return replace(base, verdict="inconclusive", why=Words("the interval reaches further", "区间超出范围"))
    return base
