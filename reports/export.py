"""Tables for whoever wants to compute something else: results.parquet, results.csv, comparisons.csv, effects.csv."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
from pyarrow import csv, parquet

from reports.compare import RowScore, Section
from reports.load import SCORE, Results
from reports.markdown import symbol
from reports.section_effects import Effect

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


def write_comparisons(sections: Sequence[Section], folder: Path) -> None:
    """comparisons.csv: a line for each score of each row, with what it is compared with."""
    lines = [comparison_line(score, section) for section in sections for score in section.scores]
    pd.DataFrame(lines).to_csv(folder / "comparisons.csv", index=False)


def comparison_line(score: RowScore, section: Section) -> dict[str, object]:
    """Columns of what it is compared with are empty but for the verdict where that is nothing."""
    row, it = score.row, score.comparison
    judged = it if it and (it.tested or it.verdict in ("one seed", "no spread")) else None
    needs = it.needs if it else None
    return {
        "row": row.number, "position": row.position, "label": row.label, "variant": row.variant, "value": score.value,
        "higher": score.higher, "tested": score.tested, "complete": score.complete, "seeds": score.seeds,
        "mean": score.mean, "half_width": score.half_width, "margin": score.margin, "drawn": row.recorded.drawn,
        "against": it and it.against.label, "common": it and it.seeds, "difference": it and it.difference,
        "difference_half_width": it and it.half_width, "over_texts": it and it.by_text, "p": it and it.p,
        "verdict": score.verdict, "side": judged and judged.side, "unequal": judged and judged.unequal,
        "needs_seeds": needs and needs.seeds, "needs_texts": needs and needs.texts,
        "needs_both": needs and needs.together,
        "only_ours": json.dumps(it.only_ours) if it and it.only_ours else None,
        "only_theirs": json.dumps(it.only_theirs) if it and it.only_theirs else None,
        "mcnemar": json.dumps(it.mcnemar) if it and it.mcnemar else None,
        "improvement": it and it.improvement, "needs_seconds": it and it.needs_seconds, "bold": score.bold,
        "section": section.recorded.title, "detectable": section.detectable.get(score.value),
        "most_seeds": section.most_seeds, "ended": section.ended,
    }  # fmt: skip


def write_effects(sections: Sequence[tuple[Section, list[Effect]]], folder: Path) -> None:
    """effects.csv: a line for each axis, and each two together, of each score."""
    lines = [
        (section.recorded.title, effect.value, " × ".join(effect.factors), effect.df, effect.f, effect.p, effect.share,
         " × ".join(map(symbol, effect.factors)))
        for section, effects in sections
        for effect in effects
    ]  # fmt: skip
    columns = ["section", "value", "effect", "df", "F", "p", "share", "shown"]
    pd.DataFrame(lines, columns=columns).to_csv(folder / "effects.csv", index=False)
