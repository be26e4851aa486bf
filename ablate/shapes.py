"""Turn tables of other shapes into one line for each row and seed.

Scores below each other, seeds beside each other, logs, and means with standard deviations and numbers of runs: in
columns of their own, or as `81.2 ± 0.5` in cells. A line of means becomes as many values as it had runs, with its mean
and standard deviation: what Welch's t-test reads.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ablate import names as usual
from ablate.directions import higher_is_better, listed, words_of
from ablate.names import all_named, free, is_empty, is_numeric, is_score, named, number_of, plain, whole
from ablate.table import UNITS, Columns, Table
from contrastive.errors import UserError, brief_name
from contrastive.grid.messages import comma_list
from reports.export import as_was
from reports.study import Kind

NAME, VALUE = ("score", "metric", "score_name", "metric_name"), ("value",)  # of a table with one score a line
OWN = ("section", "row", "label", "variant", "seed", "cell", "score", "value")  # columns of our own results.csv
OF_SEED = re.compile(r"(?:seed|run|rep|trial|fold|s)?[ _-]?(\d+)", re.IGNORECASE)  # a heading of a wide table
RUN_NAMES = [*usual.SEED, *usual.RUNS, *listed("run_id run_name name id trial_id")]  # each value is a run
TRUTHS: dict[str, Any] = {"true": 1, "false": 0}
STATES = ("state", "status")  # columns of W&B's and our own exports
FINISHED = re.compile(r"(?:finished|completed?|done|succe\w*|early.?stop\w*)\b")
OPEN = re.compile(
    r"$|(?:running|pending|queued|scheduled|waiting|pruned|preempt\w*|cancel\w*|in.?progress|not.?started|to.?do|skipped"
    r"|submitted|created|start\w*|initiali\w*|resum\w*|paused|active)\b"
)
FAILED = re.compile(
    r"(?<![a-z])(?:fail|crash|kill|error|diverg|oom|out.?of.?mem|time.?out|abort|exceed|interrupt|lost|dead|nan\b)"
)
MOST_VALUES = 100_000  # behind a mean
MARKUP = re.compile(r"\\(?:textbf|mathbf|bf|underline|uline)\b|\\?%|\\[,;! ]|[${}*_~\s]")  # of LaTeX and Markdown
DIGITS = r"(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
CELL = re.compile(rf"([-+]?{DIGITS})(?:±({DIGITS})|\((?=.*\.)({DIGITS})\))", re.IGNORECASE)
LIKE_CELL = re.compile(r"[-+\d.,]+±[\d.,]+|(?=.*[.,])[-+\d.,]+\([\d.,]+\)")
MARKED = re.compile(r"^(?:\*\*)?([-+]?[.\d][^*†‡]*?)\s*[*†‡]+$")  # 39.84*, **39.84**
UNIT = re.compile(rf"([-+]?{DIGITS}) ?({UNITS})")
SIGNIFICANCE = re.compile(r"[*†‡+ ]*|n\.?s\.?|-|–", re.IGNORECASE)  # beside a score
NO_DEVIATION = re.compile(  # after the first word of a title: a standard error or an interval
    r"(?<=[\W_])(?:s\.?e\.?(?:m\.?)?|ci\d*|iqr|\w*stderr|st\w*[\W_]*err\w*|conf\w*|\w*interval)(?![a-z])", re.IGNORECASE
)
Moments = tuple[float, float]  # mean and standard deviation
Known = tuple[Table, Columns]
Found = TypeVar("Found")
SAID = "± was read as the standard deviation over runs"


def without_unfinished(table: Table, known: Columns) -> Known:
    """Keep lines aside whose state or status is not finished, if some are: those of failed runs, and those still open.

    A run has failed that is neither finished nor open; where no line says finished, by its word for a failure.
    """
    for name in (each for each in table.frame.columns if each.lower() in STATES):
        if name in (*known.row, *known.scores, *known.keys):
            continue
        states = table.frame[name].fillna("").astype(str).str.strip().str.lower()
        finished, still_open = states.str.match(FINISHED), states.str.match(OPEN)
        finished = finished if finished.any() else ~states.str.contains(FAILED) & ~still_open
        if finished.any() and not finished.all():
            failed, waiting = table.frame[~finished & ~still_open], table.frame[~finished & still_open]
            return replace(table, frame=table.frame[finished], failed=failed, still_open=waiting, state=name), known
    return table, known


def scores_below_each_other(table: Table, known: Columns) -> Known:
    """Turn a table with one score a line (columns such as metric and value) into one with a column for each score."""
    name, value = named(table, NAME), named(table, VALUE)
    asked = known.scores and {*known.scores} <= {*table.frame.columns}
    own = len(all_named(table, OWN)) == len(OWN)
    if name is None or value is None or asked or name in table.settings:
        return table, known
    if not own and is_numeric(table.frame[name]):
        return table, known
    table = own_export(table) if own else table
    frame = table.frame
    keys = [column for column in frame.columns if column not in (name, value)]
    keys = [column for column in keys if own or column.lower() not in usual.IGNORED or column == usual.SECONDS]
    wide = dict[tuple[Any, ...], dict[Hashable, Any]]()
    places = dict[tuple[Any, ...], dict[str, str]]()
    for place, line in zip(frame.index, frame.to_dict("records"), strict=True):
        key, score = tuple(str(line[column]) for column in keys), str(line[name])
        if before := places.setdefault(key, {}).get(score):
            raise UserError(
                f"{table.name}, {before} and {place}: both have the same {', '.join(keys)} and {name}; remove one, or "
                "add a column that tells them apart"
            )
        places[key][score] = place
        wide.setdefault(key, {column: line[column] for column in keys})[score] = line[value]
    firsts = [next(iter(by_score.values())) for by_score in places.values()]
    known = replace(known, section="section" if own and "section" in keys else None)
    return replace(table, frame=pd.DataFrame(list(wide.values()), firsts)), known


def own_export(table: Table) -> Table:
    """Return the trained vectors of finished cells in our own export, with the kinds of its scores."""
    frame = table.frame.map(as_was) if table.name.endswith(".csv") else table.frame
    trained, scored = frame["variant"].fillna("") == "", frame["score"].fillna("") != ""
    failed = pd.concat([table.failed, frame[trained & ~scored]])
    frame = frame[trained & scored]
    kinds = {
        score: Kind(str(higher).lower() == "true", int(texts) if (texts := number_of(count) or 0) > 0 else None)
        for score, higher, count in frame[["score", "higher_is_better", "count"]].itertuples(index=False)
    }
    several = ["section"] if frame["section"].nunique() > 1 else []
    run = "seed" if frame["seed"].map(number_of).notna().any() else "cell"  # of rows that are not paired
    frame = frame[[*several, "label", run, "seconds", "score", "value"]]
    return replace(table, frame=frame, failed=failed, kinds=kinds)


def seeds_beside_each_other(table: Table, known: Columns) -> Known:
    """Turn a table with a column for each seed (`seed 0`, `seed 1`) into one with a line for each."""
    matches = {name: OF_SEED.fullmatch(name) for name in table.frame.columns}
    seeds = {name: int(match[1]) for name, match in matches.items() if match and is_numeric(table.frame[name])}
    if len(seeds) < 2 or known.seed or known.scores or named(table, (*usual.SEED, *usual.RUNS)):
        return table, known
    if not all(name[:2].lower() in ("se", "ru", "re", "tr", "fo") for name in seeds) and not counted(seeds.values()):
        return table, known  # numbers of shots, or years
    derived = all_named(table, (*usual.MEAN, *usual.SPREADS))  # of the seeds beside them
    others = [name for name in table.frame.columns if name not in seeds and name not in derived]
    starts = (start for start in ("seed", "fold") if all(name.lower().startswith(start) for name in seeds))
    number = next(starts, usual.NUMBER)
    score = next(name for name in ("score", "value", "value at this seed") if name not in others)
    if number in others:
        return table, known
    frame = table.frame.melt(others, [*seeds], number, score, ignore_index=False)
    frame.index = frame.index + ", " + frame[number]
    return replace(table, frame=frame.assign(**{number: frame[number].map(seeds)})), known


def counted(numbers: Iterable[float]) -> bool:
    """Return whether numbers are 0, 1, 2 … or 1, 2, 3 …, without regard to missing ones."""
    found = sorted({number for number in numbers if not math.isnan(number)})
    return bool(found) and found[0] in (0, 1) and evenly_spaced(found) in (0, 1)


def evenly_spaced(numbers: Iterable[float]) -> float | None:
    """Return the distance between numbers such as 42, 43, 44 or 0, 10, 20; None if it is not always the same."""
    found = sorted({number for number in numbers if not math.isnan(number)})
    steps = {after - before for before, after in pairwise(found)}
    return None if len(steps) > 1 else next(iter(steps), 0)


def last_step_of_each_run(table: Table, known: Columns) -> Known:
    """Keep the last line of each run of a log, in which lines of a run differ by their step or epoch."""
    step = named(table, usual.STEPS)
    if step is None or step in (*known.row, *known.scores) or known.text or not is_numeric(table.frame[step]):
        return table, known
    run = [*filter(None, [known.seed]), *all_named(table, RUN_NAMES)]
    keys = [*dict.fromkeys([*known.row, *known.keys, *run, *free(table, known)[0], *sorted(table.settings)])]
    keys = [name for name in keys if name in table.frame.columns]
    steps = table.frame[step].map(number_of).astype(float)
    groups = steps.groupby([table.frame[name].astype(str) for name in keys]) if keys else steps.groupby(steps * 0)
    if (groups.size() == 1).all() or steps.isna().any() or groups.apply(lambda own: own.duplicated().any()).any():
        return table, known
    if not run:
        if not groups.apply(lambda own: own.is_monotonic_increasing).all():
            return table, known
        raise UserError(
            f"{table.name}: several lines of a row with increasing {step}; if they are a log, add a column seed that "
            f"names the run of each line; if each is a run of its own, remove the column {step}"
        )
    last = groups.transform("max") == steps
    ends = " to ".join(f"{end:g}" for end in sorted({steps[last].min(), steps[last].max()}))
    note, early = f"the last line of each run is used ({step} {ends})", int((steps[last] < steps[last].max()).sum())
    uneven = {"early": {"early": early, "count": int(last.sum()), "ends": f"{step} {ends}"}} if early else {}
    known = replace(known, notes=(*known.notes, note), reading={**known.reading, **uneven})
    return replace(table, frame=table.frame[last]), known


def marks_beside_numbers(table: Table, known: Columns) -> Known:
    """Read footnote marks, units and Markdown's bold off the numbers of columns that hold nothing else.

    In scores by their name, such as correct, True is 1 and False 0. Columns of nothing but stars are left out.
    """
    for name in (name for name in table.frame.columns if name not in known.row):
        texts = [value for value in table.frame[name] if isinstance(value, str)]
        stars = any("**" in value for value in texts) or bool({*words_of(name)} & {"sig", "significance", "stars"})
        if stars and any("*" in value for value in texts) and all(map(SIGNIFICANCE.fullmatch, texts)):
            table = replace(table, frame=table.frame.drop(columns=name))
            known = replace(
                known, notes=(*known.notes, f"{brief_name(name)} has marks of significance, and is not used")
            )
            continue
        table, known = without_units(table, known, name)
        truths = TRUTHS if name in known.scores or (is_score(name) and higher_is_better(name)) else {}  # not fp16
        cells = [
            truths.get(str(value).lower(), MARKED.sub(r"\1", value) if isinstance(value, str) else value)
            for value in table.frame[name]
        ]
        marked = [pair for pair in zip(table.frame[name], cells, strict=True) if str(pair[0]) != str(pair[1])]
        if marked and all(number_of(value) is not None for value in cells):
            table = replace(table, frame=table.frame.assign(**{name: cells}))
            known = replace(known, notes=(*known.notes, "`{}` was read as {}".format(*marked[0])))
    return table, known


def without_units(table: Table, known: Columns, name: str) -> Known:
    """Read `12 ms` as 12 in a column of which all numbers have this unit; raise UserError if they have several."""
    cells = [value for value in table.frame[name] if not is_empty(value)]
    found = [UNIT.fullmatch(value.strip()) if isinstance(value, str) else None for value in cells]
    units = {match[2]: value for value, match in zip(cells, found, strict=True) if match}
    bare = [value for value, match in zip(cells, found, strict=True) if match is None]
    if not units or any(number_of(value) is None for value in bare):
        return table, known
    if len(units) > 1 or bare:
        one, other, *_ = (*units.values(), *bare)
        raise UserError(f"{table.name}: {brief_name(name)} is `{one}` and `{other}`; write all in the same unit")
    (unit,) = units
    frame = table.frame.assign(**{name: [str(value).strip().removesuffix(unit).strip() for value in table.frame[name]]})
    note = f"`{cells[0]}` of {brief_name(name)} was read as {cells[0].strip().removesuffix(unit).strip()}"
    return replace(table, frame=frame), replace(known, notes=(*known.notes, note))


def means_in_cells(table: Table, known: Columns) -> Known:
    """Read `81.2 ± 0.5`, `81.2 +/- 0.5`, `81.2 (0.5)` and LaTeX's `$81.2 \\pm 0.5$` as mean and standard deviation."""
    found = [name for name in table.frame.columns if name not in known.row and like_means(table.frame[name])]
    scores = [name for name in found if name in known.scores or not known.scores]
    table = replace(table, frame=table.frame.drop(columns=[name for name in found if name not in scores]))
    if not scores:
        return table, known
    if other := [name for name in scores if NO_DEVIATION.search(name)]:
        raise UserError(
            f"{table.name}: {brief_name(other[0])} says that ± is no standard deviation over runs; give columns mean, "
            "std and n, or one line for each seed"
        )
    first = brief_name(next(cell for cell in table.frame[scores[0]] if LIKE_CELL.fullmatch(unmarked(cell))))
    if known.seed:
        raise UserError(
            f"{table.name}: {scores[0]} is `{first}` beside the column {known.seed}; write the score of each seed alone"
        )
    read = {name: read_each(table, name, moments, "it as 81.2 ± 0.5") for name in known.scores or scores}
    known = replace(known, scores=(*read,), deviations=("±",), notes=(*known.notes, SAID))
    return expanded(table, known, read, f"{scores[0]} is `{first}`, a mean ± standard deviation")


def unmarked(cell: Any) -> str:
    """Return a cell without spaces and markup, and with the sign ± however it was written."""
    if not isinstance(cell, str):
        return ""
    return MARKUP.sub("", re.sub(r"\\pm|\+/?-", "±", cell).replace("−", "-"))


def like_means(values: Iterable[Any]) -> bool:
    cells = [cell for cell in map(unmarked, values) if not math.isnan(number_of(cell) or 0)]
    found = [LIKE_CELL.fullmatch(cell) is not None for cell in cells]
    return 2 * sum(found) >= max(1, len(found))


def moments(written: Any) -> Moments | None:
    """Return mean and deviation of a cell; in brackets only with a point, since 81.2(5) may mean 0.5 or 5."""
    if match := CELL.fullmatch(unmarked(written)):
        return float(match[1]), float(match[2] or match[3])
    return (math.nan, 0.0) if math.isnan(number_of(written) or 0.0) else None


def read_each(table: Table, name: str, read: Callable[[Any], Found | None], wanted: str) -> list[Found]:
    """Return what `read` makes of the cells of a column; raise UserError for the first that it makes nothing of."""
    found = list[Found]()
    for place, value in table.frame[name].items():
        if (own := read(value)) is None:
            raise UserError(f"{table.name}, {place}: {name} is `{brief_name(value)}`; write {wanted}")
        found.append(own)
    return found


def means_in_columns(table: Table, known: Columns) -> Known:
    """Read columns such as mean, std and n, or f1_mean, f1_std, acc_mean, acc_std and n."""
    if known.seed or known.deviations:
        return table, known
    pairs = deviations_by_mean(table, known)
    if not pairs and (count := named(table, usual.COUNT)) and not known.scores and not known.text:
        raise UserError(
            f"{table.name}: the column {count} seems to count runs, but no column has their standard deviation; add a "
            "column std, or give one line for each seed, or say which columns are scores: --score COLUMN"
        )
    if other := [name for name in pairs.values() if not plain(name).endswith((*usual.DEVIATION,))]:
        raise UserError(
            f"{table.name}: {brief_name(other[0])} is no standard deviation over seeds; give columns mean, std "
            "and n, or one line for each seed, or say which columns are scores: --score COLUMN"
        )
    if not pairs:
        return table, known
    found = dict[str, list[Moments]]()
    for mean, deviation in pairs.items():
        score = re.sub(rf"[ _](?:{'|'.join(usual.MEAN)})$", "", mean, flags=re.IGNORECASE)  # f1 of f1_mean
        spreads = read_each(table, deviation, lambda value: amount(value, 0.0), "a number")
        own = [*zip(read_each(table, mean, amount, "a number"), spreads, strict=True)]
        found["score" if plain(mean) in usual.MEAN else score] = own
    known = replace(known, scores=(*found,), deviations=(*pairs.values(),))
    table = replace(table, frame=table.frame.rename(columns=dict(zip(pairs, found, strict=True))))
    return expanded(table, known, found, f"{comma_list([*pairs])} with {comma_list([*pairs.values()])}")


def deviations_by_mean(table: Table, known: Columns) -> dict[str, str]:
    """Return the columns of deviations by those of their means: f1_std beside f1 or f1_mean, or std beside mean."""
    pairs, spreads = dict[str, str](), usual.DEVIATION if known.scores else usual.SPREADS
    for name in table.frame.columns:
        stem, _, kind = plain(name).rpartition("_")
        mean = named(table, [stem, *(f"{stem}_{kind}" for kind in usual.MEAN)])
        if kind in spreads and mean and (not known.scores or mean in known.scores):
            pairs[mean] = name
    deviation = named(table, spreads)
    if pairs or deviation is None:
        return pairs
    others = [name for name in free(table, known)[1] if name != deviation and plain(name) not in usual.COUNT]
    means = known.scores or all_named(table, usual.MEAN)[:1] or others
    if len(means) != 1:
        raise UserError(f"{table.name}: which column is the mean of {deviation}? Say it: --score COLUMN")
    return {means[0]: deviation}


def amount(value: Any, least: float = -math.inf) -> float | None:
    number = number_of(value)
    return number if number is not None and math.isfinite(number) and number >= least else None


def expanded(table: Table, known: Columns, found: Mapping[str, Sequence[Moments]], what: str) -> Known:
    """Return the table with one line for each run behind a mean, and its columns."""
    of_means = all_named(table, [f"{plain(score)}_{kind}" for score in found for kind in ("count", "n")])  # acc_count
    count = named(table, usual.COUNT) or next(iter(of_means), None)
    if any((table.frame[name] != table.frame[count]).any() for name in of_means):
        raise UserError(f"{table.name}: {comma_list(of_means)} differ; name one score at a time: --score COLUMN")
    if count is None:
        raise UserError(f"{table.name}: {what}, without the number of runs; add a column n with the number of runs")
    wanted = "a whole number of runs"
    counts = read_each(table, count, lambda v: n if 1 <= (n := whole(v) or 0) <= MOST_VALUES else None, wanted)
    frame = table.frame.iloc[np.repeat(np.arange(len(counts)), counts)].copy()
    for score, own in found.items():
        frame[score] = np.concatenate([mean + std * pattern(n) for (mean, std), n in zip(own, counts, strict=True)])
    frame[usual.NUMBER] = [k for n in counts for k in range(n)]
    known = replace(known, seed=usual.NUMBER, count=count)
    words, numbers = ([n for n in names if n not in (*known.deviations, count)] for names in free(table, known))
    known = replace(known, row=known.row or (*words,), unused=(*numbers,))
    return replace(table, frame=frame), known


def pattern(count: int) -> np.ndarray:
    """Return equally spaced numbers with mean 0 and standard deviation 1; 0 for a single one."""
    numbers = np.arange(count) - (count - 1) / 2
    return numbers / numbers.std(ddof=1) if count > 1 else np.zeros(1)
