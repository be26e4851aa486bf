"""Find out which columns of a table are rows, seeds, scores, texts and data sets; a user may name any of them.

RULES are applied in their order. Each takes the table and what is known of its columns, and returns both with more
known. What no rule knows is asked for.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from ablate import names as usual
from ablate.directions import COSTS, DURATIONS, words_of
from ablate.names import (
    all_named,
    free,
    is_empty,
    is_fold,
    is_no_score,
    is_resampled,
    is_score,
    is_setting,
    is_stamp,
    is_whole,
    number_of,
    plain,
)
from ablate.shapes import (
    Known,
    counted,
    evenly_spaced,
    last_step_of_each_run,
    marks_beside_numbers,
    means_in_cells,
    means_in_columns,
    scores_below_each_other,
    seeds_beside_each_other,
    without_unfinished,
)  # fmt: skip
from ablate.table import Columns, Table
from contrastive.errors import UserError, brief, brief_name
from contrastive.grid.messages import comma_list, nearest_name
from reports.study import Kind

BETWEEN = r"[-_ .,/]"  # a name and its seed
EVALUATED, TRAINED = "eval_", re.compile(r"train(?:ing)?[_/]|loss$")  # scores of transformers' trainer, and its log
COSTING = {*COSTS, *DURATIONS, "memory", "mem", "runtime"}  # of training and of testing are two costs
ON_TRAINING, HELD_OUT = {"train", "training"}, {"test", "eval", "val", "valid", "validation", "dev"}  # words of names
SETTING = 1.25  # a numeric column is a setting if it has at most this many times (lines / seeds) different values
MOST_SORTED = 0.75  # share of the rows that are sorted, from which runs seem to be listed by their scores
SURELY_SORTED = 0.01  # chance of the order of runs, times the scores, for those after the first: with several, honest
# tables are often sorted by one of them
MOST_FOLDS, USUAL_FOLDS = 20, 5  # of a cross-validation
MOST_SCORES = 10  # with more columns of numbers, users must say which are scores


def choose(table: Table, given: Columns, paired: bool = False) -> Known:
    """Fill in the columns that `given` leaves out; also return the table, in which names may have been divided.

    `paired`: equal numbers of runs belong together. Raises UserError if a column does not exist, none is left for rows
    or scores, or nothing can be paired.
    """
    known = given
    for rule in RULES:
        table, known = rule(table, known)
    check_found(table, known, given)
    check_totals(table, known)
    if paired and known.pairing != "seeds":
        raise UserError(f"{table.name}: --paired pairs runs by their numbers, but no two rows share any")
    if lost := len(table.failed) - len(failed_runs(table, known)):
        note = f"{lost} failed run{'s' * (lost > 1)} of no known row and seed: no row is said to lack any of them"
        known = replace(known, notes=(*known.notes, note))
    return table, known if paired else replace(known, unpaired=why_unpaired(table, known, given))


def failed_runs(table: Table, known: Columns) -> pd.DataFrame:
    """Return the lines of runs that failed, but for those of which the table does not say whose they are."""
    keys = [*known.groups, *filter(None, [known.seed])]
    if not {*keys} <= {*table.failed.columns}:
        return table.failed.iloc[:0]
    return table.failed[~table.failed[keys].map(is_empty).any(axis=1)]


def names_exist(table: Table, known: Columns) -> Known:
    """Raise UserError if a column that a user named does not exist, or the table is the chart of a metric."""
    if any(name.endswith("__MIN") for name in table.frame.columns):
        raise UserError(f"{table.name} is a chart that W&B exported; export the table of runs in its place")
    for name in (*known.row, *known.scores, *known.keys):
        if name not in table.frame.columns:
            hint = nearest_name(name, map(str, table.frame.columns))
            raise UserError(f"{table.name} has no column {brief_name(name)}{hint}")
    return table, known


def seeds_texts_and_data_by_name(table: Table, known: Columns) -> Known:
    """Take a column called seed for the seeds, or one of whole numbers called run, fold and the like."""
    runs = [name for name in all_named(table, usual.RUNS) if is_whole(table.frame[name])]
    seeds = [name for name in table.frame.columns if re.search(r"[./]seed$", plain(name))]  # config.seed, args/seed
    seeds = all_named(table, usual.SEED) or (seeds if len(seeds) == 1 and table.frame[seeds[0]].nunique() > 1 else [])
    named = ([*seeds, *runs], all_named(table, usual.TEXT), all_named(table, usual.DATA))
    seed, text, data = (next((n for n in own if n not in (*known.row, *known.scores)), None) for own in named)
    known = replace(known, seed=known.seed or seed, text=known.text or text, data=known.data or data)
    table, known = without_averages(table, known)
    values = [] if known.seed is None else [value for value in table.frame[known.seed] if number_of(value) is None]
    if values and len(values) == len(table.frame) and known.seed != seed:
        known = replace(known, worded=True)
    elif values and len(values) == len(table.frame):
        first = f"{table.frame.index[0]}: {known.seed} is `{brief_name(values[0])}`"
        raise UserError(
            f"{table.name}, {first}, which is not a whole number; "
            f"if equal words are the same seed, say --seed {known.seed}; else write 0, 1, 2 and so on, or if another "
            "column has the seeds, say which: --seed COLUMN"
        )
    return table, known if known.data else replace(known, data=tasks(table, known))


def without_averages(table: Table, known: Columns) -> Known:
    """Leave out lines whose data set is called average or the like, beside several data sets."""
    if known.data is None:
        return table, known
    mean = table.frame[known.data].map(lambda value: plain(str(value).strip()) in usual.AVERAGES)
    if not mean.any() or table.frame[known.data][~mean].nunique() < 2:
        return table, known
    named = comma_list([*dict.fromkeys(table.frame[known.data][mean].map(str))])
    known = replace(known, notes=(*known.notes, f"lines of {known.data} {named} are left out"))
    return replace(table, frame=table.frame[~mean]), known


def folds_of_each_seed(table: Table, known: Columns) -> Known:
    """Number runs by fold, beside a column of seeds or repeats if there is one.

    A single column of folds with more values than cross-validations usually have numbers repeats too, or random splits.
    """
    frame, taken = table.frame, {*known.row, *known.scores, known.data, known.section}
    fold = next((name for name in frame.columns if name not in taken and is_fold(frame[name])), None)
    if known.text or fold is None:
        return table, known
    others = [name for name in frame.columns if {*words_of(name)} & {*usual.REPEATS} and is_whole(frame[name])]
    others = [name for name in ([known.seed] if known.seed else []) + others if name not in (*taken, fold)]
    count, whole = frame[fold].nunique(), is_whole(frame[fold])
    if others and frame[others[0]].nunique() > 1:
        known = replace(known, seed=others[0], fold=fold)
    elif not whole:
        return table, known
    else:
        known = replace(known, seed=fold)
    sure = others or (count <= MOST_FOLDS and plain(fold) not in usual.SPLITS)
    folds = count if sure else min(count, USUAL_FOLDS)
    told = {"folds": {"count": count}} if sure else {"splits": {"count": count, "name": fold, "folds": folds}}
    return table, replace(known, folds=folds, reading={**known.reading, **told})


def tasks(table: Table, known: Columns) -> str | None:
    """Return a column called task or env if the rows, which other columns of words name, were run on several."""
    words, lines = free(table, known)[0], len(table.frame)
    for name in all_named(table, usual.TASK):
        others = [word for word in words if word != name and 1 < table.frame[word].nunique() < lines]
        rows, taken = [*known.row] or others, (*known.row, *known.keys, *known.scores)
        if rows and name not in taken and table.frame.groupby(rows)[name].nunique().max() > 1:
            return name
    return None


def seeds_in_names(table: Table, known: Columns) -> Known:
    """Divide names such as `bert-seed3` into row and seed, if all values of a column have this form.

    If the seeds are known, take them off the end of names (`bert-3` at seed 3), unless other words tell rows apart.
    """
    words, lines = free(table, known)[0], len(table.frame)
    if known.row or (known.seed and any(1 < table.frame[name].nunique() < lines for name in words)):
        return table, known
    for name in words:
        parts = [match for match in endings(table.frame, name, known.seed) if match]
        divided: dict[str, Any] = {name: [part["row"] for part in parts]}
        if len(parts) < lines or (known.seed and len({*divided[name]}) == lines):
            continue
        if known.seed is None:
            number = "seed" if all((part["kind"] or "").lower() == "seed" for part in parts) else usual.NUMBER
            divided[number], known = [int(part["seed"]) for part in parts], replace(known, seed=number)
        aside = [with_divided_names(lines, name, str(known.seed)) for lines in (table.failed, table.still_open)]
        return replace(table, frame=table.frame.assign(**divided), failed=aside[0], still_open=aside[1]), known
    return table, known


def with_divided_names(lines: pd.DataFrame, name: str, seed: str) -> pd.DataFrame:
    if not len(lines):
        return lines
    found = [match.group("row", "seed") if match else ("", "") for match in endings(lines, name, seed)]
    return lines.assign(**{name: [row for row, _ in found], seed: [number for _, number in found]})


def endings(frame: pd.DataFrame, name: str, seed: str | None) -> list[re.Match[str] | None]:
    """Return how names divide into row and seed: the known seed of the line, or any number."""
    seeds = [str(x).removesuffix(".0") for x in frame[seed]] if seed in frame else [None] * len(frame)
    return [ending(own).match(str(value)) for value, own in zip(frame[name], seeds, strict=True)]


def ending(seed: str | None) -> re.Pattern[str]:
    """Return the pattern of names that end with a known seed, or with any number after seed, run or -s."""
    kind = rf"{BETWEEN}*\(?(?P<kind>seed|run|s)?" if seed else rf"{BETWEEN}*\(?(?P<kind>seed|run)|{BETWEEN}+\(?s"
    number = rf"0*{re.escape(seed)}" if seed else r"\d+"
    return re.compile(rf"(?P<row>.+?)(?:{kind})[-_= ]?(?P<seed>{number})\)?$", re.IGNORECASE)


def one_seed_of_texts(table: Table, known: Columns) -> Known:
    """Take a table with a line for each text, and no seeds, for a single run of each row."""
    if known.seed or not known.text:
        return table, known
    return replace(table, frame=table.frame.assign(seed=0)), replace(known, seed="seed")


def rows_by_words_and_settings(table: Table, known: Columns) -> Known:
    """Name rows by the columns of words that differ between them, and by settings that tell other lines apart."""
    if known.row:
        return table, known
    words, numbers = free(table, known)
    seeds = 1 if known.seed is None else table.frame[known.seed].nunique()
    names = labels(table, words, seeds)
    settings = settings_of(table, numbers, names, known, seeds)
    return table, replace(known, row=tuple(name for name in table.frame.columns if name in (*names, *settings)))


def labels(table: Table, words: Sequence[str], seeds: int) -> list[str]:
    """Return the columns of words that name rows: not those with another value on every line, such as names of runs."""
    lines = len(table.frame)
    found = {name.lower() for name in table.frame.columns}
    runs = {"run_name"} | ({"name"} if "state" in found or "runtime" in found else set())  # MLflow's and W&B's
    several = [
        name for name in words if table.frame[name].nunique() < lines or (seeds < 2 and name.lower() not in runs)
    ]
    if seeds < 2 and several and not table.frame.duplicated(several).any():  # nothing is repeated
        several = [name for name in several if table.frame[name].nunique() == lines][:1] or several
    varying = [name for name in several if table.frame[name].nunique() > 1]
    return varying or several[:1] or list(words[:1])


def settings_of(table: Table, numbers: Sequence[str], names: Sequence[str], known: Columns, seeds: int) -> list[str]:
    """Return the columns of numbers that tell lines apart which the other columns do not, such as a learning rate.

    They have few values, each of which occurs at every seed; or they are params of MLflow or Optuna that differ within
    a row, but do not follow from the seed.
    """
    frame, keys = table.frame, [*names, *known.keys]
    groups = [frame.groupby(own) for own in ([*names], [known.seed] if known.seed else []) if own]
    varying = [name for name in numbers if frame[name].nunique() > 1]
    params = [n for n in varying if n in table.settings and all(own[n].nunique().max() > 1 for own in groups)]
    if known.seed is None:
        return params or [name for name in varying if is_design(frame, names, name)]
    if seeds < 2 or (len(keys) > 1 and not frame.duplicated(keys).any()):
        return params
    candidates = [name for name in varying if frame[name].nunique() <= SETTING * len(frame) / seeds]
    settings = [name for name in candidates if not is_score(name)]
    return params + (candidates if frame.duplicated([*keys, *settings]).any() else settings)


def is_design(frame: pd.DataFrame, names: Sequence[str], name: str) -> bool:
    """Return whether each row has the same values of a column once, such as shares of the data: they are no runs."""
    numbers = frame[name].map(number_of)
    runs = evenly_spaced(numbers) in (0, 1) or {*usual.OF_RUNS} & {*words_of(name)}
    if not names or is_score(name) or runs or frame.duplicated([*names, name]).any():
        return False
    values = {frozenset(own) for _, own in numbers.groupby([frame[column].astype(str) for column in names])}
    return len(values) == 1 < len({*frame[names].itertuples(index=False)}) and len(next(iter(values))) > 1


def scores_by_name_or_values(table: Table, known: Columns) -> Known:
    """Take for scores the columns of numbers with names of scores, or whose values vary between seeds.

    Leave out what transformers' trainer logs, deviations, what a row has at all seeds, and counts beside scores.
    """
    if known.deviations:
        return table, known
    others = [name for name in free(table, known)[1] if name not in table.settings]
    names = [name for name in others if not is_no_score(name) and not is_stamp(table.frame[name])]
    if any(name.startswith(EVALUATED) for name in names):
        names = [name for name in names if not TRAINED.match(name)]
    if any(map(is_score, names)):
        names = [name for name in names if not is_setting(name)]
    if not known.text:
        repeated = known.groups and table.frame.duplicated(known.groups).any()
        frames = [own for _, own in table.frame.groupby(known.groups)] if repeated else [table.frame]
        names = [name for name in names if is_score(name) or any(own[name].nunique() != 1 for own in frames)]
    precise = [name for name in names if is_score(name) or not is_whole(table.frame[name])]
    scores = known.scores or held_out_first(precise or names)
    return table, replace(known, scores=scores, unused=tuple(name for name in others if name not in scores))


def held_out_first(names: Sequence[str]) -> tuple[str, ...]:
    """Leave out scores of training data beside the same ones of held-out data; of the others, put those last."""
    words = {name: {*words_of(name), *re.findall(r"\d+", name)} for name in names}
    held_out = [own - HELD_OUT for own in words.values() if not own & ON_TRAINING]
    twice = [name for name, own in words.items() if own & ON_TRAINING and own - ON_TRAINING in held_out]
    kept = [name for name in names if name not in twice or words[name] & COSTING]
    return (*sorted(kept, key=lambda name: bool(words[name] & ON_TRAINING)),)


def shared_seeds(table: Table, known: Columns) -> Known:
    """Forget the seeds if each of several rows has seeds of its own, so that nothing can be paired."""
    if known.seed is None or known.text or not known.row:
        return table, known
    rows, seeds = rows_of(table, known), table.frame[known.seed]
    own = (rows.groupby(seeds.map(str)).nunique() == 1).all() and seeds.map(number_of).notna().all()
    return table, replace(known, seed=None) if own and 1 < rows.nunique() < len(rows) else known


RULES: list[Callable[[Table, Columns], Known]] = [
    without_unfinished, marks_beside_numbers, scores_below_each_other, seeds_beside_each_other, names_exist,
    seeds_texts_and_data_by_name, folds_of_each_seed, last_step_of_each_run, means_in_cells, means_in_columns,
    seeds_in_names, one_seed_of_texts, rows_by_words_and_settings, scores_by_name_or_values, shared_seeds,
]  # fmt: skip


def check_found(table: Table, known: Columns, given: Columns) -> None:
    """Ask for the rows or the scores if no rule found them, and for the scores if there are too many."""
    frame = table.frame
    if resampled := [name for name in frame.columns if is_resampled(frame[name]) and name not in known.scores]:
        raise UserError(
            f"{table.name}: {brief_name(resampled[0])} numbers resamples of results, whose spread is not that of "
            "trainings; give a line for each training, or for each of its texts (--text). If each is a training of its "
            "own, name the column seed"
        )
    names = ", ".join(brief_name(name) for name in table.frame.columns if not is_no_score(name))
    numbers = free(table, replace(known, scores=()))[1]
    if not known.row and known.seed and len(numbers) > 1 and table.frame[known.seed].is_unique:
        raise UserError(
            f"{table.name}: no column names the rows; if {comma_list(numbers)} are the rows, with one line for each "
            f'{known.seed}, write them below each other: frame.melt("{known.seed}", var_name="model", '
            'value_name="score") in pandas; else say which column names the rows: --row COLUMN'
        )
    if not known.row:
        raise UserError(f"{table.name}: no column names the rows that are compared; say which: --row COLUMN ({names})")
    if len(known.scores) > MOST_SCORES and not given.scores:
        raise UserError(
            f"{table.name} has {len(known.scores)} columns of numbers; say which are scores: --score COLUMN "
            f"({comma_list(known.scores)})"
        )
    if not known.scores:
        raise UserError(f"{table.name}: no column of numbers is a score; say which: --score COLUMN ({names})")


def check_totals(table: Table, known: Columns) -> None:
    """Raise UserError for counts out of a total, such as right answers, that differs between lines."""
    numbers = {n: table.frame[n].map(number_of).astype(float) for n in table.frame.columns if is_whole(table.frame[n])}
    for total in (name for name in all_named(table, usual.TOTALS) if name in numbers and name not in known.scores):
        varies = numbers[total][numbers[total] > 0].nunique() > 1
        for score in (name for name in known.scores if varies and name in numbers):
            if (numbers[score] <= numbers[total]).all():
                raise UserError(
                    f"{table.name}: {brief_name(score)} seems to be a count out of {brief_name(total)}, which is not "
                    "always the same; write the share into a column in its place, or leave the total out"
                )


def rows_of(table: Table, known: Columns) -> pd.Series:
    """Return the row of each line, with its data set."""
    frame = table.frame[known.groups].astype(str)
    return pd.Series([" ".join(map(str, values)) for values in frame.itertuples(index=False)], frame.index)


def why_unpaired(table: Table, columns: Columns, given: Columns) -> Literal["", "numbered", "sorted"]:
    """Return why equal values of the column of seeds are not paired: a count of runs, or values sorted in each row.

    The seeds of our own export are known.
    """
    if columns.seed is None or columns.deviations or table.kinds:
        return ""
    called_seed = "seed" in words_of(columns.seed) or columns.seed in all_named(table, usual.SEED)
    if given.seed is None and not columns.text and not called_seed:
        return "numbered"
    chances = [chance_of_order(table, columns, score) for score in columns.scores]
    by_chance = [chances[0] < 1, *(chance * len(chances) < SURELY_SORTED for chance in chances[1:])]
    return "sorted" if any(by_chance) else ""


def chance_of_order(table: Table, columns: Columns, score: str) -> float:
    """Return how probable it is that so many rows are sorted by the score in one direction if the order means nothing;
    1 unless most rows, and two at least, are.

    Only if seeds count: 42, 43, 44, or 0, 10, 20. Rows of three runs count only if seeds are 0, 1, 2 or 1, 2, 3: others
    that follow the seeds would often be sorted too.
    """
    frame = pd.DataFrame({
        "row": rows_of(table, columns), "seed": table.frame[str(columns.seed)].map(number_of),
        "score": table.frame[score].map(number_of),
    }).astype({"seed": float, "score": float})  # fmt: skip
    values = frame.groupby(["row", "seed"])["score"].mean().dropna()
    if evenly_spaced(frame["seed"]) is None:
        return 1.0
    least = 3 if counted(frame["seed"]) else 4
    rows = [part for _, part in values.groupby("row") if len(part) >= least]
    rising = sum(part.is_monotonic_increasing and part.nunique() > 1 for part in rows)
    falling = sum(part.is_monotonic_decreasing and part.nunique() > 1 for part in rows)
    found = max(rising, falling)
    if found < max(2, MOST_SORTED * len(rows)):
        return 1.0
    return min(1.0, 2 * math.comb(len(rows), found) * max(map(chance_of_row, rows)) ** found)


def chance_of_row(scores: pd.Series) -> float:
    """Return how probable it is that the scores of a row, in any order, rise: the same scores may stand in any."""
    return math.prod(map(math.factorial, scores.value_counts())) / math.factorial(len(scores))


def described(columns: Columns, kinds: Mapping[str, Kind], assumed: Sequence[str], paired: bool = True) -> str:
    """Return the columns in a line for people. `paired`: as these say; False if nothing is, whatever they say."""
    directions = [
        f"{n} ({'assumed: ' if n in assumed else ''}{'higher' if kind.higher_is_better else 'lower'} is better)"
        for n, kind in kinds.items()
    ]
    parts = [f"rows by {', '.join(columns.row)}", f"scores {', '.join(directions)}"]
    parts += [f"data sets by {columns.data}"] if columns.data else []
    parts += [pairing_described(columns)] if paired else ["not paired: the deviation of a run is known"]
    parts += [f"texts by {columns.text}"] if columns.text else []
    parts += [f"not used: {comma_list(columns.unused)}"] if columns.unused else []
    return "; ".join([brief("; ".join(parts), 1000), *columns.notes])


def pairing_described(columns: Columns) -> str:
    if columns.deviations:
        return f"deviations {', '.join(columns.deviations)}, counts {columns.count}"
    if not columns.seed:
        return "no shared seeds: rows are not paired"
    if columns.unpaired == "numbered":
        return f"not paired: the column {columns.seed} only numbers the runs; --paired pairs equal numbers"
    if columns.unpaired:
        return f"not paired: within each row, runs are sorted by score; --paired pairs equal values of {columns.seed}"
    return f"paired by {columns.seed}" + (f" and {columns.fold}" if columns.fold else "")
