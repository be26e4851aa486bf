"""Statistics of the report, as functions over arrays and frames: tests of differences, effects, power, summaries."""

from reports.statistics.decide import ALPHA, Decided, Measurements, decide, improvement, mcnemar
from reports.statistics.power import POWER, Needed, detectable, needed
from reports.statistics.summary import CONFIDENCE, Summary, expected_best, interquartile_mean, summarise

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
    "expected_best",
    "improvement",
    "interquartile_mean",
    "mcnemar",
    "needed",
    "summarise",
]
