"""Turn a table of scores into results, and these into verdicts: as a frame, as a report, and in words."""

import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from ablate.board import check_board, records, texts_by_cell, ties
from ablate.columns import choose, described, failed_runs
from ablate.directions import higher_is_better, words_of
from ablate.doubts import doubts
from ablate.metric import LARGEST
from ablate.names import NESTED, SECONDS, is_empty, label_of, number_of, whole
from ablate.table import Columns, Table, of_frame, scalar, usual_form
from contrastive.config.experiment import Show
from contrastive.config.scores import USUAL_MARGIN, margin_of, score_facts
from contrastive.errors import UserError, brief_name
from contrastive.grid.messages import comma_list, nearest_name
from contrastive.runs.recorded import Hardware, Provenance, RecordedRow, RecordedSection
from reports.build import build
from reports.compare import RowScore, Section
from reports.export import comparison_line
from reports.guards import Guard
from reports.looks import compare_section
from reports.overview import overview
from reports.study import MEASURED, CellRun, Kind, Results, Study

BASELINES = ("baseline", "base", "control", "default", "reference")
RATES = {"rate", "wer", "cer", "eer", "der", "ter", "fpr", "fnr"}  # often in percent, and of any size
MIXED = 10  # times that rows of a rate differ if some are in percent
NEAR = 1.25  # a fraction and a percentage of two runs of a row differ at most by this
PERCENT = 1.5  # a share of at least this is taken for percent
SMALL = 0.1  # below this, a hundredth of the largest value is the usual margin of a share
REPORT_FILES = {"README.md", "index.html", "results.csv", "comparisons.csv", "effects.csv", "figures"}


@dataclass(frozen=True)
class Question:
    """Question of a user: against which row, which differences matter, and which scores are better if lower."""

    baseline: str | None = None
    margins: Mapping[str, float] = field(default_factory=dict)
    lower: tuple[str, ...] = ()
    higher: tuple[str, ...] = ()
    ties: bool = False  # which rows cannot be told from the best
    records: str = ""  # each row against the best before it, in the order of this column, or of the table
    sigma: Mapping[str, float] = field(default_factory=dict)  # known standard deviation of a run
    texts: str = ""  # number of test texts, or a column of them

    @property
    def board(self) -> Literal["", "ties", "records"]:
        return "ties" if self.ties else "records" if self.records else ""


@dataclass(frozen=True, repr=False)
class TableResults(Results):
    """Results of a table, with the values of single texts in memory."""

    texts: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)  # cell → score → values, ordered by text
    text_marks: dict[str, int] = field(default_factory=dict)  # cell → checksum of its texts' ids

    def marks(self, cell: str) -> dict[str, int]:
        return {f"{name.partition('.')[0]}.ids": self.text_marks[cell] for name in self.texts.get(cell, {})}

    def examples(self, cell: str, names: Iterable[str]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        own = self.texts.get(cell, {})
        return {name: own[name] for name in names if name in own}, self.marks(cell)


def results_of(table: Table, columns: Columns, question: Question, command: str) -> TableResults:
    """Return the results of a table; raise UserError that names the lines of a mistake."""
    check_question(columns, question)
    lines, told = lines_of(table, columns), {*question.lower, *question.higher, *table.kinds}
    assumed = tuple(name for name in columns.scores if name not in told and higher_is_better(name) is None)
    scale = {name: percent(table, name, lines, lines[i], name in told) for i, name in enumerate(columns.scores)}
    lines[[*range(len(scale))]] /= [*scale.values()]
    notes = dict[str, dict[str, str]]()
    scores = lines.groupby("cell", sort=False)[[*range(len(scale))]].mean(skipna=False)
    scores = scores.set_axis([*scale], axis=1).rename_axis(None)
    by_cell: dict[str, dict[str, float]] = scores.T.to_dict()  # type: ignore[assignment]
    for i, name in enumerate(scale):
        for _, line in lines[lines[i].isna()].iterrows():
            notes.setdefault(line["cell"], {})[name] = f"{line['place']} of {table.name} {line['lacks']}"
    count = int(lines["cell"].value_counts().max()) if columns.text else None
    kinds = {name: kind_of(name, question, table.kinds.get(name), count) for name in scale}
    shares = [name for name in scale if kinds[name].higher_is_better and scores[name].dropna().between(0, 1).all()]
    shares = [name for name in shares if name not in assumed]
    title = table.name.rpartition(".")[0] or table.name
    if question.board:
        check_board(table, columns, lines, f"--{question.board}", question.baseline)
    if question.texts and (other := [name for name in scale if not scores[name].dropna().between(0, 100).all()]):
        raise UserError(f"--texts says how well the texts alone tell shares apart; {brief_name(other[0])} is none")
    study = Study(
        re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "table",
        sections_of(lines, columns, question, table, title, kinds), table.name,
        margins=margins_of(question, scale, shares, dict(scores.abs().max().items())),
        foreign=True, command=command, assumed=assumed,
        pairing="none" if {*question.sigma} >= {*scale} else columns.pairing,
        unpaired=columns.unpaired, numbers=str(columns.seed), board=question.board,
        reading={**columns.reading, **doubts(table, columns, lines)},
        sigma={name: size / scale[name] for name, size in question.sigma.items()},
        texts=texts_by_cell(question.texts, lines, table) if question.texts else {},
        folds=columns.folds,
    )  # fmt: skip
    measured = [
        (cell, name, value, kinds[name].higher_is_better, kinds[name].count, "", None)
        for cell, own in by_cell.items()
        for name, value in own.items()
        if math.isfinite(value)
    ]
    seconds = lines.groupby("cell", sort=False)["seconds"].first()
    runs = {cell: CellRun(cell, "finished", "", cost_of(seconds[cell]), "", "", {}, "") for cell in by_cell}
    texts, marks = texts_of(lines, columns)
    return TableResults(
        study, runs, scores, pd.DataFrame(), {}, kinds, {}, pd.DataFrame(measured, columns=MEASURED), notes=notes,
        digest=hashlib.sha256(repr([study.sections, study.margins, by_cell]).encode()).hexdigest()[:16],
        texts=texts, text_marks=marks,
    )  # fmt: skip


def lines_of(table: Table, columns: Columns) -> pd.DataFrame:
    """Return the lines of a table, and one without scores for each run that failed, unless it was run again.

    Raise UserError if a row has a seed, or a text of a seed, twice.
    """
    lines, failed = read_lines(table, columns), failed_runs(table, columns)
    finished = len(lines)
    if len(failed):
        failed = failed.assign(**dict.fromkeys(columns.scores, math.nan), **{str(columns.text): ""})
        unscored = read_lines(replace(table, frame=failed), columns).assign(lacks="is of a failed run")
        lines = pd.concat([lines, unscored], ignore_index=True)
    if columns.fold or columns.worded:
        lines["seed"] = lines.groupby(["seed", "fold"]).ngroup()
    if columns.seed is None:
        lines["seed"] = lines.groupby(["data", "label"]).cumcount()
    keys = zip(*(lines[name].tolist() for name in ("section", "data", "label", "seed")), strict=True)
    lines["cell"] = [hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12] for key in keys]
    lines = lines[(lines.index < finished) | ~lines.duplicated("cell")]
    for _, same in lines[lines.duplicated(["cell", "text"], keep=False)].groupby(["cell", "text"], sort=False):
        line, other = same.iloc[0], same.iloc[1]
        what = f"{line['label']}, seed {line['seed']}" + (f", text {brief_name(line['text'])}" if columns.text else "")
        raise UserError(
            f"{table.name}, {line['place']} and {other['place']}: both are {what}; remove one, or name the column that "
            "tells them apart (--row, --seed, --data or --text COLUMN)"
        )
    return lines.sort_values("text", kind="stable") if columns.text else lines


def read_lines(table: Table, columns: Columns) -> pd.DataFrame:
    """Return place, section, data set, text, row, seed and seconds of each line, and the scores by their numbers.

    `lacks` says why a line has no value of a score.
    """
    check_values(table, columns)
    frame = table.frame
    lines = pd.DataFrame({"place": frame.index, "axes": frame[[*dict.fromkeys(columns.row)]].to_dict("records")})
    kinds = ("section", "data", "text", "fold")
    for kind, name in zip(kinds, (columns.section, columns.data, columns.text, columns.fold), strict=True):
        lines[kind] = [*map(str, frame[name])] if name else ""
    lines["lacks"] = "has no number"
    lines["label"] = [label_of(axes) for axes in lines["axes"]]
    lines["seed"] = [*map(str if columns.worded else whole, frame[columns.seed])] if columns.seed else 0
    numbers: list[tuple[Any, Any]] = [
        *((i, frame[name]) for i, name in enumerate(columns.scores)),
        ("seconds", frame.get(SECONDS, [])),
    ]
    values = pd.DataFrame({key: pd.Series(map(number_of, own), dtype=float) for key, own in numbers})
    return lines.join(values.where(np.isfinite(values)))


def check_values(table: Table, columns: Columns) -> None:
    """Raise UserError for text among numbers, and for rows without a name or seed."""
    seed = [columns.seed] if columns.seed and not columns.worded else []
    checks: list[tuple[Sequence[str], Callable[[Any], bool], str]] = [
        (columns.scores, is_nested, "is `{}`; write each of its numbers into a column, as pandas.json_normalize does"),
        (columns.scores, is_word, "is `{}`, which is not a number"),
        (columns.scores, is_placeholder, "is `{}`, which stands for a missing value; leave it empty, or write nan"),
        (columns.scores, is_huge, "is `{}`, too large to compare; write nan if the run diverged"),
        (columns.row if len(columns.row) == 1 else (), is_empty, "is empty"),
        (seed, lambda value: whole(value) is None, "is `{}`, which is not a whole number"),
    ]
    wrong = [
        (line, f"{table.name}, {table.frame.index[line]}: {name} {words.format(brief_name(value))}")
        for names, is_wrong, words in checks
        for name in names
        for line, value in enumerate(table.frame[name])
        if is_wrong(value)
    ]
    found = [text for _, text in sorted(wrong, key=lambda each: each[0])]
    if found:
        raise UserError("\n".join(found[:20] + ([f"and {len(found) - 20} more"] if len(found) > 20 else [])))


def is_word(value: Any) -> bool:
    return number_of(value) is None and not is_nested(value)


def is_nested(value: Any) -> bool:
    return isinstance(value, str) and NESTED.fullmatch(value.strip()) is not None


def is_placeholder(value: Any) -> bool:
    return number_of(value) in (-999, -9999, -99999)


def is_huge(value: Any) -> bool:
    return LARGEST < abs(number_of(value) or 0.0) < math.inf


def texts_of(lines: pd.DataFrame, columns: Columns) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, int]]:
    """Return the values of single texts of each cell, as booleans if right or wrong, and a checksum of their ids."""
    texts, marks = dict[str, dict[str, np.ndarray]](), dict[str, int]()
    for cell, own in lines.groupby("cell", sort=False) if columns.text else ():
        if len(own) > 1:
            values = {name: own[i].to_numpy() for i, name in enumerate(columns.scores)}
            texts[str(cell)] = {n: v.astype(bool) if np.isin(v, (0.0, 1.0)).all() else v for n, v in values.items()}
            marks[str(cell)] = zlib.crc32(json.dumps(own["text"].tolist()).encode())
    return texts, marks


def sections_of(
    lines: pd.DataFrame, columns: Columns, question: Question, table: Table, title: str, kinds: Mapping[str, Kind]
) -> list[RecordedSection]:
    """Return the sections, one unless the table is our own export."""
    sections, show = [], Show.model_validate({"table": {"values": list(columns.scores)}})
    for section, own in lines.groupby("section", sort=False):
        groups: dict[Any, pd.DataFrame] = dict(iter(own.drop_duplicates("cell").groupby(["data", "label"], sort=False)))
        rows = []
        for (data, label), against in ordered_rows(groups, question, table, columns, kinds):
            runs, several = groups[data, label], own["data"].nunique() > 1
            axes = runs["axes"].iloc[0] if len(columns.row) > 1 else {}
            rows.append(
                RecordedRow(
                    f"{label} · {data}" if several else label, ({"data": data} if several else {}) | axes,
                    against is None, data, runs["cell"].tolist(), runs["seed"].tolist(),
                    against if against is not None and against >= 0 else None,
                )
            )  # fmt: skip
        sections.append(RecordedSection(str(section) or title, "", show, rows))
    return sections


def ordered_rows(
    groups: Mapping[Any, pd.DataFrame], question: Question, table: Table, columns: Columns, kinds: Mapping[str, Kind]
) -> list[tuple[Any, int | None]]:
    """Return the (data, label) of each row, in the order of the report, and the number of the row that it is compared
    with: None for a baseline, -1 if its data set has none."""
    higher = kinds[columns.scores[0]].higher_is_better is not False
    if question.records:
        return records(groups, higher, question.records, table)
    if question.ties:
        return ties(groups, higher)
    baseline = baseline_of(list(dict.fromkeys(label for _, label in groups)), question.baseline, table, columns)
    ordered = sorted(groups, key=lambda key: key[1] != baseline)
    return [
        (key, None if key[1] == baseline else ordered.index(to) if (to := (key[0], baseline)) in ordered else -1)
        for key in ordered
    ]


def baseline_of(names: Sequence[str], wanted: str | None, table: Table, columns: Columns) -> str:
    some = comma_list(names)
    wanted = None if wanted is None else label_of({"": scalar(wanted)})
    if wanted is not None and wanted not in names:
        parts = [name for name in columns.row if wanted in {*map(str, table.frame[name])}]
        if parts and len(columns.row) > 1:
            raise UserError(
                f"{table.name}: rows are named by {comma_list(columns.row)} together ({some}), so that none is "
                f"`{brief_name(wanted)}`; name the column of rows, --row {parts[0]}, and what the others are (--data, "
                "--seed), or take one of these rows as the baseline"
            )
        if sum(re.fullmatch(rf"{re.escape(wanted)}[-_ .]\d+", name) is not None for name in names) > 1:
            raise UserError(
                f"{table.name} has no row `{brief_name(wanted)}`, but several that add a number to it ({some}); "
                "if these numbers are seeds, write them into a column seed"
            )
        raise UserError(f"{table.name} has no row `{brief_name(wanted)}`{nearest_name(wanted, names)}")
    if wanted is not None:
        return wanted
    usual = [name for name in names if name.lower() in BASELINES]
    if len(usual) != 1 and len(names) > 1:
        raise UserError(f"name the row that all others are compared with: --baseline ROW ({some})")
    return usual[0] if usual else names[0]


def margins_of(
    question: Question, scale: Mapping[str, float], shares: Iterable[str], largest: Mapping[Any, float]
) -> dict[str, float]:
    """Return the margins asked for, in the table's unit, and the usual one for scores that look like `shares`.

    The usual one is a hundredth, of the largest value if all are small.
    """
    usual = {name: USUAL_MARGIN for name in scale if name in shares or margin_of(name, {}) is not None}
    usual = {name: size * (largest[name] if 0 < largest[name] < SMALL else 1.0) for name, size in usual.items()}
    return usual | {name: size / scale[name] for name, size in question.margins.items()}


def check_question(columns: Columns, question: Question) -> None:
    """Raise UserError if an option names a score that the table lacks, or gives one two directions."""
    if question.ties and question.records:
        raise UserError("--ties and --records are two questions; ask one of them")
    options = {
        "--margin": question.margins,
        "--sigma": question.sigma,
        "--lower": question.lower,
        "--higher": question.higher,
    }
    for option, name in ((option, name) for option, names in options.items() for name in names):
        if name not in columns.scores:
            raise UserError(f"{option} {brief_name(name)}: no such score{nearest_name(name, columns.scores)}")
        if name in question.lower and name in question.higher:
            raise UserError(f"{brief_name(name)} is in --lower and in --higher; name it in one of them")


def cost_of(seconds: float) -> Provenance | None:
    """Return the time of a run, if the table has it, so that the report says what more seeds would take."""
    return Provenance(float(seconds), 0.0, Hardware("cpu", "", None, 0)) if math.isfinite(seconds) else None


def kind_of(score: str, question: Question, known: Kind | None, count: int | None) -> Kind:
    """Return direction and number of texts of a score: as asked, as the table says, or as its name suggests."""
    usual = known.higher_is_better if known else higher_is_better(score) is not False
    return Kind(score in question.higher or (usual and score not in question.lower), known.count if known else count)


def percent(table: Table, score: str, lines: pd.DataFrame, values: pd.Series, told: bool) -> float:
    """Return 100 for shares that are given in percent, else 1; raise UserError if rows or runs differ in this.

    A rate, or a score of unknown kind, is never converted, but if its direction is not told, fractions beside percent
    are asked about.
    """
    sizes, is_share = values.abs().dropna(), math.isfinite(score_facts(score).width)
    is_rate = not told and bool(RATES & {*words_of(score)})
    unknown = not told and higher_is_better(score) is None
    if not (is_share or is_rate or unknown) or (sizes <= PERCENT).all():
        return 1.0
    rows = sizes.groupby([lines["data"], lines["label"]])
    largest = sizes[rows.idxmax()].sort_values()
    like_percent = 100 * sizes / rows.transform("max")
    within = sizes[like_percent.between(1 / NEAR, NEAR) & (sizes < 1)]
    mixed = is_share or (is_rate and MIXED * largest.min() <= largest.max())
    mixed |= bool((largest.between(0, 1) | largest.between(20, 100)).all())
    if is_share and len(within):
        pair = [within.index[0], rows.transform("idxmax")[within.index[0]]]
    elif 0 < largest.min() <= 1 and mixed:
        pair = [largest.index[0], largest.index[-1]]
    else:
        return 100.0 if is_share else 1.0
    fraction, percents = lines.loc[pair, "place"]
    raise UserError(
        f"{table.name}, {fraction} and {percents}: one has {score} as a fraction, the other in percent; "
        "write all in the same way" + ("" if is_share else f", or say --higher {score} or --lower {score}")
    )


@dataclass(frozen=True)
class Verdicts:
    """The comparisons of a table: each row against the baseline, by the model and guards of every report."""

    results: TableResults
    columns: str  # which column was taken for what

    @cached_property
    def compared(self) -> list[tuple[list[Guard], Section]]:
        """Warnings and comparisons of each section."""
        return [compare_section(section, self.results) for section in self.results.study.sections]

    @property
    def sections(self) -> list[Section]:
        return [section for _guards, section in self.compared]

    @property
    def warnings(self) -> list[str]:
        """Sentences on what forbids or limits comparisons, such as missing seeds."""
        return [str(guard.words) for guards, _section in self.compared for guard in guards]

    @property
    def comparisons(self) -> list[RowScore]:
        """Each score of each row that has a baseline, with its comparison."""
        return [score for section in self.sections for score, _comparison in section.comparisons]

    def frame(self) -> pd.DataFrame:
        """Return the comparisons as a data frame, the columns of comparisons.csv."""
        return pd.DataFrame([comparison_line(score, section) for section in self.sections for score in section.scores])

    def report(self, folder: str | Path) -> Path:
        """Write the report into a folder, and return the path of its page. It may replace an earlier report."""
        place = Path(folder)
        if others := sorted(path.name for path in place.glob("*") if path.name not in REPORT_FILES):
            raise UserError(f"{place} has other files ({comma_list(others)}); name a new folder for the report")
        build(self.results, place)
        return place / "index.html"

    def __str__(self) -> str:
        sections = self.sections
        return str(overview(self.results, sections, [str(number) for number in range(len(sections))]).headline)


def judge(
    frame: pd.DataFrame,
    *,
    row: str | Iterable[str] = (),
    seed: str | None = None,
    score: str | Iterable[str] = (),
    text: str | None = None,
    data: str | None = None,
    baseline: object = None,
    margin: float | Mapping[str, float] | None = None,
    lower: str | Iterable[str] = (),
    higher: str | Iterable[str] = (),
    paired: bool = False,
    ties: bool = False,
    records: str = "",
    sigma: Mapping[str, float] | None = None,
    texts: int | str = "",
    name: str = "table",
) -> Verdicts:
    """Compare the rows of a data frame with a baseline row.

    A line of the frame has the score(s) of one row at one seed, and, with `text`, of one text. Columns left out are
    guessed from their names and values (`Verdicts.columns` says how). `margin`: largest difference that does not
    matter, of all scores or by score; `lower` and `higher`: scores whose direction is not guessed; `paired`:
    equal numbers of runs (a column such as run or fold) belong together, as seeds do; `ties`: compare all rows with the
    best one; `records`: compare each row with the best before it, by a column of dates or in the order of the `table`;
    `sigma`: known standard deviation of a run, by score; `texts`: number of test texts, or a column of them. Raises
    UserError.
    """
    if not isinstance(frame, pd.DataFrame):
        raise UserError(f"ablate.judge takes a pandas DataFrame, not a {type(frame).__name__}")
    given = Columns(_names(row), _names(score), seed, text, data)
    table, columns = choose(usual_form(of_frame(frame, name)), given, paired)
    margins = dict[str, Any](
        margin if isinstance(margin, Mapping) else {} if margin is None else dict.fromkeys(columns.scores, margin)
    )
    for option, sizes in (("margin", margins), ("sigma", sigma or {})):
        if not isinstance(sizes, Mapping):
            raise UserError(f"{option} is {sizes!r}; give a number for each score, such as {{'accuracy': 0.01}}")
        if bad := [each for each in sizes.values() if not is_size(each)]:
            raise UserError(f"{option} is {bad[0]!r}; give a number above 0")
    asked = None if baseline is None else str(baseline)
    directions = _names(lower), _names(higher)
    question = Question(asked, margins, *directions, ties, records, sigma or {}, str(texts))
    return judge_table(table, columns, question, "ablate.judge(…)")


def is_size(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def judge_table(table: Table, columns: Columns, question: Question, command: str) -> Verdicts:
    """Compare the rows of a table whose columns are known. `command` builds the report again."""
    results = results_of(table, columns, question, command)
    paired = results.study.pairing == columns.pairing
    return Verdicts(results, described(columns, results.kinds, results.study.assumed, paired))


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
