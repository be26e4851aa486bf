"""Turn the runs of a table into results, and these into verdicts: as a frame, as a report, and in words."""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

import pandas as pd

from ablate.columns import Columns, Runs, runs_of
from ablate.directions import higher_is_better
from ablate.table import Table, of_frame
from contrastive.config.experiment import Show
from contrastive.config.scores import USUAL_MARGIN, margin_of, score_facts
from contrastive.errors import UserError, brief_name
from contrastive.grid.messages import comma_list, nearest_name
from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.build import build
from reports.compare import RowScore, Section
from reports.export import comparison_line
from reports.guards import Guard
from reports.looks import compare_section
from reports.overview import overview
from reports.study import MEASURED, CellRun, Foreign, Kind, Results, Study

BASELINES = ("baseline", "base", "control", "default", "reference")
PERCENT = 1.5  # a share of at least this is taken for percent
SMALL = 0.1  # below this, a hundredth of the largest value is the usual margin of a share
REPORT_FILES = {"README.md", "index.html", "answer.json", "results.csv", "means.csv", "comparisons.csv", "figures"}


@dataclass(frozen=True)
class Question:
    """Question of a user: against which row, which differences matter, and which scores are better if lower."""

    baseline: str | None = None
    margins: Mapping[str, float] = field(default_factory=dict)  # by score; "" for all others
    lower: tuple[str, ...] = ()
    higher: tuple[str, ...] = ()


def results_of(runs: Runs, question: Question, command: str) -> Results:
    """Return the results of runs; raise UserError that names the lines of a mistake."""
    names = [*runs.scores.columns]
    check_question(names, question)
    scale = {name: percent(runs, name) for name in names}
    scores = (runs.scores / pd.Series(scale)).set_axis(runs.lines["cell"].tolist())
    directions = dict.fromkeys(question.higher, True) | dict.fromkeys(question.lower, False)
    guessed = {name: higher_is_better(name) for name in names if name not in directions}
    assumed = [name for name, higher in guessed.items() if higher is None]
    higher = {name: directions.get(name, guessed.get(name) is not False) for name in names}
    notes = [*runs.notes]
    if assumed:
        notes.append(
            f"{comma_list(assumed)}: higher is assumed to be better; --lower {quote(assumed[0])} reverses this."
        )
    shares = [name for name in names if guessed.get(name) and scores[name].dropna().between(0, 1).all()]
    title = runs.name.rpartition(".")[0] or runs.name
    study = Study(
        re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "table",
        [section_of(runs, question, title)],
        runs.name,
        margins=margins_of(question, scale, shares, scores),
        foreign=Foreign(command, runs.paired, tuple(notes)),
    )
    measured = [
        (cell, name, value, higher[name], None, "", None)
        for name in names
        for cell, value in scores[name].dropna().items()
    ]
    lacking = dict[str, dict[str, str]]()
    for line, values in zip(runs.lines.itertuples(), scores.itertuples(index=False), strict=True):
        missing = [name for name, value in zip(names, values, strict=True) if math.isnan(value)]
        lacking[str(line.cell)] = dict.fromkeys(missing, f"{line.place} of {runs.name} {line.lacks}")
    return Results(
        study,
        {cell: CellRun(cell, "finished") for cell in scores.index},
        scores,
        pd.DataFrame(),
        {},
        {name: Kind(higher[name]) for name in names},
        measured=pd.DataFrame(measured, columns=MEASURED),
        notes=lacking,
        digest=hashlib.sha256(repr([study.sections, study.margins, scores.to_dict()]).encode()).hexdigest()[:16],
    )


def section_of(runs: Runs, question: Question, title: str) -> RecordedSection:
    """Return the rows of a table, the baseline first; on several data sets, each has its own."""
    show = Show.model_validate({"table": {"values": [*runs.scores.columns]}})
    groups = dict[Any, pd.DataFrame](iter(runs.lines.groupby(["data", "label"], sort=False)))
    baseline = baseline_of(list(dict.fromkeys(label for _, label in groups)), question.baseline, runs.name)
    ordered = sorted(groups, key=lambda key: key[1] != baseline)
    several = len({data for data, _ in groups}) > 1
    rows = []
    for data, label in ordered:
        lines = groups[data, label]
        axes = lines["axes"].iloc[0] if len(lines["axes"].iloc[0]) > 1 else {}
        against = ordered.index((data, baseline)) if label != baseline and (data, baseline) in groups else None
        rows.append(
            RecordedRow(
                f"{label} · {data}" if several else label,
                ({"data": data} if several else {}) | axes,
                label == baseline,
                data,
                lines["cell"].tolist(),
                lines["seed"].tolist(),
                against,
            )
        )
    return RecordedSection(title, "", show, rows)


def baseline_of(names: list[str], wanted: str | None, table: str) -> str:
    if wanted is not None and wanted not in names:
        raise UserError(f"{table} has no row `{brief_name(wanted)}`{nearest_name(wanted, names)}")
    if wanted is not None:
        return wanted
    usual = [name for name in names if name.lower() in BASELINES]
    if len(usual) != 1 and len(names) > 1:
        raise UserError(f"say which row is the baseline ({comma_list(names)}):\n--baseline {quote(names[0])}")
    return usual[0] if usual else names[0]


def margins_of(
    question: Question, scale: Mapping[str, float], shares: list[str], scores: pd.DataFrame
) -> dict[str, float]:
    """Return the margins asked for, in the table's unit, and the usual one for scores that look like `shares`.

    The usual one is a hundredth, of the largest value if all are small.
    """
    margins = dict[str, float]()
    for name in scale:
        asked = question.margins.get(name, question.margins.get(""))
        largest = scores[name].abs().max()
        if asked is not None:
            margins[name] = asked / scale[name]
        elif name in shares or margin_of(name, {}) is not None:
            margins[name] = USUAL_MARGIN * (largest if 0 < largest < SMALL else 1.0)
    return margins


def check_question(scores: list[str], question: Question) -> None:
    """Raise UserError if an option names a score that the table lacks, or gives one two directions."""
    options = {"--margin": question.margins, "--lower": question.lower, "--higher": question.higher}
    for option, name in ((option, name) for option, names in options.items() for name in names):
        if name and name not in scores:
            raise UserError(f"{option} {brief_name(name)}: no such score{nearest_name(name, scores)}")
        if name in question.lower and name in question.higher:
            raise UserError(f"{brief_name(name)} is in --lower and in --higher; name it in one of them")


def percent(runs: Runs, score: str) -> float:
    """Return 100 for shares that are given in percent, else 1; raise UserError if rows differ in this."""
    values = runs.scores[score].abs()
    if not math.isfinite(score_facts(score).width) or not (values > PERCENT).any():
        return 1.0
    largest = values.groupby([runs.lines["data"], runs.lines["label"]]).idxmax().dropna().map(values).sort_values()
    if 0 < largest.iloc[0] <= 1:
        rows = [" ".join(filter(None, reversed(row))) for row in (largest.index[0], largest.index[-1])]
        raise UserError(f"{runs.name}: {rows[0]} has {score} as a fraction, {rows[1]} in percent; write all alike")
    return 100.0


@dataclass(frozen=True)
class Verdicts:
    """The comparisons of a table: each row against the baseline, by the model and guards of every report."""

    results: Results
    columns: str  # which column was taken for what

    @cached_property
    def compared(self) -> tuple[list[Guard], Section]:
        """Warnings and comparisons."""
        return compare_section(self.results.study.sections[0], self.results)

    @property
    def warnings(self) -> list[str]:
        """Sentences on what forbids or limits comparisons, such as missing seeds."""
        return [str(guard.words) for guard in self.compared[0]]

    @property
    def comparisons(self) -> list[RowScore]:
        """Each score of each row that has a baseline, with its comparison."""
        return [score for score, _comparison in self.compared[1].comparisons]

    def frame(self) -> pd.DataFrame:
        """Return the comparisons as a data frame, the columns of comparisons.csv."""
        section = self.compared[1]
        return pd.DataFrame([comparison_line(score, section) for score in section.scores])

    def report(self, folder: str | Path) -> Path:
        """Write the report into a folder, and return the path of its page. It may replace an earlier report."""
        place = Path(folder)
        if others := sorted(path.name for path in place.glob("*") if path.name not in REPORT_FILES):
            raise UserError(f"{place} has other files ({comma_list(others)}); name a new folder for the report")
        build(self.results, place)
        return place / "index.html"

    def __str__(self) -> str:
        return str(overview(self.results, [self.compared[1]], ["0"]).headline)


def judge(
    frame: pd.DataFrame,
    *,
    row: str | Iterable[str] = (),
    seed: str | None = None,
    score: str | Iterable[str] = (),
    data: str | None = None,
    metric: str | None = None,
    value: str | None = None,
    baseline: object = None,
    margin: float | Mapping[str, float] | None = None,
    lower: str | Iterable[str] = (),
    higher: str | Iterable[str] = (),
    paired: bool = False,
    name: str = "table",
) -> Verdicts:
    """Compare the rows of a data frame with a baseline row.

    A line of the frame has the score(s) of one run. Columns left out are read by their names: the only column of words
    has the rows, `seed` the seeds, the other columns of numbers the scores (`Verdicts.columns` says which). `metric`
    and `value`: columns of a frame with one score a line; `margin`: largest difference that does not matter, of all
    scores or by score; `lower` and `higher`: scores whose direction is not guessed; `paired`: equal numbers of the seed
    column belong together although they seem to count sorted runs. Raises UserError.
    """
    if not isinstance(frame, pd.DataFrame):
        raise UserError(f"ablate.judge takes a pandas DataFrame, not a {type(frame).__name__}")
    margins: Mapping[str, Any] = margin if isinstance(margin, Mapping) else {} if margin is None else {"": margin}
    for size in margins.values():
        if isinstance(size, bool) or not isinstance(size, int | float) or not 0 < size < math.inf:
            raise UserError(f"margin is {size!r}; give a number above 0, or one for each score: {{'accuracy': 0.01}}")
    given = Columns(names_of(row), names_of(score), seed, data, metric, value, paired)
    question = Question(None if baseline is None else str(baseline), margins, names_of(lower), names_of(higher))
    return judge_table(of_frame(frame, name), given, question, "ablate.judge(…)")


def judge_table(table: Table, given: Columns, question: Question, command: str) -> Verdicts:
    """Compare the rows of a table. `command` builds the report again."""
    runs = runs_of(table, given)
    results = results_of(runs, question, command)
    directions = {True: "higher is better", False: "lower is better"}
    scores = [f"{name} ({directions[bool(kind.higher_is_better)]})" for name, kind in results.kinds.items()]
    rows, *others = runs.described
    return Verdicts(results, "; ".join([rows, f"scores {comma_list(scores)}", *others]))


def names_of(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
