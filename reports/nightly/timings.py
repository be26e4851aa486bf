"""The verdict on timings: against the window, the first nights of an environment. A machine is never twice alike.

A change is first suspected, when the mean of the last night, or of the last three, stands out of the window. It is
called when the night after says the same by itself: a second run would meet the same busy machine.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reports.messages import _
from reports.nightly.evidence import Evidence, compare_nights
from reports.nightly.judgement import NOTHING_VARIES, Judgement, refusal
from reports.nightly.measured import Measured, Metric, Refused, Verdict
from reports.nightly.settings import Nightly

LOOKS = (1, 3)  # the last nights whose mean is compared; two looks, so that each has half of the false alarms
AGREES = 0.05  # p of a night that confirms by itself what the one before made suspect


@dataclass(frozen=True)
class Compared:
    """One timing in one night, against a window that is full."""

    tonight: float
    baseline: float
    alone: Evidence  # tonight by itself
    best: Evidence  # of the last nights, the mean with the smallest p
    looks: int  # of which that is the best

    @property
    def p(self) -> float:
        return float(np.minimum(1.0, self.looks * self.best.p))  # NaN stays NaN


def judge_timings(
    metrics: Sequence[Metric],
    now: Mapping[str, Measured | Refused],
    before: Mapping[str, Sequence[Measured]],
    suspected: Mapping[str, int],
    settings: Nightly,
) -> dict[str, Judgement]:
    """`before`: the earlier nights of this environment that measured a timing; `suspected`: by the last of them."""
    judgements, compared = dict[str, Judgement](), []
    for metric in metrics:
        measured, earlier = now[metric.name], before[metric.name]
        if isinstance(measured, Refused):
            judgements[metric.name] = refusal(metric, measured)
        elif len(earlier) < settings.window:
            number, size = len(earlier) + 1, settings.window
            why = _("night {value} of the window of {size}", value=number, size=size)
            judgements[metric.name] = Judgement(metric, "inconclusive", why, measured.mean)
        else:
            compared.append((metric, with_window(measured, earlier, settings.window)))
    return judgements | {
        metric.name: one_timing(metric, seen, suspected.get(metric.name, 0), len(compared), settings.false_alarms)
        for metric, seen in compared
    }


def with_window(now: Measured, before: Sequence[Measured], size: int) -> Compared:
    rows = [earlier.values for earlier in before]
    window, since = np.stack(rows[:size]), [*rows[size:][-max(LOOKS) :], now.values]
    compared = [compare_nights(window, np.stack(since[-k:])) for k in LOOKS if k <= len(since)]
    best = min(compared, key=lambda evidence: (math.isnan(evidence.p), evidence.p))
    return Compared(now.mean, float(window.mean()), compared[0], best, len(compared))


def one_timing(metric: Metric, seen: Compared, last_night: int, tests: int, false_alarms: float) -> Judgement:
    """`tests`: how many timings share the false alarms."""
    p, margin, alone = float(np.minimum(1.0, tests * seen.p)), metric.scaled_margin, seen.alone
    judgement = Judgement(
        metric, "inconclusive", NOTHING_VARIES, seen.tonight, seen.baseline, alone.difference, alone.half_width,
        alone.detectable(false_alarms / tests), p,
    )  # fmt: skip
    if p <= false_alarms and abs(seen.best.difference) > margin:
        return called(replace(judgement, suspected=metric.better_or_worse(seen.best.difference)), alone, last_night)
    if math.isnan(alone.half_width):
        return judgement
    if abs(alone.difference) + alone.half_width <= margin:
        return replace(judgement, verdict="unchanged", why=_(""))
    shown = metric.shown_margin
    return replace(judgement, why=_("the interval reaches beyond {shown}", shown=shown))


def called(judgement: Judgement, alone: Evidence, last_night: int) -> Judgement:
    """A suspected change is called where the night before was suspect, too, and tonight says the same by itself."""
    suspected = judgement.suspected
    again = alone.p <= AGREES and judgement.metric.better_or_worse(alone.difference) == suspected
    if last_night == suspected and again:
        verdict: Verdict = "improved" if suspected > 0 else "regressed"
        return replace(judgement, verdict=verdict, why=_("as the night before"))
    word = _("better") if suspected > 0 else _("worse")
    why = _("suspected to be {word}, not confirmed", word=word)
    return replace(judgement, why=why)
