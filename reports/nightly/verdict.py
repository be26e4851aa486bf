"""The verdict of each night on each metric. Plain functions: nights in, judgements out."""

from collections.abc import Sequence

from reports.nightly.judgement import Judgement
from reports.nightly.measured import Measured, Night, Rules, comparable_value, rules_of
from reports.nightly.scores import judge_scores
from reports.nightly.timings import judge_timings


def judge_by_documents(nights: Sequence[Night]) -> list[list[Judgement]]:
    """What was said of each night when it was the last one, by this code: nights after it change nothing."""
    return judge_nights(nights, [rules_of(night) for night in nights])


def judge_nights(nights: Sequence[Night], rules: Sequence[Rules]) -> list[list[Judgement]]:
    """For each night, in their order, the judgement of each metric of its rules."""
    judgements: list[list[Judgement]] = []
    metrics = {metric.name: metric for own in rules for metric in own.metrics}
    measured: dict[tuple[str, str], list[Measured]] = {}  # (epoch, metric) → its nights so far
    suspected: dict[str, dict[str, int]] = {}  # epoch → what the last of its nights made suspect
    for night, own in zip(nights, rules, strict=True):
        before = {name: measured.setdefault((night.epoch, name), []) for name in metrics}
        now = {name: comparable_value(night, metric, before[name]) for name, metric in metrics.items()}
        scores = [metric for metric in own.metrics if not metric.is_timing]
        timings = [metric for metric in own.metrics if metric.is_timing]
        said = judge_scores(scores, now, before, own.settings.false_alarms)
        said |= judge_timings(timings, now, before, suspected.get(night.epoch, {}), own.settings)
        judgements.append([said[metric.name] for metric in own.metrics])
        suspected[night.epoch] = {judgement.metric.name: judgement.suspected for judgement in judgements[-1]}
        for name, value in now.items():
            if isinstance(value, Measured):
                before[name].append(value)
    return judgements
