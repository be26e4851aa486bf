"""What a finding leaves open: values beyond those that were tried, rows that were not tuned, rows below the reference.

None of these forbids to rank; they are limits of what can be concluded.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from contrastive.config.experiment import SETTINGS
from reports.compare import RowScore, Section
from reports.guards.same import AS_RUN, DATA, path
from reports.guards.section_cells import Guard, listed
from reports.load import Results
from reports.markdown import heading, symbol
from reports.messages import _
from reports.rows import Row, references_of

FEWEST = 3  # values of an axis: of two, the best is always at an end
LEAST = {"k": 1.0}  # the smallest value that can be; of other settings it is 0


def tuning(section: Section, results: Results) -> list[Guard]:
    value = next(iter(section.tested), "")
    scores = [score for score in section.scores if score.value == value and not score.row.variant]
    scores = [score for score in scores if math.isfinite(score.mean) and score.row.recorded.settings]
    return [*at_the_edge(section, scores), *not_tuned(scores), *below_reference(scores, section, results)]


def at_the_edge(section: Section, scores: list[RowScore]) -> Iterator[Guard]:
    """Axes of which the best rows have the largest or the smallest value that was tried, and more could be."""
    best = [score.row for score in scores if score.bold]
    if not best or len(best) == len(scores):
        return
    for name in dict.fromkeys(name for row in best for name in row.recorded.axes):
        numbers = {score.row.number: size(score.row, name) for score in scores}
        tried = sorted({number for number in numbers.values() if number is not None})
        ends = {numbers[row.number] for row in best}
        if len(tried) < FEWEST or len(ends) > 1:
            continue
        (end,) = ends
        if (end == tried[-1] and math.isfinite(tried[-1])) or (end == tried[0] and tried[0] > LEAST.get(name, 0)):
            words = _(
                "{best} is best at the edge of what was tried ({axis} {tried}).",
                best=listed([row.label for row in best]),
                axis=_("blocks") if name == "tune" else symbol(name),
                tried=", ".join(f"{number:g}" for number in tried),
            )
            yield Guard("edge", words, False)


def size(row: Row, name: str) -> float | None:
    """A setting as a number; of what is tuned, the number of blocks."""
    if name not in SETTINGS or name in AS_RUN or name in DATA:
        return None
    value: Any = json_or_text((row.recorded.settings or {}).get(path(name)))
    if name == "tune":
        tune = value if isinstance(value, dict) else {}
        blocks = tune.get("last_blocks")
        return None if tune.get("lora") else math.inf if blocks is None else float(blocks)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def json_or_text(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return text


def not_tuned(scores: list[RowScore]) -> Iterator[Guard]:
    """Rows that differ in kind, adapters beside weights or another encoder, at one learning rate for all."""
    kinds, rates = dict[tuple[object, bool], list[str]](), set[str]()
    for row in (score.row for score in scores):
        settings = row.recorded.settings or {}
        tune = json_or_text(settings.get("encoder.tune"))
        tune = tune if isinstance(tune, dict) else {}
        if tune.get("last_blocks") != 0:  # where nothing but the head trains, the encoder has no learning rate
            kinds.setdefault((settings.get("encoder.model"), bool(tune.get("lora"))), []).append(row.label)
            rates.add(settings.get("training.encoder_lr", ""))
    if len(kinds) > 1 and len(rates) == 1:
        words = _(
            "Not tuned: {rows} share one learning rate ({rate}).",
            rows=listed([label for labels in kinds.values() for label in labels]),
            rate=rates.pop(),
        )
        yield Guard("not tuned", words, False)


def below_reference(scores: list[RowScore], section: Section, results: Results) -> Iterator[Guard]:
    if not any(comparison.tested for _score, comparison in section.compared):
        return
    for name, reference in references_of(section.recorded, results).items():
        below = [
            score
            for score in scores
            if score.value in reference and score.higher is not None
            if (reference[score.value] - score.mean) * (1 if score.higher else -1) > (score.margin or 0.0)
        ]
        if below:
            rows = listed([score.row.label for score in below])
            value = heading(below[0].value)
            words = _("{reference} is better in {score} than {rows}.", reference=name, score=value, rows=rows)
            yield Guard("reference", words, False)
