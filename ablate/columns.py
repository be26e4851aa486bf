"""Find out which columns of a table are rows, seeds, scores, texts and data sets; a user may name any of them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import pandas as pd

from ablate.directions import decided, words_of
from ablate.table import UNNAMED, ScoreKind, Table
from contrastive.errors import UserError, brief, brief_name
from contrastive.grid.messages import comma_list, nearest_name

SEED = ("seed", "random_seed", "random_state", "rng_seed")
NUMBER = "run number"  # column of the numbers that stood in names or headings
RUNS = ("repeat", "repetition", "replicate", "trial", "fold", "run", "s", "run_number")  # numbers that pair nothing
TEXT = ("text_id", "example_id", "item_id", "sample_id", "question_id", "example", "item", "text")
DATA = ("data", "dataset", "data_set", "benchmark")
MEAN, DEVIATION, COUNT = (
    ("mean", "average", "avg"),
    ("std", "sd", "stdev", "std_dev", "deviation"),
    ("n", "count", "seeds", "n_seeds", "num_seeds", "runs", "n_runs"),
)
OTHER_SPREADS = ("ci", "ci95", "ci_95", "sem", "stderr", "std_err", "se", "half_width", "error_bar", "var", "variance")
NAME, VALUE = ("score", "metric", "score_name", "metric_name"), ("value",)  # of a table with one score a line
IGNORED = {
    "epoch", "step", "steps", "global_step", "runtime", "created", "date", "timestamp", "time", "user", "notes", "tags",
    "_step", "_runtime", "_timestamp", "state", "status", "sweep", "id", "run_id", "path", "checkpoint", "cell",
    "commit", "line", "hostname", "seconds", "end_time", "updated", "_wandb", "url",
    "trainer/global_step", "unnamed:_0",
}  # fmt: skip
OWN = {"section", "row", "label", "variant", "seed", "cell", "score", "value"}  # columns of our own results.csv
WITH_SEED = re.compile(
    r"(?P<row>.+?)(?:[-_ .,/]*\(?(?P<kind>seed|run)|[-_ .,/]+\(?s)[-_= ]?(?P<seed>\d+)\)?$", re.IGNORECASE
)
OF_TRAINER = re.compile(
    r"(?:runtime|per_second|total_flos|grad_norm|learning_rate)$"
)  # logged by transformers' trainer
EVALUATED = "eval_"  # its scores
SETTING_NAMED = {
    "lora",
    "weight",
    "coef",
    "coefficient",
    "margin",
    "scale",
    "threshold",
    "limit",
    "size",
    "alpha",
    "beta",
    "lambda",
}  # as in loss_weight, lora_rank, iou_threshold
OFTEN_SETTING = {"drop", "gain"}  # words that name a score only beside another one: accuracy_drop, not drop_path_rate
OF_SEED = re.compile(r"(?:seed|run|rep|trial|fold|s)?[ _-]?(\d+)", re.IGNORECASE)  # a column of a wide table, or a seed
SOME_NUMBERS = 0.6  # share of a column's values that are numbers, if the others are mistakes; of a score, any share
SETTING = 1.25  # a numeric column is a setting if it has at most this many times (lines / seeds) different values
MOST_SCORES = 10  # with more columns of numbers, users must say which are scores
SECONDS = "seconds"  # column of the time that a run took
MISSING = ("", "na", "n/a", "nan", "none", "null", "-", "–")


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they hold."""

    row: tuple[str, ...]
    scores: tuple[str, ...]
    seed: str | None = None
    text: str | None = None
    data: str | None = None
    section: str | None = None  # of our own export, if it has several
    deviation: str | None = None  # with `count`: a table of means, the only score
    count: str | None = None
    unused: tuple[str, ...] = ()  # columns of numbers that were taken for no scores
    unpaired: Literal["", "numbered", "sorted"] = ""  # why equal values of `seed` are not paired

    @property
    def pairing(self) -> Literal["seeds", "none", "means"]:
        return "means" if self.deviation else "seeds" if self.seed and not self.unpaired else "none"


class Summary(NamedTuple):
    """The columns of a table of means."""

    mean: str | None
    deviation: str | None
    number: str | None


def number_of(value: Any) -> float | None:
    """Return a value as a number, NaN for a missing one, and None for text."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return math.nan
    try:
        return float(value.strip().removesuffix("%") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return None


def choose(table: Table, given: Columns, paired: bool = False) -> tuple[Table, Columns]:
    """Fill in the columns that `given` leaves out; also return the table, in which names may have been divided.

    `paired`: equal numbers of runs belong together. Raises UserError if a column does not exist, none is left for rows
    or scores, or nothing can be paired.
    """
    table, columns = guessed(table, given)
    if paired and columns.pairing != "seeds":
        raise UserError(f"{table.name}: --paired pairs runs by their numbers, but no two rows share any")
    return table, columns if paired else replace(columns, unpaired=why_unpaired(table, columns, given))


def guessed(table: Table, given: Columns) -> tuple[Table, Columns]:
    if any(name.endswith("__MIN") for name in table.frame.columns):
        raise UserError(f"{table.name} is a chart that W&B exported; export the table of runs in its place")
    table = with_whole_seeds(lengthen(widen(table, given), given))
    for name in (*given.row, *given.scores, given.seed, given.text, given.data):
        if name is not None and name not in table.frame.columns:
            hint = nearest_name(name, map(str, table.frame.columns))
            raise UserError(f"{table.name} has no column {brief_name(name)}{hint}")
    free = [name for name in table.frame.columns if name not in (*given.row, *given.scores)]
    numeric = {name for name in free if is_numeric(table.frame[name])}
    found = {column: name for name in free if (column := name.lower().replace(" ", "_"))}
    seed = given.seed or next(
        (found[n] for n in (*SEED, *RUNS) if n in found and is_whole(table.frame[found[n]])), None
    )
    if seed is None and (summary := summary_of(table, found, given)):
        return of_means(table, given, summary, numeric)
    text, data = given.text or first_of(found, TEXT), given.data or first_of(found, DATA)
    special = {seed, text, data, *(name for column, name in found.items() if column in IGNORED)}
    special |= {UNNAMED} if UNNAMED in numeric else set()
    words = [name for name in free if name not in numeric and name not in special]
    if seed is None and not given.row:
        table, words, seed = with_seeds_from_names(table, words)
    elif seed is not None and not given.row:
        table = without_seeds_in_names(table, words, seed)
    if seed is None and text is not None:  # a single run, with a line for each text
        table, seed = replace(table, frame=table.frame.assign(seed=0)), "seed"
    seeds = 1 if seed is None else table.frame[seed].nunique()
    numbers = [name for name in free if name in numeric and name not in special]
    named = [*(given.row or labels(table, words, seeds))]
    settings = [] if given.row else settings_of(table, numbers, [*named, *filter(None, (seed, text, data))], seeds)
    row = given.row or tuple(name for name in free if name in named or name in settings)
    others = [name for name in numbers if name not in row and name not in table.settings]
    scores = given.scores or scores_among(table, others, [*row, *filter(None, (data,))], seeds if not text else 0)
    section = "section" if table.kinds and "section" in table.frame.columns else None
    if seed and not text and unshared(table, [*row, *filter(None, (data,))], seed):
        seed = None
    unused = tuple(name for name in others if name not in scores)
    columns = Columns(tuple(n for n in row if n != section), scores, seed, text, data, section, unused=unused)
    check_found(table, columns)
    return table, columns


def unshared(table: Table, row: Sequence[str], seed: str) -> bool:
    """Return whether each of several rows has seeds of its own, so that nothing can be paired."""
    rows = table.frame[[*row]].astype(str).agg(" ".join, axis=1)
    by_seed = rows.groupby(table.frame[seed].astype(str)).nunique()
    known = table.frame[seed].map(number_of).notna().all()
    return bool(known and 1 < rows.nunique() < len(rows) and (by_seed == 1).all())


def why_unpaired(table: Table, columns: Columns, given: Columns) -> Literal["", "numbered", "sorted"]:
    """Return why equal values of the column of seeds are not paired: a count of runs, or values sorted in each row.

    The seeds of our own export are known.
    """
    if columns.seed is None or table.kinds:
        return ""
    if given.seed is None and columns.seed.lower().replace(" ", "_") in RUNS:
        return "numbered"
    return "sorted" if any(is_sorted(table, columns, score) for score in columns.scores) else ""


def is_sorted(table: Table, columns: Columns, score: str) -> bool:
    """Return whether seeds only count, and several rows with three runs or more are all sorted in one direction."""
    frame = pd.DataFrame({
        "row": table.frame[[*columns.row, *filter(None, (columns.data,))]].astype(str).agg(" ".join, axis=1),
        "seed": table.frame[str(columns.seed)].map(number_of),
        "score": table.frame[score].map(number_of),
    }).astype({"seed": float, "score": float})  # fmt: skip
    seeds = sorted(frame["seed"].dropna().unique())
    if not seeds or seeds[0] not in (0, 1) or seeds != [seeds[0] + k for k in range(len(seeds))]:
        return False
    values = frame.groupby(["row", "seed"])["score"].mean().dropna()
    rows = [part for _, part in values.groupby("row") if len(part) > 2]
    rising = all(part.is_monotonic_increasing and part.nunique() > 1 for part in rows)
    falling = all(part.is_monotonic_decreasing and part.nunique() > 1 for part in rows)
    return len(rows) > 1 and (rising or falling)


def check_found(table: Table, columns: Columns) -> None:
    names = ", ".join(map(brief_name, table.frame.columns))
    if not columns.row:
        raise UserError(f"{table.name}: no column names the rows that are compared; say which: --row COLUMN ({names})")
    if len(columns.scores) > MOST_SCORES:
        raise UserError(
            f"{table.name} has {len(columns.scores)} columns of numbers; say which are scores: --score COLUMN "
            f"({comma_list(columns.scores)})"
        )
    if not columns.scores:
        raise UserError(f"{table.name}: no column of numbers is a score; say which: --score COLUMN ({names})")


def widen(table: Table, given: Columns) -> Table:
    """Turn a table with one score a line (columns such as metric and value) into one with a column for each score."""
    found = {name.lower(): name for name in table.frame.columns}
    name, value = first_of(found, NAME), first_of(found, VALUE)
    asked = given.scores and {*given.scores} <= {*table.frame.columns}
    if name is None or value is None or asked or is_numeric(table.frame[name]):
        return table
    frame, own = table.frame, {*found} >= OWN
    kinds: dict[str, ScoreKind] = {}
    if own:  # our own export: trained vectors of finished cells
        kept = (frame["variant"].fillna("") == "") & ~frame["score"].isin(["", None]) & frame["score"].notna()
        frame = frame[kept]
        for line in frame.to_dict("records"):
            count = number_of(line["count"])
            known = int(count) if count and math.isfinite(count) else None
            kinds[line["score"]] = ScoreKind(str(line["higher_is_better"]).lower() == "true", known)
        several = ["section"] if frame["section"].nunique() > 1 else []
        run = "seed" if frame["seed"].map(number_of).notna().any() else "cell"  # of rows that are not paired
        frame = frame[[*several, "label", run, "seconds", "score", "value"]]
    keys = [column for column in frame.columns if column not in (name, value)]
    keys = [column for column in keys if own or column.lower() not in IGNORED or column == SECONDS]
    wide: dict[tuple[Any, ...], dict[str, Any]] = {}
    places: dict[tuple[Any, ...], dict[str, str]] = {}
    for place, line in zip((table.places[i] for i in frame.index), frame.to_dict("records"), strict=True):
        key, score = tuple(str(line[column]) for column in keys), str(line[name])
        if before := places.setdefault(key, {}).get(score):
            raise UserError(
                f"{table.name}, {before} and {place}: both have the same {', '.join(keys)} and {name}; remove one, or "
                "add a column that tells them apart"
            )
        places[key][score] = place
        wide.setdefault(key, {column: line[column] for column in keys})[score] = line[value]
    firsts = [next(iter(by_score.values())) for by_score in places.values()]
    return Table(table.name, pd.DataFrame(list(wide.values())), firsts, kinds)


def summary_of(table: Table, found: dict[str, str], given: Columns) -> Summary | None:
    """Return the columns of mean, deviation and count, such as mean, std and n, or f1, f1_std and n; None without them.

    Some of the three may be missing.
    """
    stems = dict[str, str]()  # of columns such as f1_std beside f1 or f1_mean
    for column, name in found.items():
        stem, _, kind = column.rpartition("_")
        means = [found[mean] for mean in (stem, *(f"{stem}_{kind}" for kind in MEAN)) if mean in found]
        if kind in (*DEVIATION, *OTHER_SPREADS) and means and (not given.scores or means[0] in given.scores):
            stems[name] = means[0]
    if len(stems) > 1:
        raise UserError(
            f"{table.name}: {comma_list(list(stems))} are of several scores; keep the columns of one, or give one "
            "line for each seed"
        )
    deviation = first_of(found, (*DEVIATION, *OTHER_SPREADS)) or next(iter(stems), None)
    if given.scores and deviation is None:
        return None
    if deviation and not deviation.lower().replace(" ", "_").endswith(DEVIATION):
        raise UserError(
            f"{table.name}: {brief_name(deviation)} is no standard deviation over seeds; give columns mean, std and n, "
            "or one line for each seed, or say which columns are scores: --score COLUMN"
        )
    count = first_of(found, COUNT)
    mean = next(iter(given.scores), None) or first_of(found, MEAN) or next(iter(stems.values()), None)
    if mean is None and deviation and count:
        others = [name for name in found.values() if is_numeric(table.frame[name]) and name not in (deviation, count)]
        mean = others[0] if len(others) == 1 else None
    return Summary(mean, deviation, count) if mean or deviation or count else None


def lengthen(table: Table, given: Columns) -> Table:
    """Turn a table with a column for each seed (`seed 0`, `seed 1`) into one with a line for each."""
    matches = {name: OF_SEED.fullmatch(name) for name in table.frame.columns}
    seeds = {name: int(match[1]) for name, match in matches.items() if match and is_numeric(table.frame[name])}
    numbers = sorted(seeds.values())
    counted = all(name[:2].lower() in ("se", "ru", "re", "tr", "fo") for name in seeds) or (
        numbers and numbers == [*range(numbers[0], numbers[0] + len(numbers))] and numbers[0] in (0, 1)
    )  # not shots or years
    known = given.seed or any(name.lower() in (*SEED, *RUNS) for name in table.frame.columns)
    if len(seeds) < 2 or known or given.scores or not counted:
        return table
    others = [name for name in table.frame.columns if name not in seeds]
    number = "seed" if all(name.lower().startswith("seed") for name in seeds) else NUMBER
    lines = [
        {name: line[name] for name in others} | {number: seed, "score": line[name]}
        for line in table.frame.to_dict("records") for name, seed in seeds.items()
    ]  # fmt: skip
    places = [f"{place}, {name}" for place in table.places for name in seeds]
    return Table(table.name, pd.DataFrame(lines), places, table.kinds, table.settings)


def with_whole_seeds(table: Table) -> Table:
    """Turn seeds such as `seed0` into numbers."""
    for name in table.frame.columns:
        matches = [OF_SEED.fullmatch(str(value)) for value in table.frame[name]]
        if name.lower() in (*SEED, *RUNS) and all(matches) and not is_numeric(table.frame[name]):
            return replace(table, frame=table.frame.assign(**{name: [int(match[1]) for match in matches if match]}))
    return table


def of_means(table: Table, given: Columns, summary: Summary, numeric: set[str]) -> tuple[Table, Columns]:
    """Return a table of means, standard deviations and numbers of values, and its columns."""
    mean, deviation, count = summary
    if mean is None or deviation is None or count is None:
        kinds = {"standard deviation (column std)": deviation, "number of values (column n)": count}
        if deviation and count:
            raise UserError(f"{table.name}: which column is the mean of {deviation}? Say it: --score COLUMN")
        lacking = next(kind for kind, column in kinds.items() if column is None)
        raise UserError(
            f"{table.name}, {table.places[0]}: a mean without its {lacking} cannot be compared; add the column, or "
            "give one line for each seed"
        )
    data = given.data or first_of({name.lower(): name for name in table.frame.columns}, DATA)
    special = {mean, deviation, count, data}
    words = [name for name in table.frame.columns if name not in numeric and name not in special]
    score = "score" if mean.lower() in MEAN else re.sub(rf"[ _](?:{'|'.join(MEAN)})$", "", mean, flags=re.IGNORECASE)
    table = replace(table, frame=table.frame.rename(columns={mean: score}))
    columns = Columns(given.row or tuple(words), (score,), data=data, deviation=deviation, count=count)
    check_found(table, columns)
    return table, columns


def with_seeds_from_names(table: Table, words: Sequence[str]) -> tuple[Table, list[str], str | None]:
    """Divide names such as `bert-seed3` into row and seed, if all values of a column have this form."""
    for name in words:
        matches = [WITH_SEED.match(str(value)) for value in table.frame[name]]
        if all(matches):
            parts = [match for match in matches if match]
            frame = table.frame.copy()
            frame[name] = [part["row"] for part in parts]
            seed = "seed" if all((part["kind"] or "").lower() == "seed" for part in parts) else NUMBER
            frame[seed] = [int(part["seed"]) for part in parts]
            return replace(table, frame=frame), list(words), seed
    return table, list(words), None


def without_seeds_in_names(table: Table, words: Sequence[str], seed: str) -> Table:
    """Take the seed off the end of names of runs (`bert-3` at seed 3) if no other column of words tells rows apart."""
    lines, seeds = len(table.frame), [str(value).removesuffix(".0") for value in table.frame[seed]]
    if any(1 < table.frame[name].nunique() < lines for name in words):
        return table
    for name in words:
        rows = [name_without(str(value), number) for value, number in zip(table.frame[name], seeds, strict=True)]
        if all(rows) and len(set(rows)) < lines:
            frame = table.frame.copy()
            frame[name] = rows
            return replace(table, frame=frame)
    return table


def name_without(name: str, seed: str) -> str | None:
    match = re.fullmatch(rf"(.*?)[-_ .,/]*\(?(?:seed|run|s)?[-_= ]?0*{re.escape(seed)}\)?", name, re.IGNORECASE)
    return match[1] if match else None


def scores_among(table: Table, names: Sequence[str], row: Sequence[str], seeds: int) -> tuple[str, ...]:
    """Return the columns of numbers that are scores, by their names, or as they vary between seeds.

    Not what transformers' trainer logs beside them, deviations, what a row has at all seeds, and counts beside scores.
    """
    named = [name for name in names if is_score(name) or not (OF_TRAINER.search(name.lower()) or is_spread(name))]
    if evaluated := [name for name in named if name.startswith(EVALUATED)]:
        return tuple(evaluated)
    fixed = {name for name in named if seeds and not is_score(name) and table.frame[name].nunique() == 1}
    if seeds and row and table.frame.duplicated([*row]).any():
        groups = table.frame.groupby([*row])
        fixed |= {n for n in named if not is_score(n) and all(part[n].nunique() == 1 for _, part in groups)}
    scores = [name for name in named if name not in fixed]
    precise = [name for name in scores if is_score(name) or not is_whole(table.frame[name])]
    return tuple(precise or scores)


def is_spread(name: str) -> bool:
    return re.split(r"[_.@/ -]+", name.lower())[-1] in (*DEVIATION, *OTHER_SPREADS)


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


def settings_of(table: Table, numbers: Sequence[str], keys: Sequence[str], seeds: int) -> list[str]:
    """Return the columns of numbers that tell lines apart which the other columns do not, such as a learning rate.

    They have few values, each of which occurs at every seed.
    """
    if seeds < 2 or not (not keys or table.frame.duplicated([*keys]).any() or len(keys) == 1):
        return []
    limit = SETTING * len(table.frame) / seeds
    candidates = [name for name in numbers if 1 < table.frame[name].nunique() <= limit]
    plain = [name for name in candidates if not is_score(name)]
    return candidates if table.frame.duplicated([*keys, *plain]).any() else plain


def first_of(found: dict[str, str], names: Sequence[str]) -> str | None:
    return next((found[name] for name in names if name in found), None)


def is_numeric(values: pd.Series) -> bool:
    """Return whether a column holds numbers, possibly with mistakes among them."""
    numbers = [number_of(value) for value in values]
    found = sum(number is not None for number in numbers)
    return found > (0 if is_score(str(values.name)) else SOME_NUMBERS * len(numbers))


def is_whole(values: pd.Series) -> bool:
    """Return whether a column holds whole numbers, possibly with mistakes among them."""
    numbers = [number_of(value) for value in values]
    if not is_numeric(values):
        return False
    return all(number == math.floor(number) for number in numbers if number is not None and math.isfinite(number))


def is_score(name: str) -> bool:
    """Return whether a column is a score by its name."""
    words = words_of(name)
    known = "score" in words or decided([word for word in words if word not in OFTEN_SETTING]) is not None
    return known and not SETTING_NAMED & {*words} and not OF_TRAINER.search(name.lower())


def described(columns: Columns, lower: Sequence[str], assumed: Sequence[str] = ()) -> str:
    """Return the columns in a line for people."""
    directions = {n: f"{'lower' if n in lower else 'higher'} is better" for n in columns.scores}
    directions |= dict.fromkeys(assumed, "assumed: higher is better")
    parts = [f"rows by {', '.join(columns.row)}", f"scores {', '.join(f'{n} ({d})' for n, d in directions.items())}"]
    parts += [f"data sets by {columns.data}"] if columns.data else []
    parts += [seeds_described(columns)] if columns.seed else []
    parts += [f"texts by {columns.text}"] if columns.text else []
    parts += [f"deviations {columns.deviation}, counts {columns.count}"] if columns.deviation else []
    parts += ["no shared seeds: rows are not paired"] if columns.pairing == "none" and not columns.seed else []
    parts += [f"not used: {comma_list(columns.unused)}"] if columns.unused else []
    return brief("; ".join(parts), 1000)


def seeds_described(columns: Columns) -> str:
    if columns.unpaired == "numbered":
        return f"not paired: the column {columns.seed} numbers runs; --paired pairs equal numbers"
    if columns.unpaired:
        return f"not paired: within each row, runs are sorted by score; --paired pairs equal values of {columns.seed}"
    return f"paired by {columns.seed}"
