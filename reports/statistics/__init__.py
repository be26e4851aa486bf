"""What measurements at several seeds, and of several texts, show. Plain functions over arrays and frames."""

from reports.statistics.aggregate import expected_best, interquartile_mean
from reports.statistics.effects import effects, interaction_of_texts, levels
from reports.statistics.multiple import ALPHA, holm, tied
from reports.statistics.paired import Difference, Pairs, all_pairs, improvement, mcnemar, paired
from reports.statistics.power import POWER, detectable, pooled, power, smallest_p
from reports.statistics.spread import Spread
from reports.statistics.summary import CONFIDENCE, Summary, summarise

__all__ = [
    "ALPHA",
    "CONFIDENCE",
    "POWER",
    "Difference",
    "Pairs",
    "Spread",
    "Summary",
    "all_pairs",
    "detectable",
    "effects",
    "expected_best",
    "holm",
    "improvement",
    "interaction_of_texts",
    "interquartile_mean",
    "levels",
    "mcnemar",
    "paired",
    "pooled",
    "power",
    "smallest_p",
    "summarise",
    "tied",
]
