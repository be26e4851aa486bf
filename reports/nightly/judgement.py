"""What is said of one metric in one night."""

import math
from dataclasses import dataclass

from reports.messages import Said, _
from reports.nightly.measured import Metric, Refused, Verdict


@dataclass(frozen=True)
class Judgement:
    """Numbers are on the metric's scale, of timings logarithms; NaN where there are none."""

    metric: Metric
    verdict: Verdict
    why: Said
    tonight: float = math.nan
    baseline: float = math.nan
    difference: float = math.nan
    half_width: float = math.nan
    detectable: float = math.nan
    p: float = math.nan  # times the tests of its family and the families, so that it is compared with `false_alarms`
    suspected: int = 0  # of a timing: 1 better, -1 worse

    @property
    def fails(self) -> bool:
        return self.verdict in ("regressed", "measured nothing")


NOTHING_VARIES = _("nothing varies that the difference could be measured by")


def refusal(metric: Metric, refused: Refused) -> Judgement:
    return Judgement(metric, refused.verdict, refused.why)
