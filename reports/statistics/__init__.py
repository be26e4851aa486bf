"""What measurements at several seeds, and of several texts, show. Plain functions over arrays and frames."""

from reports.statistics.aggregate import expected_best, interquartile_mean
from reports.statistics.decide import ALPHA, Decided, Measurements, decide
from reports.statistics.effects import effects, interaction_of_texts, levels
from reports.statistics.paired import improvement, mcnemar
from reports.statistics.power import POWER, Needed, detectable, needed
from reports.statistics.summary import CONFIDENCE, Summary, summarise

__all__ = [
    "ALPHA",
    "CONFIDENCE",
    "POWER",
    "Decided",
    "Measurements",
    "Needed",
    "Summary",
    "decide",
    "detectable",
    "effects",
    "expected_best",
    "improvement",
    "interaction_of_texts",
    "interquartile_mean",
    "levels",
    "mcnemar",
    "needed",
    "summarise",
]
