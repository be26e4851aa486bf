"""Read JSON as a table: a list of objects, an object of columns as pandas writes it, or results under their names.

Results under their names are what scripts dump: `{"bert": {"accuracy": [0.9, 0.8]}}`, `{"bert": {"0": 0.9}}`,
`{"bert": [{"seed": 0, "accuracy": 0.9}]}`, each also as the only list in an object of other facts.
"""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from ablate.directions import higher_is_better, listed, words_of

ROW, RUN, SCORE = "row", "run", "score"
# Keys of columns, beside names of scores. Keys of other words are names of rows.
COLUMNS = {*listed("""
    algorithm algo approach arm config configuration data dataset epoch experiment id index iteration label method
    metric model name row run score seed setting split step system task text trial value variant
""")}  # fmt: skip

SUMMARIES = {"mean", "average", "avg", "median", "std", "stddev", "sd", "sem", "min", "max", "best"}  # beside the runs


def frame_of(text: str) -> pd.DataFrame:
    """Return the table in a JSON text; raise ValueError if there is none."""
    content = lines_in(json.loads(text))
    if (
        isinstance(content, dict)
        and len(content) > 1
        and all(isinstance(each, list | dict) for each in content.values())
    ):
        content = [*by_name(content)] if is_by_name(content) else content
        return with_runs(content) if isinstance(content, list) else named_index(pd.DataFrame(content))
    if is_lines(content):
        return with_runs(content)
    raise ValueError('expected a list of objects such as {"model": "a", "seed": 0, "acc": 0.8}')


def lines_in(content: Any) -> Any:
    """Return the list of objects that stands alone among other facts, such as hyperfine's `results`."""
    found = [each for each in content.values() if is_lines(each)] if isinstance(content, dict) else []
    return found[0] if len(found) == 1 else content


def is_lines(content: Any) -> bool:
    return isinstance(content, list) and bool(content) and all(isinstance(line, dict) for line in content)


def is_by_name(content: dict[str, Any]) -> bool:
    """Return whether the keys of an object name rows: what is below them are numbers, scores or lines."""
    if all(map(is_lines, content.values())):
        return True
    columns = any(key.lower() in COLUMNS or higher_is_better(key) is not None for key in content)
    return not columns and all(map(holds_numbers, content.values()))


def holds_numbers(content: Any) -> bool:
    below = content.values() if isinstance(content, dict) else content if isinstance(content, list) else None
    if below is None:
        return content is None or isinstance(content, int | float)
    return bool(below) and all(map(holds_numbers, below))


def by_name(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the lines of each row: of lists of lines, of scores, of data sets or seeds with their scores, of runs."""
    for row, below in content.items():
        if is_lines(below):
            yield from ({ROW: row} | line for line in below)
        elif isinstance(below, list):
            yield {ROW: row, SCORE: below}
        elif any(isinstance(each, dict) for each in below.values()):
            level = "seed" if all(key.isdecimal() for key in below) else "dataset"
            yield from (
                {ROW: row, level: key} | (each if isinstance(each, dict) else {}) for key, each in below.items()
            )
        elif all(key.isdecimal() for key in below):
            yield from ({ROW: row, "seed": int(key), SCORE: each} for key, each in below.items())
        else:
            yield {ROW: row} | below


def with_runs(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """Turn lists of numbers, which have a value for each run, into a line for each."""
    is_run = {key for key in lines[0] if all(is_numbers(line.get(key)) for line in lines)}
    if not is_run or RUN in lines[0]:
        return pd.DataFrame(lines)
    found = list[dict[str, Any]]()
    for number, line in enumerate(lines, 1):
        counts = {key: len(line[key]) for key in is_run}
        if len({*counts.values()}) > 1:
            told = ", ".join(f"{key} {count}" for key, count in sorted(counts.items()))
            raise ValueError(
                f"object {number} has lists of different lengths ({told}), which are no values of the same runs"
            )
        others = {key: value for key, value in line.items() if key not in is_run and not SUMMARIES & {*words_of(key)}}
        for run in range(next(iter(counts.values()))):
            found.append(others | {RUN: run} | {key: line[key][run] for key in line if key in is_run})
    return pd.DataFrame(found)


def is_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, int | float) for each in value)


def named_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with its index as a column if it has names, such as those of models, and no numbers."""
    if all(str(name).lstrip("-").isdecimal() for name in frame.index):
        return frame
    return frame.rename_axis(ROW).reset_index()
