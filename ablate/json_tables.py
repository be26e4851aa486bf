"""Read JSON as a table: lines, columns as pandas writes them, or results under their names, as scripts dump them.

Results under names are such as `{"bert": {"accuracy": [0.9, 0.8]}}`, `{"bert": {"sst2": {"0": {"f1": 0.9}}}}` or
`{"f1": {"bert": 0.9}}`. The keys of a level say what it is: seeds, scores, means, or names. The first level of names
has the rows, the second the data sets.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from ablate.directions import ENDINGS, higher_is_better, listed, words_of

ROW, DATA, SCORE = "row", "dataset", "score"
SEED = re.compile(r"(seed|run|rep|trial|fold|)[ _-]?(\d+)", re.IGNORECASE)
# Keys that name columns, beside those of scores; other keys are names of rows or data sets.
COLUMNS = {*listed("""
    algorithm algo approach arm config configuration data dataset epoch experiment id index iteration label method
    metric model name row run score seed setting split step system task text trial value variant
""")}  # fmt: skip
SUMMARIES = {"mean", "average", "avg", "median", "std", "stddev", "sd", "sem", "min", "max", "best"}  # of several runs
COUNTS = {"n", "count"}
EXPECTED = 'expected a list of objects such as {"model": "a", "seed": 0, "acc": 0.8}'
Line = dict[str, Any]


def frame_of(text: str) -> pd.DataFrame:
    """Return the table in a JSON text; raise ValueError if there is none."""
    whole = json.loads(text)
    content = without_facts(whole)
    if is_lines(content):
        return with_runs([line for line in content if line.get("run_type") != "aggregate"] or content)  # of benchmarks
    if not (isinstance(content, dict) and len(content) > 1):
        raise ValueError(EXPECTED)
    if alone := [
        key for key in whole if len(content) < len(whole) and is_number(whole[key]) and {*content} <= {*whole}
    ]:
        raise ValueError(f"{alone[0]} is one number beside objects or lists; leave it out, or write it as they are")
    if all(map(is_record, content.values())):
        return with_runs([line if key.isdecimal() else {"run_id": key, **line} for key, line in content.items()])
    below = {key: without_facts({"": each}) for key, each in content.items()}
    if all(map(is_lines, below.values())):
        return with_runs([{ROW: key, **line} for key, each in below.items() for line in each])
    if is_columns(content):
        return named_index(pd.DataFrame(content))
    if not all(map(holds_numbers, content.values())) and all(isinstance(each, dict) for each in content.values()):
        return with_runs([{ROW: key, **line} for key, line in content.items()])
    merged = dict[tuple[Any, ...], Line]()
    for place, scores in leaves(content, {}, SCORE):
        merged.setdefault((*sorted(place.items()),), {**place}).update(scores)
    return with_runs([*merged.values()])


def without_facts(content: Any) -> Any:
    """Return what an object holds beside facts: its only list of lines, or all but single values such as a date."""
    if not isinstance(content, dict):
        return content
    lines = [each for each in content.values() if is_lines(each)]
    if len(lines) == 1:
        return lines[0]
    large = {key: each for key, each in content.items() if isinstance(each, list | dict)}
    return without_facts(*large.values()) if len(large) == 1 else large


def is_lines(content: Any) -> bool:
    return isinstance(content, list) and bool(content) and all(isinstance(line, dict) for line in content)


def is_record(content: Any) -> bool:
    """Return whether an object is a line: it says in words which model, data set or the like it is of."""
    named = {key.rsplit("/", 1)[-1].lower() for key, value in flat(content) if isinstance(value, str)}
    return bool(named & COLUMNS)


def flat(content: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of an object, and those of objects in it, such as `config/lr`."""
    for key, value in content.items() if isinstance(content, dict) else ():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{before}{key}/")
        else:
            yield f"{before}{key}", value


def is_columns(content: Mapping[str, Any]) -> bool:
    """Return whether the keys of an object are columns, with lists of values or values by the number of their line."""
    numbered = all(isinstance(each, list) or all(map(str.isdecimal, each)) for each in content.values())
    columns = any(map(is_score, content)) or not all(map(holds_numbers, content.values()))
    return bool({key.lower() for key in content} & COLUMNS) or (numbered and columns)


def holds_numbers(content: Any) -> bool:
    if isinstance(content, list | dict):
        return bool(content) and all(map(holds_numbers, content.values() if isinstance(content, dict) else content))
    return content is None or isinstance(content, int | float)


def leaves(content: Any, place: Line, score: str) -> Iterator[tuple[Line, Line]]:
    """Yield the scores at the ends of nested objects, and each time the row, data set and seed that they are of."""
    if not isinstance(content, dict):
        yield place, {score: content}
        return
    values = {key: each for key, each in content.items() if key.lower() not in SUMMARIES | COUNTS}
    seeds = {key: match for key in values if (match := SEED.fullmatch(key))}
    if is_summary(content):
        yield place, {"n" if key.lower() in COUNTS else f"{score}_{key}": each for key, each in content.items()}
    elif len(seeds) == len(values):
        numbers = sorted(int(match[2]) for match in seeds.values())
        counted = numbers == [*range(numbers[0], numbers[0] + len(numbers))] and numbers[0] in (0, 1)
        for key, match in seeds.items():
            level = match[1].lower() or ("run" if counted else "seed")  # 0, 1, 2 only number the runs
            yield from leaves(content[key], place | {level: int(match[2])}, score)
    elif score == SCORE and ROW in place and not any(isinstance(each, dict) for each in content.values()):
        yield place, content
    elif score == SCORE and (all(map(is_summary, values.values())) or any(map(is_score, values))):
        for key, each in content.items():
            yield from leaves(each, place, key)
    else:
        level = ROW if ROW not in place else DATA
        if level in place:
            raise ValueError(f"below {' and '.join(map(str, place.values()))} is a third level of names; {EXPECTED}")
        for key, each in content.items():
            yield from leaves(each, place | {level: key}, score)


def is_summary(content: Any) -> bool:
    return isinstance(content, dict) and bool(content) and {key.lower() for key in content} <= SUMMARIES | COUNTS


def is_score(name: str) -> bool:
    return higher_is_better(name) is not None


def with_runs(lines: list[Line]) -> pd.DataFrame:
    """Turn lists of numbers, which have a value for each run, into a line for each."""
    if not any({"config", "summary"} <= {*line} for line in lines):  # as W&B's client writes them
        lines = [dict(flat(line)) for line in lines]
    keys = {key for line in lines for key in line}
    listed_keys = {key for key in keys if all(is_numbers(line[key]) for line in lines if key in line)}
    if not listed_keys:
        return pd.DataFrame(lines)
    found = list[Line]()
    for number, line in enumerate(lines, 1):
        runs = {"seed" if key == "seeds" else key: line[key] for key in line if key in listed_keys}
        others = {key: each for key, each in line.items() if key not in listed_keys and not is_derived(key)}
        if single := [key for key, each in others.items() if is_number(each) and is_result(key)]:
            told = f"{single[0]} is one number and {next(iter(runs))} a list of numbers"
            raise ValueError(f"object {number}: {told}; leave out the one that has no value for each run")
        if len({*map(len, runs.values())}) > 1:
            told = ", ".join(f"{key} {len(each)}" for key, each in sorted(runs.items()))
            raise ValueError(f"object {number} has lists of different lengths ({told}), which are not of the same runs")
        for run, values in enumerate(zip(*runs.values(), strict=True)):
            numbered = {} if "seed" in runs else {"run": run}
            found.append(others | numbered | dict(zip(runs, values, strict=True)))
    return pd.DataFrame(found)


def is_numbers(value: Any) -> bool:
    return (
        isinstance(value, list)
        and any(map(is_number, value))
        and all(each is None or is_number(each) for each in value)
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_derived(key: str) -> bool:
    return bool(SUMMARIES & {*words_of(key)})


def is_result(key: str) -> bool:
    """Return whether a number is surely a score, which all runs of a line cannot share, as they can a time or size."""
    return higher_is_better(key) is True or bool({*ENDINGS} & {*words_of(key)})


def named_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with its index as a column if it has names, such as those of models, and no numbers."""
    if all(str(name).lstrip("-").isdecimal() for name in frame.index):
        return frame
    return frame.rename_axis(ROW).reset_index()
