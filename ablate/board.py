"""Questions of a board: which rows cannot be told from the first, which records hold, what the texts alone allow."""

import math
import re
import warnings
from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
import pandas as pd

from ablate.names import number_of
from ablate.table import Columns, Table
from contrastive.errors import UserError, brief_name
from contrastive.grid.messages import comma_list, nearest_name

IN_TABLE = "table"  # the order in which rows first occur
SLASHED = re.compile(r"(\d{1,2})([/.])(\d{1,2})[/.]\d{4}\b")  # 05/03/2026 or 05.03.2026
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
Key = TypeVar("Key", bound=Hashable)


def check_board(table: Table, columns: Columns, lines: pd.DataFrame, option: str, baseline: str | None) -> None:
    """Raise UserError for a board of several scores or data sets, or with a baseline."""
    if baseline is not None:
        raise UserError(f"{option} chooses what each row is compared with; leave out --baseline, or {option}")
    if len(columns.scores) > 1:
        raise UserError(
            f"{option} ranks by one score; name it: --score {columns.scores[0]} ({comma_list(columns.scores)})"
        )
    for name, kind in ((columns.data, "data"), (columns.section, "section")):
        if name and lines[kind].nunique() > 1:
            raise UserError(f"{table.name}: {option} ranks rows of one {name}; keep the lines of one")


def ties(groups: Mapping[Key, pd.DataFrame], higher: bool) -> list[tuple[Key, int | None]]:
    """Return the rows, the best first, and the number of the row that each is compared with: the first."""
    means = {key: score_of(runs, higher) for key, runs in groups.items()}
    ordered = sorted(groups, key=lambda key: -np.nan_to_num(means[key], nan=-np.inf))
    return [(key, 0 if number else None) for number, key in enumerate(ordered)]


def records(groups: Mapping[Key, pd.DataFrame], higher: bool, order: str, table: Table) -> list[tuple[Key, int | None]]:
    """Return the rows in their order, and the number of the best row before each."""
    places = {key: position_of(runs, order, table) for key, runs in groups.items()}
    found, best, record = list[tuple[Key, int | None]](), None, -math.inf
    for number, key in enumerate(sorted(groups, key=lambda key: places[key])):
        found.append((key, best))
        if (mean := score_of(groups[key], higher)) > record:
            best, record = number, mean
    return found


def score_of(runs: pd.DataFrame, higher: bool) -> float:
    return float(runs[0].mean()) * (1 if higher else -1)


def position_of(runs: pd.DataFrame, order: str, table: Table) -> float:
    """Return the place of a row in the order of the table, or by its first value in a column of dates or numbers."""
    if order == IN_TABLE:
        return float(runs.index.min())
    if order not in table.frame.columns:
        hint = nearest_name(order, [IN_TABLE, *map(str, table.frame.columns)])
        raise UserError(
            f"{table.name} has no column {brief_name(order)}{hint}; --records table keeps the table's order"
        )
    column = by_place(table, order)
    if len({number_of(value) is None for value in column.values()}) > 1:
        raise UserError(f"{table.name}: {order} has dates and numbers; write all as dates, such as 2026-03-05")
    first = day_first(table, order, column)
    return min(point_in_time(column[place], f"{table.name}, {place}: {order}", first) for place in runs["place"])


def by_place(table: Table, column: str) -> dict[str, object]:
    """Return a column by line; the lines that a mean became have the same value."""
    return dict(zip(map(str, table.frame.index), table.frame[column], strict=True))


def day_first(table: Table, order: str, column: Mapping[str, object]) -> bool:
    """Return whether dates such as 13/04/2026 begin with the day, by those that can be read in one way only."""
    found = [(place, match) for place, value in column.items() if (match := SLASHED.match(str(value)))]
    if any(int(match[1]) > 12 for _, match in found) or all(match[2] == "." for _, match in found):
        return True
    if not any(int(match[3]) > 12 for _, match in found):
        place, match = found[0]
        raise UserError(
            f"{table.name}, {place}: {order} is `{match[0]}`, of which day or month may be first; write 2026-03-05"
        )
    return False


def point_in_time(value: object, where: str, first: bool) -> float:
    number = number_of(value)
    if number is None:
        with warnings.catch_warnings(action="ignore"):  # of dates that are read as what they must be
            date = pd.to_datetime(
                str(value), errors="coerce", utc=True, dayfirst=first and bool(SLASHED.match(str(value)))
            )
        number = math.nan if pd.isna(date) else date.timestamp()
    if math.isnan(number):
        raise UserError(f"{where} is `{brief_name(value)}`, neither a date nor a number")
    return number


def texts_by_cell(given: str, lines: pd.DataFrame, table: Table) -> dict[str, float]:
    """Return the number of test texts of each run: one number for all, or a column."""
    number = number_of(given.replace(",", "") if THOUSANDS.fullmatch(given) else given)
    if number is None and given not in table.frame.columns:
        hint = nearest_name(given, map(str, table.frame.columns))
        raise UserError(f"--texts {brief_name(given)}: give a number of test texts, or a column of them{hint}")
    column = {} if number is not None else by_place(table, given)
    found = {
        cell: number if number is not None else number_of(column[place])
        for cell, place in zip(lines["cell"], lines["place"], strict=True)
    }
    if bad := [count for count in found.values() if count is None or not 1 <= count < math.inf or count % 1]:
        raise UserError(f"--texts {brief_name(given)}: `{brief_name(bad[0])}` is no number of texts")
    return {cell: float(count or 0) for cell, count in found.items()}
