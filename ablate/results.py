"""Turn a table of scores into results that a report can be made of: rows, seeds, scores, perhaps single texts."""

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ablate.columns import SECONDS, Columns, number_of
from ablate.directions import higher_is_better, lower_is_better
from ablate.table import ScoreKind, Table
from contrastive.config.experiment import USUAL_MARGIN, Experiment, Show, margin_of, score_width
from contrastive.errors import UserError, brief_name
from contrastive.grid.messages import comma_list, nearest_name
from contrastive.runs.recorded import Hardware, Provenance, RecordedGrid, RecordedRow, RecordedSection
from reports.load import MEASURED, CellRun, Kind, Results, TableSource

BASELINES = ("baseline", "base", "control", "default", "reference")
PERCENT = 1.5  # a share of at least this is taken for percent


@dataclass(frozen=True)
class Question:
    """What is asked of a table: against which row, which differences matter, and which scores are better if lower."""

    baseline: str | None = None
    margins: Mapping[str, float] = field(default_factory=dict)
    lower: tuple[str, ...] = ()
    higher: tuple[str, ...] = ()
    primary: str | None = None


@dataclass(frozen=True, repr=False)
class TableResults(Results):
    """Results of a table, with the values of single texts in memory."""

    texts: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)  # cell → score → values, ordered by text
    text_marks: dict[str, int] = field(default_factory=dict)  # cell → checksum of its texts' ids

    def per_text(self, cell: str, score: str) -> np.ndarray | None:
        return self.texts.get(cell, {}).get(score)

    def marks(self, cell: str) -> dict[str, int]:
        return {f"{name.partition('.')[0]}.ids": self.text_marks[cell] for name in self.texts.get(cell, {})}

    def examples(self, cell: str, names: Iterable[str]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        own = self.texts.get(cell, {})
        return {name: own[name] for name in names if name in own}, self.marks(cell)

    def code_files(self, cell: str) -> dict[str, str]:
        return {}


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    place: str
    section: str
    data: str
    label: str
    axes: dict[str, Any]
    seed: int
    text: str
    scores: list[float]
    seconds: float = math.nan  # that the run took


def results_of(table: Table, columns: Columns, question: Question, command: str) -> TableResults:
    """Return the results of a table; raise UserError that names the lines of a mistake."""
    lines = read_lines(table, columns)
    lines += failed_lines(table, columns, lines)
    scale = {name: percent(table, name, [(x, x.scores[i]) for x in lines]) for i, name in enumerate(columns.scores)}
    by_cell = cells_of(lines, columns, table)
    scores, notes, texts, marks = dict[str, dict[str, float]](), dict[str, dict[str, str]](), {}, {}
    for cell, own in by_cell.items():
        values = np.array([line.scores for line in own], dtype=float) / [scale[name] for name in columns.scores]
        scores[cell] = dict(zip(columns.scores, values.mean(0).tolist(), strict=True))
        gone = {
            n: line.place
            for line in own
            for n, value in zip(columns.scores, line.scores, strict=True)
            if math.isnan(value)
        }
        if gone:
            notes[cell] = {name: f"{place} of {table.name} has no number" for name, place in gone.items()}
        if columns.text and len(own) > 1:
            texts[cell] = {name: as_counts(values[:, i]) for i, name in enumerate(columns.scores)}
            marks[cell] = zlib.crc32(json.dumps([line.text for line in own]).encode())
    count = max(map(len, by_cell.values())) if columns.text else None
    check_directions(columns, question)
    kinds = {name: kind_of(name, question, table.kinds.get(name), count) for name in columns.scores}
    asked = {name: size / scale.get(name, 1.0) for name, size in question.margins.items()}  # in the table's unit
    question = replace(question, margins=usual_margins(scores, kinds) | asked)
    measured = [
        (cell, name, value, kinds[name].higher_is_better, kinds[name].count, "", None)
        for cell, values in scores.items()
        for name, value in values.items()
        if math.isfinite(value)
    ]
    title = table.name.rpartition(".")[0] or table.name
    sections = sections_of(lines, columns, question, table, title)
    grid = RecordedGrid(experiment_of(title, columns, question), sections, [])
    runs = {cell: CellRun(cell, "finished", "", cost_of(own[0]), "", "", {}, "") for cell, own in by_cell.items()}
    return TableResults(
        grid, runs, pd.DataFrame.from_dict(scores, orient="index", dtype=float), pd.DataFrame(), {}, kinds, {},
        pd.DataFrame(measured, columns=MEASURED), notes=notes,
        digest=hashlib.sha256(json.dumps([grid.document(), scores], sort_keys=True).encode()).hexdigest()[:16],
        table=TableSource(
            table.name, command, columns.pairing, assumed(columns, question, table), columns.unpaired,
            str(columns.seed),
        ), texts=texts, text_marks=marks,
    )  # fmt: skip


def read_lines(table: Table, columns: Columns) -> list[Line]:
    """Return the lines in order of texts; raise UserError for text among numbers, and rows without a name or seed."""
    lines, wrong, counts = [], list[str](), dict[tuple[str, str], int]()
    for place, values in zip(table.places, table.frame.to_dict("records"), strict=True):
        numbers = [number_of(values[name]) for name in columns.scores]
        wrong += [
            f"{place}: {name} is `{brief_name(values[name])}`, which is not a number"
            for name, number in zip(columns.scores, numbers, strict=True)
            if number is None
        ]
        data, axes = str(values[columns.data]) if columns.data else "", {name: values[name] for name in columns.row}
        wrong += [f"{place}: {name} is empty" for name, value in axes.items() if is_empty(value)]
        label, number = label_of(axes), number_of(values[columns.seed]) if columns.seed else None
        if columns.seed and (number is None or not math.isfinite(number) or number != math.floor(number)):
            wrong.append(
                f"{place}: {columns.seed} is `{brief_name(values[columns.seed])}`, which is not a whole number"
            )
        seed = counts.get((data, label), 0) if number is None or not math.isfinite(number) else int(number)
        counts[data, label] = seed + 1
        text = str(values[columns.text]) if columns.text else ""
        section = str(values[columns.section]) if columns.section else ""
        seconds = number_of(values.get(SECONDS))
        scores = [n if n is not None and math.isfinite(n) else math.nan for n in numbers]
        lines.append(
            Line(place, section, data, label, axes, seed, text, scores, math.nan if seconds is None else seconds)
        )
    if wrong:
        more = [f"and {len(wrong) - 20} more"] if len(wrong) > 20 else []
        raise UserError("\n".join([f"{table.name}, {text}" for text in wrong[:20]] + more))
    return sorted(lines, key=lambda line: line.text) if columns.text else lines


def failed_lines(table: Table, columns: Columns, finished: Sequence[Line]) -> list[Line]:
    """Return a line without scores for each run that failed, unless the row has a finished run of the same seed."""
    keys = [*columns.row, *filter(None, (columns.seed, columns.data))]
    if table.failed is None or columns.text or not {*keys} <= {*table.failed.columns}:
        return []
    known = table.failed[~table.failed[keys].map(is_empty).any(axis=1)]
    frame = known.assign(**dict.fromkeys(columns.scores, math.nan)).reset_index(drop=True)
    found = {cell_of(line) for line in finished} if columns.seed else set()
    lines = read_lines(replace(table, frame=frame, places=[*known.index]), columns)
    if columns.seed is None:  # runs are numbered: go on where the finished ones end
        lines = [replace(line, seed=-1 - number) for number, line in enumerate(lines)]
    return list({cell_of(line): line for line in reversed(lines) if cell_of(line) not in found}.values())


def cells_of(lines: Sequence[Line], columns: Columns, table: Table) -> dict[str, list[Line]]:
    """Return the lines of each row and seed; raise UserError if a row has a seed, or a text of a seed, twice."""
    cells: dict[str, list[Line]] = {}
    seen: dict[tuple[str, str], str] = {}
    for line in lines:
        cell = cell_of(line)
        if (before := seen.setdefault((cell, line.text), line.place)) != line.place:
            what = f"{line.label}, seed {line.seed}" + (f", text {brief_name(line.text)}" if columns.text else "")
            raise UserError(
                f"{table.name}, {before} and {line.place}: both are {what}; remove one, or name the column that tells "
                "them apart (--row, --seed, --data or --text COLUMN)"
            )
        cells.setdefault(cell, []).append(line)
    return cells


def sections_of(
    lines: Sequence[Line], columns: Columns, question: Question, table: Table, title: str
) -> list[RecordedSection]:
    """Return the sections, one unless the table is our own export."""
    sections, show = [], Show.model_validate({"table": {"values": list(columns.scores)}})
    for section in dict.fromkeys(line.section for line in lines):
        own = [line for line in lines if line.section == section]
        groups: dict[tuple[str, str], Line] = {}
        for line in own:
            groups.setdefault((line.data, line.label), line)
        baseline = baseline_of([label for _, label in groups], question.baseline, table)
        ordered = sorted(groups, key=lambda key: key[1] != baseline)
        positions = {key: number for number, key in enumerate(ordered)}
        several = len({data for data, _ in groups}) > 1
        rows = []
        for data, label in ordered:
            line = groups[data, label]
            seeds = list(dict.fromkeys(x.seed for x in own if (x.data, x.label) == (data, label)))
            cells = [cell_of(replace(line, seed=seed)) for seed in seeds]
            against = positions.get((data, baseline)) if label != baseline else None
            axes = ({"data": data} if several else {}) | (line.axes if len(line.axes) > 1 else {})
            name = f"{label} · {data}" if several else label
            rows.append(RecordedRow(name, axes, label == baseline, data, cells, seeds, against))
        sections.append(RecordedSection(section or title, "", show, rows))
    return sections


def baseline_of(labels: Sequence[str], wanted: str | None, table: Table) -> str:
    names = list(dict.fromkeys(labels))
    if wanted is not None:
        if wanted not in names:
            raise UserError(f"{table.name} has no row `{brief_name(wanted)}`{nearest_name(wanted, names)}")
        return wanted
    usual = [name for name in names if name.lower() in BASELINES]
    if len(usual) != 1 and len(names) > 1:
        raise UserError(f"name the row that all others are compared with: --baseline ROW ({comma_list(names)})")
    return usual[0] if usual else names[0]


def experiment_of(title: str, columns: Columns, question: Question) -> Experiment:
    """Return an experiment for the settings of the report; nothing else in it is read."""
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "table"
    unknown = [score for score in question.margins if score not in columns.scores]
    if unknown:
        raise UserError(f"--margin {brief_name(unknown[0])}: no such score{nearest_name(unknown[0], columns.scores)}")
    return Experiment.model_validate(
        {
            "name": name, "data": {"source": "file:table", "test": 1}, "encoder": {"model": "scratch:bert"},
            "sections": [{"title": title, "baseline": {}}],
            "report": {"margin": dict(question.margins), "primary": question.primary},
        }
    )  # fmt: skip


def usual_margins(scores: Mapping[str, Mapping[str, float]], kinds: Mapping[str, Kind]) -> dict[str, float]:
    """Return the usual margin for scores that look like shares by their values, though not by their names."""
    names = [name for name in kinds if margin_of(name, {}) is None and kinds[name].higher_is_better]
    return {
        name: USUAL_MARGIN
        for name in names
        if all(0 <= own[name] <= 1 for own in scores.values() if math.isfinite(own[name]))
    }


def check_directions(columns: Columns, question: Question) -> None:
    for option, names in (("--lower", question.lower), ("--higher", question.higher)):
        for name in names:
            if name not in columns.scores:
                raise UserError(f"{option} {brief_name(name)}: no such score{nearest_name(name, columns.scores)}")
            if name in question.lower and name in question.higher:
                raise UserError(f"{brief_name(name)} is in --lower and in --higher; name it in one of them")


def cost_of(line: Line) -> Provenance | None:
    """Return the time of a run, if the table has it, so that the report says what more seeds would take."""
    if not math.isfinite(line.seconds):
        return None
    return Provenance(line.seconds, 0.0, Hardware("cpu", "", None, 0))


def kind_of(score: str, question: Question, known: ScoreKind | None, count: int | None) -> Kind:
    """Return direction and number of texts of a score: as asked, as the table says, or as its name suggests."""
    usual = known.higher if known else not lower_is_better(score)
    return Kind(score in question.higher or (usual and score not in question.lower), known.texts if known else count)


def assumed(columns: Columns, question: Question, table: Table) -> tuple[str, ...]:
    """Return the scores whose direction neither the user, the table nor a word of the name tells."""
    told = {*question.lower, *question.higher, *table.kinds}
    return tuple(name for name in columns.scores if name not in told and higher_is_better(name) is None)


def percent(table: Table, score: str, values: Sequence[tuple[Line, float]]) -> float:
    """Return 100 for shares that are given in percent, else 1; raise UserError if rows differ in this."""
    finite = [(line, abs(value)) for line, value in values if math.isfinite(value)]
    if not math.isfinite(score_width(score)) or all(value <= PERCENT for _, value in finite):
        return 1.0
    most: dict[tuple[str, str], tuple[float, Line]] = {}
    for line, value in finite:
        key = (line.data, line.label)
        most[key] = max(most.get(key, (0.0, line)), (value, line), key=lambda each: each[0])
    (least, fraction), (_, whole) = (pick(most.values(), key=lambda each: each[0]) for pick in (min, max))
    if 0 < least <= 1:
        raise UserError(
            f"{table.name}, {fraction.place} and {whole.place}: one has {score} as a fraction, the other in percent; "
            "write all in the same way"
        )
    return 100.0


def as_counts(values: np.ndarray) -> np.ndarray:
    """Return values of 0 and 1 as booleans: single texts are right or wrong."""
    return values.astype(bool) if np.isin(values, (0.0, 1.0)).all() else values


def label_of(axes: Mapping[str, Any]) -> str:
    if len(axes) == 1:
        return str(next(iter(axes.values())))
    return " · ".join(str(v) if isinstance(v, str) and number_of(v) is None else f"{n}={v}" for n, v in axes.items())


def is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or str(value).strip() == ""


def cell_of(line: Line) -> str:
    """Return the id of a row at a seed."""
    return hashlib.sha256(json.dumps([line.section, line.data, line.label, line.seed]).encode()).hexdigest()[:12]
