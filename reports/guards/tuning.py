"""Limits of a finding: an axis that is best at its edge, a learning rate shared by unlike rows, a better reference."""

import json
import math
from collections.abc import Hashable, Iterator
from typing import Any

from contrastive.config.cell import SETTINGS
from reports.compare import RowScore, Section
from reports.guards.results import Guard
from reports.guards.same import AS_RUN, DATA, declared, path
from reports.markdown import symbol
from reports.messages import _, listed
from reports.rows import Row
from reports.study import Results

FEWEST = 3  # values of an axis: with two, the best one is always at an end
LEAST = {"k": 1.0}  # smallest possible value of a setting; 0 for all others


def tuning(section: Section, results: Results) -> list[Guard]:
    """Return the limits of a section's findings in the first score that was tested."""
    value = next(iter(section.tested), "")
    scores = [score for score in section.scores if score.value == value and not score.row.variant]
    scores = [score for score in scores if math.isfinite(score.mean) and score.row.recorded.settings]
    rows = [score.row for score in scores]
    here = [each for each in results.study.chosen if each.section == section.recorded.title]
    chosen, given = {each.row for each in here if each.tried}, [each.row for each in here if not each.tried]
    edge = [f"{each.row} ({each.chosen})" for each in here if each.at_edge]
    unlike = _("Not tuned as the other rows are: {rows}.", rows=listed(given))
    at_end = _("Chosen at the edge of what was tried: {rows}.", rows=listed(edge))
    return [
        *([Guard("not tuned", unlike)] if chosen and given else []),
        *([Guard("edge", at_end)] if edge else []),
        *at_the_edge(scores, declared(section.recorded, results)),
        *not_tuned([row for row in rows if row.label not in chosen]),
    ]


def at_the_edge(scores: list[RowScore], names: set[str]) -> Iterator[Guard]:
    """Warn if the best rows have the largest or smallest value of a setting among the rows that differ in nothing else,
    and a further one is possible. `names`: the settings in which the section's rows may differ."""
    best = [score.row for score in scores if score.bold]
    for name in sorted(names):
        others = [other_settings(row, name) for row in best]
        alike = [score.row for score in scores if other_settings(score.row, name) in others]
        tried = sorted({number for row in alike if (number := axis_number(row, name)) is not None})
        ends = {axis_number(row, name) for row in best}
        if len(tried) < FEWEST or len(ends) > 1:
            continue
        is_lowest = tried[0] in ends and tried[0] > LEAST.get(name, 0)
        if is_lowest or (tried[-1] in ends and math.isfinite(tried[-1])):
            words = _(
                "Best at the edge of the tried range: {best} ({axis} {tried}).",
                best=listed([row.label for row in best]),
                axis=_("blocks") if name == "tune" else symbol(name),
                tried=", ".join(f"{number:g}" for number in tried),
            )
            yield Guard("edge", words)


def other_settings(row: Row, name: str) -> dict[str, str]:
    return {key: value for key, value in (row.recorded.settings or {}).items() if key != path(name)}


def axis_number(row: Row, name: str) -> float | None:
    """Return a setting as a number, for `tune` the number of tuned blocks; None if it is no number."""
    if name not in SETTINGS or name in AS_RUN or name in DATA:
        return None
    value = setting(row, path(name))
    if name == "tune" and isinstance(value, dict):
        blocks = value.get("last_blocks")
        value = None if value.get("lora") else math.inf if blocks is None else blocks
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def setting(row: Row, name: str) -> Any:
    text = (row.recorded.settings or {}).get(name, "null")
    try:
        return json.loads(text)
    except ValueError:
        return text


def not_tuned(rows: list[Row]) -> Iterator[Guard]:
    """Warn if rows of several losses or encoders, or with and without adapters, share the one learning rate that they
    have."""
    kinds = dict[Hashable, list[Row]]()
    for row in rows:
        tune = setting(row, "encoder.tune") or {}
        if tune.get("last_blocks") != 0:  # if only the head trains, the encoder has no learning rate
            kind = (setting(row, "objective.loss"), setting(row, "encoder.model"), bool(tune.get("lora")))
            kinds.setdefault(kind, []).append(row)
    sharing = dict[str, list[list[Row]]]()  # learning rate → the kinds that tried only this one
    for members in kinds.values():
        rates = {str(setting(row, "training.encoder_lr")) for row in members}
        if len(rates) == 1:
            sharing.setdefault(rates.pop(), []).append(members)
    for rate, groups in sharing.items():
        if len(groups) > 1:
            labels = listed([row.label for members in groups for row in members])
            yield Guard("not tuned", _("Not tuned: {rows} share one learning rate ({rate}).", rows=labels, rate=rate))
