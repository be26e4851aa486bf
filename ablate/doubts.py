"""Tell readers how a table was read: which lines were left out, and which were taken for runs.

The kinds are those of READING in reports/guards/rows.py.
"""

import pandas as pd

from ablate.directions import words_of
from ablate.names import CHECKPOINTS, OF_RUNS, RUNS, SEED, all_named, free, is_score, label_of
from ablate.table import Columns, Table
from contrastive.errors import brief_name
from contrastive.grid.messages import comma_list

NAMES_OF_RUNS = [*SEED, *RUNS, "cell", "run_id", "trial_id"]
MANY = 100  # runs of a row, above which they are hardly trainings
NAMED = 3  # rows in a sentence
REPEATED = 4  # a column of a setting or a group has at most this share, 1/REPEATED, of different values
Doubts = dict[str, dict[str, object]]


def doubts(table: Table, columns: Columns, lines: pd.DataFrame) -> Doubts:
    """Return what readers should know, by kind. `lines`: the table as `verdicts.lines_of` returns it."""
    found = {**left_open(table, columns), **without_seeds(table, columns), **alike(lines)}
    return (
        found
        | same_lines(table, columns)
        | many_runs(lines, columns)
        | shared_values(table, columns)
        | uneven_values(table, columns)
    )


def left_open(table: Table, columns: Columns) -> Doubts:
    """Say which lines are left out because their run did not finish, and of which rows."""
    if not len(table.still_open):
        return {}
    states = table.still_open[table.state].fillna("").astype(str).str.strip().replace("", "empty")
    known = {*columns.row} <= {*table.still_open.columns}
    axes = table.still_open[[*dict.fromkeys(columns.row)]].to_dict("records") if known else []
    rows = comma_list([*dict.fromkeys(label_of({str(n): v for n, v in line.items()}) for line in axes)]) or "?"
    said = f"{table.state} {comma_list([*dict.fromkeys(states)])}"
    return {"open": {"count": len(table.still_open), "states": said, "rows": rows}}


def without_seeds(table: Table, columns: Columns) -> Doubts:
    """Say that lines of a row are taken for runs if no column has seeds, or numbers or names of each run."""
    known = columns.seed or columns.deviations or table.kinds
    frame = table.frame
    if known or not frame.duplicated(columns.groups).any():
        return {}
    named = [n for n in frame.columns if n in all_named(table, NAMES_OF_RUNS) or {*OF_RUNS} & {*words_of(n)}]
    numbered = any(not frame.duplicated([*columns.groups, name]).any() for name in named)
    return {} if numbered else {"no seeds": {}}


def alike(lines: pd.DataFrame) -> Doubts:
    """Say which rows have names that differ only in case, spaces, hyphens or underscores."""
    labels = lines["label"].drop_duplicates()
    same = labels[labels.str.casefold().str.replace(r"[\s_]|-(?!\d)", "", regex=True).duplicated(keep=False)]
    return {"alike": {"rows": comma_list(list(same))}} if len(same) else {}


def many_runs(lines: pd.DataFrame, columns: Columns) -> Doubts:
    """Say that a row has more lines than anybody trains."""
    if columns.deviations or columns.text or columns.folds:
        return {}
    most = int(lines.groupby(["section", "data", "label"], sort=False).size().max())
    return {"many": {"count": most}} if most >= MANY else {}


def shared_values(table: Table, columns: Columns) -> Doubts:
    """Name the unused columns that divide the lines of each row in groups; with seeds, in groups of equal size."""
    if columns.text or columns.deviations:
        return {}
    frame, found = table.frame, list[str]()
    for name in [*unused(table, columns), *all_named(table, CHECKPOINTS)]:
        rows = frame.groupby(columns.groups)[name]
        sizes = frame.groupby([*columns.groups, name]).size().groupby(columns.groups)
        equal = columns.seed is None or ((sizes.min() == sizes.max()) & (sizes.min() > 1)).all()
        if (rows.nunique() > 1).all() and (2 * rows.nunique() <= rows.size()).all() and equal:
            found.append(brief_name(name))
    return {"nested" if columns.seed else "shared": {"names": comma_list(found)}} if found else {}


def same_lines(table: Table, columns: Columns) -> Doubts:
    """Name two lines that are equal in all columns, among lines that no column of seeds or texts tells apart."""
    again = table.frame.duplicated()
    if columns.seed or columns.text or columns.deviations or not again.any():
        return {}
    texts = table.frame.astype(str)
    first = texts.index[(texts == texts[again].iloc[0]).all(axis=1)][0]
    return {"same": {"count": int(again.sum()), "first": first, "second": texts.index[again][0]}}


def uneven_values(table: Table, columns: Columns) -> Doubts:
    """Name an unused column with few values of which some rows have others, or more, than the rest."""
    frame = table.frame
    for name in unused(table, columns) if not columns.deviations else []:
        texts = frame[name].map(str)
        rows = texts.groupby([frame[key].map(str) for key in columns.groups])
        varies = (rows.nunique() > 1).any() and (rows.nunique() < rows.size()).any()
        sets = rows.agg(frozenset)
        if varies and REPEATED * texts.nunique() <= len(texts) and sets.nunique() > 1:
            shown = [f"{label}: {comma_list(sorted(own))}" for label, own in zip(labels(sets), sets, strict=True)]
            return {"uneven": {"names": brief_name(name), "rows": "; ".join(shown[:NAMED])}}
    return {}


def labels(rows: pd.Series) -> list[str]:
    return [" · ".join(key) if isinstance(key, tuple) else str(key) for key in rows.index]


def unused(table: Table, columns: Columns) -> list[str]:
    """Return the columns that were taken for nothing, but for scores."""
    words, numbers = free(table, columns)
    return [*words, *(name for name in numbers if not is_score(name))]
