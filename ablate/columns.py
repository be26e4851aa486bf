"""Turn a table with one line a run into runs: which row, data set and seed each belongs to, and its scores.

Columns are known by what a user says, by their names, or as the only ones of words or of numbers.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from shlex import quote
from typing import Any

import pandas as pd

from ablate.directions import higher_is_better, listed
from ablate.metric import LARGEST
from ablate.table import Table, is_empty, number_of, whole
from contrastive.errors import UserError, brief_name
from contrastive.grid.messages import comma_list, nearest_name

SEEDS = listed("seed random_seed random_state rng_seed 种子 随机种子 シード")
NUMBERS = listed("run run_id run_number trial trial_id rep repeat repetition replicate")  # they pair nothing
STEPS = listed("step steps global_step epoch iteration iter")  # of one training
NO_SCORES = [*NUMBERS, *STEPS, *listed("index epochs unnamed:_0")]
FAILURES = listed("success succeeded failed failure diverged crashed exit_code returncode run_state")
DATA = listed("data dataset data_set benchmark")
STATES = listed("state status")
FINISHED = re.compile(r"(?:finished|completed?|done|ok|succe\w*|early.?stop\w*)\b")
OPEN = re.compile(r"(?:|running|pending|queued|scheduled|waiting|cancel\w*|in.?progress|started|paused|active)$")
MOST_SCORES = 5  # with more columns of numbers, users say which are scores
MOST_SORTED = 0.75  # if this share of the rows is sorted, runs seem to be listed by their scores
SURELY_SORTED = 0.01  # largest chance of such an order, times the number of scores, for scores after the first, since
# tables are often sorted by one of several


@dataclass(frozen=True)
class Columns:
    """The columns that a user names. `paired`: pair equal numbers of `seed` even if the order of runs speaks against
    it."""

    row: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    seed: str | None = None
    data: str | None = None
    metric: str | None = None  # with `value`: a table with one score a line
    value: str | None = None
    paired: bool = False

    @property
    def names(self) -> list[str]:
        return [*self.row, *self.scores, *filter(None, (self.seed, self.data, self.metric, self.value))]


@dataclass(frozen=True)
class Runs:
    """The runs of a table, a line each; `scores` has the same lines."""

    name: str
    lines: pd.DataFrame  # place, axes, label, data, seed, cell and lacks (why it has no score)
    scores: pd.DataFrame
    paired: bool  # whether equal seeds of two rows belong together
    notes: list[str]  # what readers should know of how the table was read
    described: list[str]  # which column was taken for what


def runs_of(table: Table, given: Columns) -> Runs:
    """Return the runs of a table; raise UserError that says what to type if its columns do not tell them."""
    check_exist(table, given)
    table, failed, notes = ended_runs(table, given)
    seed = given.seed or column_named(table, SEEDS, given)
    known = replace(given, seed=seed, data=given.data or column_named(table, DATA, given))
    numbers = None if known.seed else column_named(table, NUMBERS, given)
    if fold := column_named(table, ["fold", "kfold"], given):
        raise UserError(
            f"{table.name}: folds of a cross-validation share training data, so their spread is too small. Average "
            f'them for each row and seed:\nframe.groupby(["ROW", "SEED"], as_index=False).mean(numeric_only=True)\n'
            f"If no two of them share data: --seed {quote(fold)}"
        )
    if flag := column_named(table, FAILURES, given):
        raise UserError(
            f"{table.name}: {flag} may say which runs failed; say it in a column `state`, finished or failed, or drop "
            f'it:\nframe["state"] = ["failed" if value else "finished" for value in frame.pop({json.dumps(flag)})]'
        )
    seed = known.seed or numbers
    known = replace(known, row=known.row or (row_column(table, known, seed),))
    check_steps(table, known, seed)
    if known.metric or known.value:
        table, known, failed = one_line_a_run(table, known, seed, failed)
    known = replace(known, scores=known.scores or score_columns(table, known, seed))
    lines, scores = lines_of(table, known, seed, failed)
    why = why_unpaired(lines, scores, known, numbers)
    notes += [why] if why else []
    columns = [f"rows by {comma_list(known.row)}"]
    columns += [f"data sets by {known.data}"] if known.data else []
    columns += ["not paired" if why else f"paired by {seed}" if seed else "one run a row"]
    unused = [name for name in table.frame.columns if name not in (*known.names, seed)]
    columns += [f"not used: {comma_list(unused)}"] if unused else []
    if unlike := [name for name in unused if name.lower() not in NO_SCORES and table.frame[name].nunique() > 1]:
        notes.append(f"Columns that were not used differ between the runs: {comma_list(unlike)}.")
    return Runs(table.name, lines, scores, not why, notes, columns)


def check_exist(table: Table, given: Columns) -> None:
    for name in given.names:
        if name not in table.frame.columns:
            raise UserError(f"{table.name} has no column {brief_name(name)}{nearest_name(name, table.frame.columns)}")


def check_steps(table: Table, known: Columns, seed: str | None) -> None:
    """Raise UserError if the lines of a row, or of its seeds, are steps of one training."""
    keys = [*known.row, *filter(None, [known.data, seed, known.metric])]
    steps = column_named(table, STEPS, known)
    if steps and table.frame.duplicated(keys).any() and not table.frame.duplicated([*keys, steps]).any():
        raise UserError(
            f"{table.name}: lines with the same {comma_list(keys)} differ in {steps}, so they are steps of one "
            f"training; keep the last one:\nframe.groupby({json.dumps(keys)}, as_index=False).last()"
        )


def column_named(table: Table, names: Sequence[str], given: Columns) -> str | None:
    """Return the first column with one of these names, in any case, that a user has not named for something else."""
    present = {name.lower().replace(" ", "_"): name for name in table.frame.columns if name not in given.names}
    return next((present[name] for name in names if name in present), None)


def ended_runs(table: Table, given: Columns) -> tuple[Table, set[str], list[str]]:
    """Leave out runs that have not ended, by a column `state` or `status`; also return the places of failed runs."""
    name = column_named(table, STATES, given)
    states = None if name is None else table.frame[name].fillna("").astype(str).str.strip().str.lower()
    if name is None or states is None or not states.str.match(FINISHED).any():
        return table, set(), []
    still_open = states.str.match(OPEN)
    failed = ~states.str.match(FINISHED) & ~still_open
    notes, count = list[str](), int(still_open.sum())
    if count:
        words = comma_list([*dict.fromkeys(state or "empty" for state in states[still_open])])
        notes.append(f"Left out, as their runs did not finish ({name} {words}): {count} of the lines.")
    frame = table.frame[~still_open].drop(columns=name)
    return replace(table, frame=frame), {*states.index[failed]}, notes


def numeric(values: pd.Series) -> bool:
    """Return whether most values of a column are numbers, with mistakes among them that are named later."""
    numbers = [number_of(value) for value in values if not is_empty(value)]
    return 2 * sum(number is not None for number in numbers) > len(numbers)


def row_column(table: Table, known: Columns, seed: str | None) -> str:
    """Return the only column of words; raise UserError if there are several."""
    free = [name for name in table.frame.columns if name not in (*known.names, seed)]
    words = [name for name in free if not numeric(table.frame[name]) and not table.frame[name].map(is_empty).all()]
    several = [name for name in words if table.frame[name].nunique() > 1] or words[:1]
    if len(several) != 1:
        what = f"{len(several)} columns may name the rows" if several else "no column of words names the rows"
        choice = several or free
        raise UserError(
            f"{table.name}: {what} ({comma_list(choice)}); say which, and leave out or average what else differs:\n"
            f"--row {quote(min(choice, key=lambda name: table.frame[name].nunique())) if choice else 'COLUMN'}"
        )
    return several[0]


def score_columns(table: Table, known: Columns, seed: str | None) -> tuple[str, ...]:
    """Return the remaining columns of numbers that differ between the runs of a row."""
    frame = table.frame
    keys = [*known.row, *filter(None, [known.data])]
    free = [name for name in frame.columns if name not in (*known.names, seed) and name not in table.settings]
    free = [
        name
        for name in free
        if name.lower() not in NO_SCORES and numeric(frame[name]) and not frame[name].map(is_empty).all()
    ]
    if frame.duplicated(keys).any():
        rows = frame.groupby(keys, dropna=False)
        free = [name for name in free if (rows[name].nunique() > 1).any()]
    if not free or len(free) > MOST_SCORES:
        what = f"{len(free)} columns of numbers may be scores" if free else "no column of numbers is a score"
        likely = next((name for name in free if higher_is_better(name) is not None), free[0] if free else "COLUMN")
        raise UserError(
            f"{table.name}: {what} ({comma_list(free or [*frame.columns])}); say which:\n--score {quote(likely)}\n"
            "If each line has one score: --metric COLUMN --value COLUMN"
        )
    return tuple(sorted(free, key=lambda name: higher_is_better(name) is None))  # the first one is the headline's


def one_line_a_run(table: Table, known: Columns, seed: str | None, failed: set[str]) -> tuple[Table, Columns, set[str]]:
    """Turn a table with one score a line, whose columns `metric` and `value` a user named, into one line a run, in the
    place of its first one. A run of which a line failed has failed."""
    metric, value = known.metric, known.value
    if metric is None or value is None or seed is None:
        raise UserError(f"{table.name}: for one score a line, say --metric COLUMN --value COLUMN --seed COLUMN")
    keys = [*known.row, *filter(None, [known.data]), seed]
    frame = table.frame[[*keys, metric, value]]
    for _, same in frame[frame.duplicated([*keys, metric], keep=False)].groupby([*keys, metric], sort=False):
        raise UserError(
            f"{table.name}, {same.index[0]} and {same.index[1]}: both have the same "
            f"{comma_list([*keys, metric])}; remove one, or name what tells them apart: --row COLUMN or --data COLUMN"
        )
    place = frame.groupby(keys, dropna=False, sort=False)[value].transform(lambda values: values.index[0])
    wide = frame.assign(place=place).pivot(index="place", columns=metric, values=value)
    firsts = frame[keys].groupby(place, sort=False).first()
    chosen = known.scores or tuple(map(str, dict.fromkeys(frame[metric])))
    of_runs = replace(table, frame=firsts.join(wide.rename(columns=str)))
    return of_runs, replace(known, scores=chosen, metric=None, value=None), {*place[place.index.isin(failed)]}


def lines_of(table: Table, known: Columns, seed: str | None, failed: set[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs and their scores; raise UserError for values that are no numbers, and for a run that is there
    twice. A failed run has no scores; it is left out if it was run again."""
    unknown = [name for name in (*known.row, seed) if name]
    lost = [place for place in failed if table.frame.loc[place, unknown].map(is_empty).any()]
    frame = table.frame.drop(index=lost)
    check_values(table.name, frame.drop(index=[*(failed - {*lost})]), known, seed)
    axes: list[dict[str, Any]] = frame[[*known.row]].to_dict("records")  # type: ignore[assignment]
    lines = pd.DataFrame({"place": frame.index, "axes": axes, "label": [*map(label_of, axes)]})
    lines["data"] = [*map(str, frame[known.data])] if known.data else ""
    lines["seed"] = [*map(whole, frame[seed])] if seed else lines.groupby(["data", "label"]).cumcount()
    lines["failed"] = lines["place"].isin(failed)
    lines["lacks"] = lines["failed"].map({True: "is of a failed run", False: "has no number"})
    keys = zip(*(lines[name].tolist() for name in ("data", "label", "seed")), strict=True)
    lines["cell"] = [hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12] for key in keys]
    scores = pd.DataFrame({name: [*map(number_of, frame[name])] for name in known.scores}, dtype=float)
    scores = scores.where((scores.abs() < math.inf).to_numpy() & ~lines["failed"].to_numpy()[:, None])
    again = lines["failed"] & lines["cell"].isin(lines["cell"][~lines["failed"]])
    again |= lines["failed"] & lines["cell"].duplicated()
    lines, scores = lines[~again], scores[~again]
    for _, same in lines[lines["cell"].duplicated(keep=False)].groupby("cell", sort=False):
        line, other = same.iloc[0], same.iloc[1]
        columns = json.dumps([*known.row, *filter(None, [known.data, seed])])
        raise UserError(
            f"{table.name}, {line['place']} and {other['place']}: both are {line['label']}, {seed} {line['seed']}; one "
            "line a run is needed. Name the column that tells them apart (--data, --row, --seed or --metric COLUMN), "
            f"or keep the last line of each run:\nframe.groupby({columns}, as_index=False).last()"
        )
    return lines.reset_index(drop=True), scores.reset_index(drop=True)


def check_values(name: str, frame: pd.DataFrame, known: Columns, seed: str | None) -> None:
    """Raise UserError that lists the values that are no scores, seeds or names."""
    wrong = list[str]()
    for place, line in zip(frame.index, frame.to_dict("records"), strict=True):
        for score in known.scores:
            number = number_of(line[score])
            if number is None:
                wrong.append(f"{name}, {place}: {score} is `{brief_name(line[score])}`, which is not a number")
            elif LARGEST < abs(number) < math.inf:
                wrong.append(f"{name}, {place}: {score} is `{brief_name(line[score])}`, too large: nan if it diverged")
        if seed and whole(line[seed]) is None:
            wrong.append(f"{name}, {place}: {seed} is `{brief_name(line[seed])}`, which is not a whole number")
        if len(known.row) == 1 and is_empty(line[known.row[0]]):
            wrong.append(f"{name}, {place}: {known.row[0]} is empty")
    if wrong:
        raise UserError("\n".join(wrong[:20] + ([f"and {len(wrong) - 20} more"] if len(wrong) > 20 else [])))


def label_of(axes: dict[str, Any]) -> str:
    """Return the name of a row: words as they are, numbers with the name of their column if it has several."""
    if len(axes) == 1:
        return " ".join(str(next(iter(axes.values()))).split())
    parts = [f"{name}={value}" if number_of(value) is not None else str(value) for name, value in axes.items()]
    return " ".join(" · ".join(parts).split())


def why_unpaired(lines: pd.DataFrame, scores: pd.DataFrame, known: Columns, numbers: str | None) -> str:
    """Say why equal seeds of two rows do not belong together; empty if they do.

    Raise UserError if they should, but no two rows share any.
    """
    labels = lines.groupby("seed")["label"].nunique()
    if known.paired and ((known.seed or numbers) is None or (labels < 2).all()):
        raise UserError("--paired pairs runs by their seeds, but no two rows share any: --seed COLUMN names them")
    if known.paired or not lines.duplicated(["data", "label"]).any():
        return ""
    if numbers:
        return f"Not paired: the column {numbers} only numbers the runs; --seed {quote(numbers)} pairs equal numbers."
    if known.seed is None:
        return (
            "No column has seeds, so each line of a row is taken for a run of its own. If lines are checkpoints, days "
            "or parts of one training, the intervals are too narrow."
        )
    if (labels < 2).all() and lines["label"].nunique() > 1:
        return f"Not paired: no two rows share a {known.seed}."
    chances = [chance_of_order(lines, scores[name]) for name in known.scores]
    if chances[0] < 1 or any(chance * len(chances) < SURELY_SORTED for chance in chances[1:]):
        return (
            f"Not paired: {known.seed} only numbers the runs, which are sorted by score within each row, so equal "
            "numbers would pair best with best; --paired pairs them."
        )
    return ""


def chance_of_order(lines: pd.DataFrame, score: pd.Series) -> float:
    """Return how probable it is that so many rows are sorted by the score in one direction if the order means nothing;
    1 unless most rows, and two at least, are.

    Only evenly spaced seeds are looked at, such as 42, 43, 44. A row needs four runs, or three if the seeds are 0, 1, 2
    or 1, 2, 3: shorter ones are often sorted by chance.
    """
    step = evenly_spaced(lines["seed"])
    if step is None:
        return 1.0
    counted = lines["seed"].min() in (0, 1) and step in (0, 1)
    ordered = lines.assign(score=score).dropna(subset="score").sort_values("seed", kind="stable")
    rows = [part["score"] for _, part in ordered.groupby(["data", "label"]) if len(part) >= (3 if counted else 4)]
    rising = sum(part.is_monotonic_increasing and part.nunique() > 1 for part in rows)
    falling = sum(part.is_monotonic_decreasing and part.nunique() > 1 for part in rows)
    most = max(rising, falling)
    if most < max(2, MOST_SORTED * len(rows)):
        return 1.0
    return min(1.0, 2 * math.comb(len(rows), most) * max(map(chance_of_row, rows)) ** most)


def chance_of_row(scores: pd.Series) -> float:
    """Return how probable it is that the scores of a row, in any order, rise: equal scores may stand in any."""
    return math.prod(map(math.factorial, scores.value_counts())) / math.factorial(len(scores))


def evenly_spaced(numbers: Iterable[int]) -> int | None:
    """Return the distance between numbers such as 42, 43, 44 or 0, 10, 20; None if it is not always the same."""
    steps = {after - before for before, after in pairwise(sorted({*numbers}))}
    return None if len(steps) > 1 else next(iter(steps), 0)
