"""Compare a night's scores and timings with earlier nights; write the page of nights.

Two nights are two rows of an ordinary report for each configuration, so that its comparisons, words and tables serve.
"""

import hashlib
import math
import os
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from contrastive.config.experiment import Show
from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.build import build
from reports.compare import Section
from reports.looks import compare_section
from reports.markdown import heading, plain
from reports.statistics.decide import ROUNDING
from reports.study import CellRun, Foreign, Kind, Results, Study
from reports.tables import Entry, Table, list_table

VERSION = 3
TIMINGS = {"training_seconds": False, "texts_per_second": True}  # → whether higher is better
PANEL = "mean of all"  # the row of means over all configurations
SHOWN = 30  # nights in the history

Margin = Annotated[float, Field(gt=0, description="a smaller change does not matter")]
Values = Float[np.ndarray, " s"]


class NightSettings(BaseModel):
    """Settings of the nightly verdict: which changes count."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    window: int = Field(10, ge=3, description="nights that timings are compared with, the first ones of an environment")
    false_alarms: float = Field(0.005, gt=0, le=0.05, description="share of nights that may fail without a cause")
    quality: Mapping[str, Margin] = Field(min_length=1, description="score → margin, e.g. test.accuracy: 0.005")
    speed: Margin = Field(description="the margin of timings, as a share: 0.1 is ten percent")


@dataclass(frozen=True)
class Night:
    """Results of one night; missing values are None."""

    when: str
    commit: str
    commits: list[tuple[str, str]]  # since the previous night: id and subject
    environment: dict[str, str]
    settings: NightSettings
    scores: dict[str, dict[str, list[float | None]]]  # score → configuration → value per seed
    higher: dict[str, bool]  # score → whether higher is better
    texts: dict[str, int]  # score made of counts → number of texts
    timings: dict[str, list[float | None]]  # timing → value per cell
    failed: list[str] = field(default_factory=list)  # cells without a result, with the reason
    version: int = VERSION
    acknowledged: str = ""

    def values(self, score: str, row: str) -> Values | None:
        """Return a score per seed of a configuration, or of PANEL the mean over all if they have as many seeds; NaN for
        missing values."""
        rows = {label: np.array(values, dtype=float) for label, values in self.scores.get(score, {}).items()}
        if row != PANEL:
            return rows.get(row)
        return np.mean([*rows.values()], axis=0) if len({*map(len, rows.values())}) == 1 else None

    @property
    def rows(self) -> list[str]:
        """Labels of the configurations, after PANEL if there are several that have equal numbers of seeds."""
        rows = {label: len(values) for by_row in self.scores.values() for label, values in by_row.items()}
        return [PANEL, *rows] if len(rows) > 1 and len({*rows.values()}) == 1 else [*rows]

    def log_of(self, timing: str) -> float | None:
        """Return the mean logarithm of a timing, since cells and machines differ by factors; None without values."""
        values = [value for value in self.timings.get(timing, ()) if value]
        return float(np.mean(np.log(values))) if values else None


NIGHT = TypeAdapter(Night)


# What may be said of a score or timing, in the order of headlines
WORDS_OF_NIGHTS = (
    "worse", "not measured", "slower", "possibly worse", "better", "not comparable", "undecided", "equivalent", "same",
)  # fmt: skip
FAILS = ("worse", "not measured", "slower")  # a night with one of these fails
COUNTED = ("undecided", "equivalent", "same")  # listed without names


@dataclass(frozen=True)
class NightVerdict:
    """One night beside an earlier one of its environment (None: it is the first one)."""

    night: Night
    then: Night | None
    names: Mapping[str, list[str]]  # what is said (WORDS_OF_NIGHTS) → scores and timings
    results: Results | None = None  # both nights, of the configurations that changed
    sections: Sequence[Section] = ()  # their comparisons
    timings: list[str] = field(default_factory=list)

    @property
    def failing(self) -> list[tuple[str, str]]:
        return [(kind, name) for kind in FAILS for name in self.names.get(kind, ())]

    @property
    def headline(self) -> str:
        parts = list[str]()
        for kind in WORDS_OF_NIGHTS:
            if names := self.names.get(kind):
                word = "the same at every seed" if kind == "same" else kind
                parts.append(f"{len(names)} {word}" + ("" if kind in COUNTED else f" ({', '.join(names)})"))
        return ", ".join(parts) or "nothing to compare with"


def judge_scores(now: Night, then: Night | None) -> NightVerdict:
    """Compare the scores of two nights, seed by seed. Of the nights in which nothing changed but by chance, at most the
    share `false_alarms` has a score that is worse."""
    names, moved = defaultdict[str, list[str]](list), dict[str, None]()
    rows = dict.fromkeys([*now.rows, *(then.rows if then else ())]) or [PANEL]
    for row, score in product(rows, now.settings.quality):
        ours, theirs = now.values(score, row), None if then is None else then.values(score, row)
        if ours is None or score not in now.higher or not np.isfinite(ours).all():
            names["not measured"].append(name_of(score, row))
        elif then is None:
            continue
        elif theirs is None or not np.isfinite(theirs).any():
            names["not comparable"].append(name_of(score, row))
        elif ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=ROUNDING, atol=0):
            names["same"].append(name_of(score, row))
        else:
            moved[row] = None
    if then is None or not moved:
        return NightVerdict(now, then, names)
    results = results_of(now, then, [[PANEL] if PANEL in moved else [], [row for row in moved if row != PANEL]])
    sections = [compare_section(section, results)[1] for section in results.study.sections]
    for compared, comparison in (each for section in sections for each in section.comparisons):
        kind, name = str(compared.verdict), name_of(compared.value, compared.row.data)
        if kind == "worse" and comparison.p * len(sections) > now.settings.false_alarms:
            kind = "possibly worse"
        if not any(name in names[other] for other in ("same", "not measured", "not comparable")):
            names[kind if kind in WORDS_OF_NIGHTS else "not comparable"].append(name)
    return NightVerdict(now, then, names, results, sections)


def name_of(score: str, row: str) -> str:
    return f"{heading(score)} of {row}"


def results_of(now: Night, then: Night, parts: Sequence[Sequence[str]]) -> Results:
    """Return the results of two nights with a section for each part: for each configuration a row of the earlier night,
    its baseline, and one of this night."""
    scores = [score for score in now.settings.quality if score in now.higher]
    show = Show.model_validate({"table": {"values": scores}})
    sections, values = list[RecordedSection](), dict[str, dict[str, float]]()
    for title, labels in zip(("Mean", "Configurations"), parts, strict=True):
        rows = list[RecordedRow]()
        for label, night in product(labels, (then, now)):
            name, against = (f"{label}, {then.commit or then.when}", None) if night is then else (label, len(rows) - 1)
            columns = {score: pd.Series(night.values(score, label), dtype=float) for score in scores}
            by_seed = pd.DataFrame(columns).dropna(how="all")
            cells = {f"{name}-{seed}": seed for seed in by_seed.index}
            values |= {cell: by_seed.loc[seed].to_dict() for cell, seed in cells.items()}
            rows.append(RecordedRow(name, {}, night is then, label, [*cells], [*cells.values()], against))
        sections += [RecordedSection(title, "", show, rows)] if rows else []
    study = Study("nightly", sections, f"{then.when} → {now.when}", margins=now.settings.quality, foreign=Foreign())
    # the earlier night's direction: code that turns a direction round makes no improvement of a loss
    kinds = {score: Kind(then.higher.get(score, now.higher[score]), now.texts.get(score)) for score in scores}
    runs = {cell: CellRun(cell, "finished") for cell in values}
    frame = pd.DataFrame.from_dict(values, orient="index", columns=scores, dtype=float)
    digest = hashlib.sha256(repr([then.when, now.when, values]).encode()).hexdigest()[:16]
    return Results(study, runs, frame, pd.DataFrame(), {}, kinds, digest=digest)


def judge_timings(now: Night, earlier: Sequence[Night]) -> tuple[list[str], dict[str, list[str]]]:
    """Return a line on each timing, and those that were not measured or are slower: tonight and last night both by more
    than the margin beyond the slowest of the first nights. Two nights, because a machine may be busy for one."""
    lines, names, size = list[str](), defaultdict[str, list[str]](list), now.settings.window
    for timing, higher in TIMINGS.items():
        name, tonight, sign = timing.replace("_", " "), now.log_of(timing), -1 if higher else 1
        nights = [log for night in earlier if (log := night.log_of(timing)) is not None]
        first = nights[:size]
        if tonight is None:
            names["not measured"].append(name)
        elif len(nights) <= size:
            lines.append(f"{name}: {math.exp(tonight):.4g}; night {len(nights) + 1} of the {size + 2} that are needed")
        else:
            lowest, highest = math.exp(min(first)), math.exp(max(first))
            lines.append(f"{name}: {math.exp(tonight):.4g}; {lowest:.4g} to {highest:.4g} in the first {size} nights")
            limit = max(sign * log for log in first) + math.log1p(now.settings.speed)
            if min(sign * nights[-1], sign * tonight) > limit:
                names["slower"].append(name)
    return lines, names


def comparable(nights: Sequence[Night], number: int) -> list[Night]:
    """Return the earlier nights with the same environment, from the last acknowledged one on."""
    same = [night for night in nights[:number] if night.environment == nights[number].environment]
    return same[max((i for i, night in enumerate(same) if night.acknowledged), default=0) :]


def judge_all(nights: Sequence[Night]) -> list[NightVerdict]:
    """Judge each night by its own settings, so that later nights change no verdict: its scores beside the first
    comparable night, its timings beside all of them."""
    verdicts = []
    for number, now in enumerate(nights):
        earlier = comparable(nights, number)
        scores, (timings, names) = judge_scores(now, earlier[0] if earlier else None), judge_timings(now, earlier)
        both = {kind: [*scores.names.get(kind, ()), *names.get(kind, ())] for kind in WORDS_OF_NIGHTS}
        verdicts.append(replace(scores, names=both, timings=timings))
    return verdicts


def write_nights(nights: Sequence[Night], output: Path) -> tuple[Path, NightVerdict]:
    """Write README.md of all nights, and the report `scores/` of the last one; `nights` must not be empty. Return the
    path of README.md and the verdict on the last night."""
    judged = judge_all(nights)
    rows = []
    for verdict in judged[: -SHOWN - 1 : -1]:
        night, words = verdict.night, verdict.headline
        if night.acknowledged:
            words += f"; acknowledged: {night.acknowledged}"
        rows.append([Entry(night.when), Entry(night.commit), Entry(words)])
    more = [
        *bulleted("## Commits since the last night that did not fail", commits_since(nights, judged)),
        "## Nights",
        Table(None, ["Night", "Commit", "Verdict"], rows).markdown(),
    ]
    title = f"# Nightly: {judged[-1].headline}"
    return write(judged[-1], output / "README.md", "scores", title, more), judged[-1]


def write_against(then: Night, now: Night, output: Path) -> tuple[Path, NightVerdict]:
    """Write against.md, without timings: one run cannot tell slow code from a busy machine."""
    verdict = judge_scores(now, then)
    commits = bulleted("## Commits since then", [" ".join(commit) for commit in now.commits])
    title = f"# Against {then.commit}: {verdict.headline}"
    return write(verdict, output / "against.md", "against", title, commits), verdict


def write(verdict: NightVerdict, page: Path, folder: str, title: str, more: Sequence[str]) -> Path:
    """Write a page, and beside it in a folder the report of what changed, if anything did."""
    page.parent.mkdir(parents=True, exist_ok=True)
    now, then = verdict.night, verdict.then
    blocks = [title, f"Night of {now.when}, commit {now.commit or '?'}."]
    if then is None:
        blocks.append("This is the first night of its environment.")
    else:
        blocks.append(f"Compared with the night of {then.when}, commit {then.commit or '?'}.")
    if verdict.results is None:
        shutil.rmtree(page.parent / folder, ignore_errors=True)
    else:
        build(verdict.results, page.parent / folder)
        blocks += [list_table(part, part.values, verdict.results).markdown() for part in verdict.sections]
        blocks.append(f"All numbers are in [{folder}/README.md]({folder}/README.md).")
    blocks += bulleted("## Timings", verdict.timings)
    blocks += bulleted("## Cells without a result", now.failed)
    fresh = page.with_name(f".{page.name}")
    fresh.write_text("\n\n".join([*blocks, *more]) + "\n", encoding="utf-8")
    os.replace(fresh, page)
    return page


def commits_since(nights: Sequence[Night], judged: Sequence[NightVerdict]) -> list[str]:
    """Return the commits since the last earlier night that did not fail; if there is none, those of tonight."""
    good = [number for number, verdict in enumerate(judged[:-1]) if not verdict.failing]
    after = nights[good[-1] + 1 :] if good else nights[-1:]
    return [" ".join(commit) for night in reversed(after) for commit in night.commits]


def bulleted(title: str, items: Sequence[str]) -> list[str]:
    return [title, "\n".join(f"- {plain(item)}" for item in items)] if items else []
