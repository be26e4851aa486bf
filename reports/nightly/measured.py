"""What a night measured, which rules it has for its metrics, and where its values cannot be compared at all."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from reports.messages import Said, _
from reports.nightly.settings import TIMINGS, Nightly

Verdict = Literal["improved", "regressed", "unchanged", "inconclusive", "measured nothing"]
FEWEST_SEEDS = 3  # of two that say the same nothing tells whether a seed matters
AT = " @ "  # score @ configuration
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Night:
    """Metric → a value a seed (of a timing: or a repeat), NaN where there is none."""

    when: str
    epoch: str
    values: Values
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Metric:
    name: str
    higher_is_better: bool
    margin: float  # a smaller change is none; of a timing a share

    @property
    def is_timing(self) -> bool:
        return self.name in TIMINGS

    @property
    def is_part(self) -> bool:
        """Whether it is of one configuration: those make a family of their own, so that they cost the others little."""
        return AT in self.name

    @property
    def score(self) -> str:
        return self.name.partition(AT)[0]

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Timings as logarithms: a machine is slower by a factor."""
        return np.log(values) if self.is_timing else values

    def shown(self, value: float) -> float:
        return math.exp(value) if self.is_timing else value

    @property
    def scaled_margin(self) -> float:
        return math.log1p(self.margin) if self.is_timing else self.margin

    @property
    def shown_margin(self) -> str:
        return f"{self.margin:.0%}" if self.is_timing else f"{self.margin:g}"

    def better_or_worse(self, difference: float) -> int:
        return 1 if (difference > 0) == self.higher_is_better else -1


@dataclass(frozen=True)
class Rules:
    """How a night is judged: as its own document has it, so that a later night does not change what was said of it."""

    metrics: Sequence[Metric]
    settings: Nightly


def rules_of(night: Night) -> Rules:
    settings = Nightly(**night.document["settings"])
    return Rules(metrics_of(settings, night), settings)


def metrics_of(settings: Nightly, night: Night) -> list[Metric]:
    """What a night has to measure: the scores over the panel and of each configuration, and the timings."""
    directions, parts = night.document.get("directions", {}), night.document.get("configurations", ())
    whole = [Metric(name, directions.get(name, True), margin) for name, margin in settings.quality.items()]
    whole += [Metric(name, higher, settings.speed) for name, higher in TIMINGS.items()]
    by_part = [
        replace(metric, name=metric.name + AT + part) for metric in whole if not metric.is_timing for part in parts
    ]
    return whole + (by_part if len(parts) > 1 else [])


@dataclass(frozen=True)
class Measured:
    """What a night measured of a metric: its values, on the metric's scale, and what they have to share with others."""

    values: np.ndarray
    seeds: Sequence[int] | None = None  # None: of a timing, or of a night that did not note them
    higher_is_better: bool | None = None
    texts: int | None = None  # that the score counts

    @property
    def mean(self) -> float:
        return float(self.values.mean())


@dataclass(frozen=True)
class Refused:
    """What is said of values that cannot be compared."""

    verdict: Verdict
    why: Said


def comparable_value(night: Night, metric: Metric, before: Sequence[Measured]) -> Measured | Refused:
    """What a night measured of a metric, if that can be set beside the earlier nights, which are alike."""
    values = complete_values(night.values, metric)
    if values is None:
        return Refused("measured nothing", nothing(night.values.get(metric.name)))
    if len(values) >= FEWEST_SEEDS and np.ptp(values) == 0:
        return Refused("measured nothing", _("all seeds have the same value"))
    if metric.is_timing:
        now = Measured(metric.scaled(values))
    else:
        higher = night.document.get("directions", {}).get(metric.score)
        texts = night.document.get("texts", {}).get(metric.score)
        now = Measured(values, night.document.get("seeds"), higher, texts)
    why = turned_direction(now, before) or other_seeds(now, before)
    return now if why is None else Refused("inconclusive", why)


def turned_direction(now: Measured, before: Sequence[Measured]) -> Said | None:
    """A direction that new code turned round would make an improvement of a loss."""
    then = next((earlier.higher_is_better for earlier in before if earlier.higher_is_better is not None), None)
    if None in (then, now.higher_is_better) or then == now.higher_is_better:
        return None
    old, new = (_("higher"), _("lower"))[:: 1 if then else -1]
    return _("the code says now that {new} is better, before it was {old}", new=new, old=old)


def other_seeds(now: Measured, before: Sequence[Measured]) -> Said | None:
    if not before or (len(now.values) == len(before[0].values) and None in (now.seeds, before[0].seeds)):
        return None
    if len(now.values) == len(before[0].values) and list(now.seeds or ()) == list(before[0].seeds or ()):
        return None
    ours, theirs = values_in_words(now), values_in_words(before[0])
    return _("{ours} now, {theirs} before", ours=ours, theirs=theirs)


def values_in_words(measured: Measured) -> Said:
    """Its seeds, or its values where these are not known."""
    if measured.seeds is not None and len(measured.seeds) == len(measured.values):
        seeds = ", ".join(map(str, measured.seeds))
        return _("seeds {seeds}", seeds=seeds)
    values = ", ".join(f"{value:.4g}" for value in measured.values)
    return _("values {values}", values=values)


def complete_values(values: Values, metric: Metric) -> np.ndarray | None:
    """The values of a metric, if each seed has one."""
    array = values.get(metric.name)
    if array is None or len(array) == 0 or not np.isfinite(array).all():
        return None
    return None if metric.is_timing and bool((array <= 0).any()) else array


def nothing(values: np.ndarray | None) -> Said:
    if values is None or len(values) == 0:
        return _("nothing has this name")
    count = int((~np.isfinite(values)).sum()) or int((values <= 0).sum())
    return _("{count} of {count_2} values are missing", count=count, count_2=len(values))
