"""The results as one tidy table, for whoever wants to compute something else: results.parquet and results.csv."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
from pyarrow import csv, parquet

from reports.load import SCORE, Results

PLACE = ["section", "row", "label", "variant"]
KNOWN = ["status", "score", "value", "standard_error", "count", "higher_is_better", "unit", "seconds"]
PASSING = ["run_id"]  # a store that is made again has others: `cell` names the run in any


def tidy(results: Results) -> pd.DataFrame:
    """A row a (section, row, seed, score), in the order of the report; a cell without scores has one without any.

    `row` counts within its section from 0. Each axis is a column `axis.NAME`, empty for rows that do not read it.
    """
    shown = pd.DataFrame(places(results))
    frame = shown.merge(scores_frame(results), on="cell", how="left", sort=False)
    axes = sorted(name for name in shown.columns if name.startswith("axis."))
    for axis in axes:
        frame[axis] = plain_column(frame[axis])
    frame = frame.astype({"count": "Int64", "higher_is_better": "boolean"})
    return frame[[*PLACE, *axes, "seed", "cell", *PASSING, *KNOWN]]


def places(results: Results) -> list[dict[str, Any]]:
    """Each cell where a section shows it."""
    return [
        {
            "section": section.title,
            "row": number,
            "label": row.label,
            "seed": seed,
            "cell": cell,
            "run_id": held.run_id if held else None,
            "status": held.status if held else "missing",
            "seconds": held.provenance.wall_seconds if held and held.provenance else None,
        }
        | {f"axis.{name}": value for name, value in row.axes.items()}
        for section in results.grid.sections
        for number, row in enumerate(section.rows)
        for cell, seed in zip(row.cells, row.seeds, strict=True)
        for held in [results.cells.get(cell)]
    ]


def scores_frame(results: Results) -> pd.DataFrame:
    """The scores as MLflow holds them, which tables show, with what scores.json says of each."""
    names = [name for name in results.scores.columns if SCORE.match(name)]
    held = results.scores[names].rename_axis("cell").reset_index()
    held = held.melt("cell", var_name="score", value_name="value").dropna(subset="value")
    frame = held.merge(results.measured.drop(columns="value"), on=["cell", "score"], how="left", sort=False)
    parts = [name.rpartition("/") for name in frame["score"]]
    return frame.assign(variant=[part[0] for part in parts], score=[part[2] for part in parts])


def plain_column(values: pd.Series) -> pd.Series:
    """Numbers where all are; texts else: a column has one type."""
    numbers = pd.to_numeric(values, errors="coerce")
    if numbers.notna().equals(values.notna()):
        return numbers
    return values.map(str, na_action="ignore")


def write_tables(frame: pd.DataFrame, folder: Path) -> None:
    """Both files, byte for byte the same from the same results, also of a store of MLflow that was made again."""
    table = pyarrow.Table.from_pandas(frame.drop(columns=PASSING), preserve_index=False)
    table = table.replace_schema_metadata(None)  # which tells versions
    parquet.write_table(table, folder / "results.parquet", compression="zstd")
    csv.write_csv(table, folder / "results.csv")
