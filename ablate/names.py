"""Say what the names and values of a column tell about it."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ablate.directions import decided, higher_is_better, listed, words_of
from ablate.table import UNNAMED, Columns, Table

SEED = listed("seed random_seed random_state rng_seed 种子 随机种子 シード 乱数シード")
NUMBER = "run number"  # column of the numbers that stood in names or headings
REPEATS = listed("seed rep repeat repetition replicate run trial")  # words of columns beside one of folds
RUNS = listed("rep repeat repetition replicate trial run s run_number fold")  # numbers that pair nothing
SPLITS = listed("split split_id split_index cv_split cv_iter")  # folds, or random splits
OF_RUNS = listed("seed rng init run runs trial rep replica replicate repeat fold split gpu id")  # words of names
TEXT = listed("text_id example_id item_id sample_id question_id problem_id query_id prompt_id doc_id example item text")
DATA = listed("data dataset data_set benchmark")
TASK = listed("task env environment")  # data sets if a row has several
AVERAGES = listed("average avg mean overall total all")  # of data sets, in a line beside theirs
TOTALS = listed("total totals n count support size") + [
    f"{prefix}{what}"
    for prefix in ("", "n_", "num_", "total_")
    for what in listed("examples samples questions problems tasks tests trials attempts items texts games episodes")
]
MEAN, DEVIATION = listed("mean average avg"), listed("std sd stdev std_dev deviation")
COUNT = listed("n count seeds n_seeds num_seeds runs n_runs")
SPREADS = [*DEVIATION, *listed("ci ci95 ci_95 sem stderr std_err se half_width error_bar var variance")]
STEPS = listed("step global_step _step trainer/global_step steps epoch training_iteration iteration timestep")
STEPS += listed("total_timesteps timesteps_total env_steps num_env_steps iter iters round")
STEPS += (CHECKPOINTS := listed("checkpoint ckpt"))
SECONDS = "seconds"  # column of the time that a run took
IGNORED = STEPS + listed("""
    seconds runtime created date timestamp time user notes tags _runtime _timestamp state status sweep id run_id path
    cell commit line hostname start_time end_time duration source_type source_name updated _wandb url unnamed:_0
    wall_time
""")
OF_TRAINER = re.compile(r"(?:runtime|per_second|total_flos|grad_norm|learning_rate)$")  # logged by transformers
SETTING_NAMED = listed("""
    lora weight coef coefficient margin scale threshold limit size alpha beta lambda quant lr learning dropout
    temperature batch momentum decay warmup gamma epsilon clip exploration
""")
OFTEN_SETTING = {"drop", "gain"}  # words that name a score only beside another one: accuracy_drop, not drop_path_rate
SOME_NUMBERS = 0.6  # share of a column's values that are numbers, if the others are mistakes; of a score, any share
MISSING = ["", *listed("na n/a nan none null - –")]
DATE = r"(?:19|20)\d\d([-/])[01]?\d\1[0-3]?\d|20\d\d[01]\d[0-3]\d(?=\D)|\d\d?[./]\d\d?[./]\d{4}"
NESTED = re.compile(r"[\[{].*[\]}]", re.DOTALL)  # a list or map in a cell
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
STAMP = re.compile(rf"(?:{DATE})(?:[T _-]+\d[\d:.+Z -]*)?|{UUID}", re.IGNORECASE)
EPOCH = re.compile(r"(?:1[2-9]\d{8}(?:\d{3}){0,3}|20\d\d[01]\d[0-3]\d)(?:\.\d+)?")  # seconds since 1970, or a date
HASH = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
EXACT = 2**53  # larger whole numbers, such as seeds, stay integers


def number_of(value: Any) -> float | None:
    """Return a value as a number, NaN for a missing one, and None for text. Large whole numbers are exact."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return math.nan
    try:
        number = float(value.strip().removesuffix("%") if isinstance(value, str) else value)
        whole = EXACT <= abs(number) < math.inf and str(value).strip().lstrip("+-").isdecimal()
        return int(value) if whole else number
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def whole(value: Any) -> int | None:
    """Return a value as a whole number; None if it is none."""
    number = number_of(value)
    return int(number) if number is not None and math.isfinite(number) and number == math.floor(number) else None


def is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or str(value).strip() == ""


def plain(name: str) -> str:
    return name.lower().replace(" ", "_")


def all_named(table: Table, names: Sequence[str]) -> list[str]:
    """Return the columns with these names, in the order of the names and without regard to case."""
    found = {plain(name): name for name in table.frame.columns}
    return [found[name] for name in names if name in found]


def named(table: Table, names: Sequence[str]) -> str | None:
    return next(iter(all_named(table, names)), None)


def free(table: Table, known: Columns) -> tuple[list[str], list[str]]:
    """Return the columns of words and those of numbers that are not known to be anything yet."""
    taken = {*known.row, *known.scores, *known.keys}
    names = [name for name in table.frame.columns if name not in taken and plain(name) not in IGNORED]
    names = [name for name in names if not table.frame[name].map(is_empty).all()]
    names = [name for name in names if not (is_stamp(own := table.frame[name]) and 2 * own.nunique() > len(own))]
    numbers = [name for name in names if is_numeric(table.frame[name])]
    return [name for name in names if name not in numbers], [name for name in numbers if name != UNNAMED]


def is_numeric(values: pd.Series) -> bool:
    """Return whether a column holds numbers, possibly with mistakes among them."""
    if pd.api.types.is_numeric_dtype(values):
        return True
    numbers = [number_of(value) for value in values]
    found = sum(number is not None for number in numbers)
    return found > (0 if is_score(str(values.name)) else SOME_NUMBERS * len(numbers))


def is_stamp(values: pd.Series) -> bool:
    """Return whether a column has the date or an id of each line: dates, seconds since 1970, UUIDs, hashes, lists."""
    texts = [str(value) for value in values.dropna() if value != ""]
    kind = next((kind for kind in (STAMP, EPOCH, HASH, NESTED) if texts and all(map(kind.fullmatch, texts))), None)
    if kind is EPOCH:
        return not is_score(str(values.name)) or "time" in words_of(str(values.name))
    mixed = sum(not text.isdecimal() and not text.isalpha() for text in texts)
    return kind in (STAMP, NESTED) or (kind is HASH and 2 * mixed > len(texts) and len({*map(len, texts)}) == 1)


def is_whole(values: pd.Series) -> bool:
    """Return whether a column holds whole numbers, possibly with mistakes among them."""
    numbers = [number for value in values if math.isfinite(number := number_of(value) or 0)]
    return is_numeric(values) and all(whole(number) is not None for number in numbers)


def is_score(name: str) -> bool:
    """Return whether a column is a score by its name."""
    words = words_of(name)
    known = "score" in words or decided([word for word in words if word not in OFTEN_SETTING]) is not None
    known = known or ("per" in words[1:-1] and higher_is_better(name) is not None)
    return (known or plain(name) in MEAN) and not is_setting(name) and not OF_TRAINER.search(name.lower())


def is_setting(name: str) -> bool:
    """Return whether a column is a setting by its name, such as lr or quant_bits."""
    return not {*words_of(name)}.isdisjoint(SETTING_NAMED)


def is_no_score(name: str) -> bool:
    """Return whether a column has deviations, places such as `Rank` and `rank (UB)`, or what transformers' trainer logs
    beside scores."""
    first, *others = words_of(name) or [""]
    if "explained" in (first, *others):
        return False
    if first == "rank" and decided(others) is None:
        return True
    return (
        bool(OF_TRAINER.search(name.lower())) or re.split(r"[_.@/ -]+", name.lower().partition(",")[0])[-1] in SPREADS
    )


def label_of(axes: Mapping[str, Any]) -> str:
    told = {name: value for name, value in axes.items() if not is_empty(value)} if len(axes) > 1 else axes
    parts = [str(v) if isinstance(v, str) and number_of(v) is None else f"{n}={v}" for n, v in told.items()]
    label = str(next(iter(axes.values()))) if len(axes) == 1 else " · ".join(parts)
    return re.sub(r"[\r\n]+", " ", label)


def is_fold(values: pd.Series) -> bool:
    """Return whether a column numbers the folds of a cross-validation, or random splits."""
    name = str(values.name)
    fold = {"fold", "kfold"} & {*words_of(name)} or (plain(name) in SPLITS and is_whole(values))
    return bool(fold) and values.nunique() > 1


def is_resampled(values: pd.Series) -> bool:
    """Return whether a column numbers bootstrap samples of results."""
    named = any(word.startswith(("boot", "resampl")) for word in words_of(str(values.name)))
    return named and is_whole(values) and values.nunique() > 1
