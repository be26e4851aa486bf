"""Read tables of means, standard deviations and numbers of runs: in columns of their own, or as `81.2 ± 0.5` in cells.

Each line becomes as many values as it had runs, with its mean and standard deviation: what Welch's t-test reads.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ablate.names import COUNT, DEVIATION, MEAN, NUMBER, SPREADS, all_named, free, named, number_of, plain, whole
from ablate.table import Columns, Table
from contrastive.errors import UserError, brief_name
from contrastive.grid.messages import comma_list

MOST_VALUES = 100_000  # behind a mean
MARKUP = re.compile(r"\\(?:textbf|mathbf|bf|underline|uline)\b|\\?%|\\[,;! ]|[${}*_~\s]")  # of LaTeX and Markdown
DIGITS = r"(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
CELL = re.compile(rf"([-+]?{DIGITS})(?:±({DIGITS})|\((?=.*\.)({DIGITS})\))", re.IGNORECASE)
LIKE_CELL = re.compile(r"[-+\d.,]+±[\d.,]+|(?=.*[.,])[-+\d.,]+\([\d.,]+\)")
MARKED = re.compile(r"^(?:\*\*)?([-+]?[.\d][^*†‡]*?)\s*[*†‡]+$")  # 39.84*, **39.84**
NO_DEVIATION = re.compile(  # after the first word of a title: a standard error or an interval
    r"(?<=[\W_])(?:s\.?e\.?(?:m\.?)?|ci\d*|iqr|\w*stderr|st\w*[\W_]*err\w*|conf\w*|\w*interval)(?![a-z])", re.IGNORECASE
)
Moments = tuple[float, float]  # mean and standard deviation
Found = TypeVar("Found")
SAID = "± was read as the standard deviation over runs"


def marks_beside_numbers(table: Table, known: Columns) -> tuple[Table, Columns]:
    """Read footnote marks and Markdown's bold off the numbers of columns that hold nothing else."""
    for name in (name for name in table.frame.columns if name not in known.row):
        cells = [MARKED.sub(r"\1", value) if isinstance(value, str) else value for value in table.frame[name]]
        marked = [pair for pair in zip(table.frame[name], cells, strict=True) if str(pair[0]) != str(pair[1])]
        if marked and all(number_of(value) is not None for value in cells):
            table = replace(table, frame=table.frame.assign(**{name: cells}))
            known = replace(known, notes=(*known.notes, "`{}` was read as {}".format(*marked[0])))
    return table, known


def means_in_cells(table: Table, known: Columns) -> tuple[Table, Columns]:
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
    for place, value in zip(table.places, table.frame[name], strict=True):
        if (own := read(value)) is None:
            raise UserError(f"{table.name}, {place}: {name} is `{brief_name(value)}`; write {wanted}")
        found.append(own)
    return found


def means_in_columns(table: Table, known: Columns) -> tuple[Table, Columns]:
    """Read columns such as mean, std and n, or f1_mean, f1_std, acc_mean, acc_std and n."""
    if known.seed or known.deviations:
        return table, known
    pairs = deviations_by_mean(table, known)
    if not pairs and (count := named(table, COUNT)) and not known.scores and not known.text:
        raise UserError(
            f"{table.name}: the column {count} seems to count runs, but no column has their standard deviation; add a "
            "column std, or give one line for each seed, or say which columns are scores: --score COLUMN"
        )
    if other := [name for name in pairs.values() if not plain(name).endswith((*DEVIATION,))]:
        raise UserError(
            f"{table.name}: {brief_name(other[0])} is no standard deviation over seeds; give columns mean, std "
            "and n, or one line for each seed, or say which columns are scores: --score COLUMN"
        )
    if not pairs:
        return table, known
    found = dict[str, list[Moments]]()
    for mean, deviation in pairs.items():
        score = re.sub(rf"[ _](?:{'|'.join(MEAN)})$", "", mean, flags=re.IGNORECASE)  # f1 of f1_mean
        spreads = read_each(table, deviation, lambda value: amount(value, 0.0), "a number")
        own = [*zip(read_each(table, mean, amount, "a number"), spreads, strict=True)]
        found["score" if plain(mean) in MEAN else score] = own
    known = replace(known, scores=(*found,), deviations=(*pairs.values(),))
    table = replace(table, frame=table.frame.rename(columns=dict(zip(pairs, found, strict=True))))
    return expanded(table, known, found, f"{comma_list([*pairs])} with {comma_list([*pairs.values()])}")


def deviations_by_mean(table: Table, known: Columns) -> dict[str, str]:
    """Return the columns of deviations by those of their means: f1_std beside f1 or f1_mean, or std beside mean."""
    pairs, spreads = dict[str, str](), DEVIATION if known.scores else SPREADS
    for name in table.frame.columns:
        stem, _, kind = plain(name).rpartition("_")
        mean = named(table, [stem, *(f"{stem}_{kind}" for kind in MEAN)])
        if kind in spreads and mean and (not known.scores or mean in known.scores):
            pairs[mean] = name
    deviation = named(table, spreads)
    if pairs or deviation is None:
        return pairs
    others = [name for name in free(table, known)[1] if name != deviation and plain(name) not in COUNT]
    means = known.scores or all_named(table, MEAN)[:1] or others
    if len(means) != 1:
        raise UserError(f"{table.name}: which column is the mean of {deviation}? Say it: --score COLUMN")
    return {means[0]: deviation}


def amount(value: Any, least: float = -math.inf) -> float | None:
    number = number_of(value)
    return number if number is not None and math.isfinite(number) and number >= least else None


def expanded(table: Table, known: Columns, found: Mapping[str, Sequence[Moments]], what: str) -> tuple[Table, Columns]:
    """Return the table with one line for each run behind a mean, and its columns."""
    count = named(table, COUNT)
    if count is None:
        raise UserError(f"{table.name}: {what}, without the number of runs; add a column n with the number of runs")
    wanted = "a whole number of runs"
    counts = read_each(table, count, lambda v: n if 1 <= (n := whole(v) or 0) <= MOST_VALUES else None, wanted)
    frame = table.frame.loc[table.frame.index.repeat(counts)].reset_index(drop=True)
    for score, own in found.items():
        frame[score] = np.concatenate([mean + std * pattern(n) for (mean, std), n in zip(own, counts, strict=True)])
    frame[NUMBER] = [k for n in counts for k in range(n)]
    places = [place for place, n in zip(table.places, counts, strict=True) for _ in range(n)]
    known = replace(known, seed=NUMBER, count=count)
    words, numbers = ([n for n in names if n not in (*known.deviations, count)] for names in free(table, known))
    known = replace(known, row=known.row or (*words,), unused=(*numbers,))
    return replace(table, frame=frame, places=places), known


def pattern(count: int) -> np.ndarray:
    """Return equally spaced numbers with mean 0 and standard deviation 1; 0 for a single one."""
    numbers = np.arange(count) - (count - 1) / 2
    return numbers / numbers.std(ddof=1) if count > 1 else np.zeros(1)
