"""Write a report's numbers as files: results.csv, comparisons.csv, effects.csv, and results.parquet with pyarrow."""

import json
import math
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reports.compare import RowScore, Section
from reports.markdown import symbol
from reports.statistics.effects import Effect
from reports.study import Results

PLACE = ["section", "row", "label", "variant"]
KNOWN = ["status", "score", "value", "standard_error", "count", "higher_is_better", "unit", "seconds"]
PARQUET = find_spec("pyarrow") is not None  # part of the extra `train`
FORMULA = re.compile(r"'*[=+\-@\t\r]")  # begins what spreadsheets take for a formula, and what was one


def tidy(results: Results) -> pd.DataFrame:
    """Return one line per (section, row, seed, score), in the order of the report; a cell without scores has one line.

    `row` counts from 0 within its section. Each axis is a column `axis.NAME`, empty for rows that do not use it.
    """
    shown = pd.DataFrame(shown_cells(results))
    frame = shown.merge(scores_frame(results), on="cell", how="left", sort=False)
    axes = sorted(name for name in shown.columns if name.startswith("axis."))
    for axis in axes:
        numbers = pd.to_numeric(frame[axis], errors="coerce")
        all_numbers = numbers.notna().equals(frame[axis].notna())
        frame[axis] = numbers if all_numbers else frame[axis].map(str, na_action="ignore")
    if not results.study.paired:
        frame["seed"] = None  # numbers of runs, which would pair rows when the file is read again
    fits = all(abs(seed) < 2**63 for seed in frame["seed"].dropna())  # else seeds are texts
    frame = frame.astype({"seed": "Int64" if fits else str, "count": "Int64", "higher_is_better": "boolean"})
    return frame[[*PLACE, *axes, "seed", "cell", *KNOWN]]


def shown_cells(results: Results) -> list[dict[str, Any]]:
    """Return a record for each cell of each section, with its row, status and axes."""
    return [
        {
            "section": section.title,
            "row": number,
            "label": row.label,
            "seed": seed,
            "cell": cell,
            "status": run.status if run else "missing",
            "seconds": run.provenance.wall_seconds if run and run.provenance else None,
        }
        | {f"axis.{name}": value for name, value in row.axes.items()}
        for section in results.study.sections
        for number, row in enumerate(section.rows)
        for cell, seed in zip(row.cells, row.seeds, strict=True)
        for run in [results.cells.get(cell)]
    ]


def scores_frame(results: Results) -> pd.DataFrame:
    """Return the scores that MLflow has, in long form, with the columns that scores.json adds."""
    names = dict(enumerate(results.score_names))  # scores may be called as a column, such as value or cell
    scores = results.scores[[*names.values()]].set_axis([*names], axis=1).rename_axis("cell").reset_index()
    scores = scores.melt("cell", var_name="score", value_name="value").dropna(subset="value")
    scores["score"] = scores["score"].map(names).astype(object)
    frame = scores.merge(results.measured.drop(columns="value"), on=["cell", "score"], how="left", sort=False)
    parts = [name.rpartition("/") for name in frame["score"]]
    return frame.assign(variant=[part[0] for part in parts], score=[part[2] for part in parts])


def write_tables(frame: pd.DataFrame, folder: Path) -> None:
    """Write results.csv, and with pyarrow results.parquet, byte for byte the same from the same results."""
    texts = without_formulas(frame)
    if PARQUET:
        write_by_pyarrow(frame, texts, folder)
    else:
        (folder / "results.csv").write_text(csv_of(texts), encoding="utf-8")


def write_by_pyarrow(frame: pd.DataFrame, texts: pd.DataFrame, folder: Path) -> None:
    import pyarrow
    from pyarrow import csv, parquet

    tables = [pyarrow.Table.from_pandas(each, preserve_index=False) for each in (frame, texts)]
    table, text = (table.replace_schema_metadata(None) for table in tables)  # it holds versions of pandas and pyarrow
    parquet.write_table(table, folder / "results.parquet", compression="zstd")
    csv.write_csv(text, folder / "results.csv")


def csv_of(frame: pd.DataFrame) -> str:
    """Return the CSV that pyarrow writes, which takes a tenth of the time."""
    columns = [[csv_text(name), *map(csv_text, frame[name].tolist())] for name in frame]
    return "".join(",".join(line) + "\n" for line in zip(*columns, strict=True))


def csv_text(value: Any) -> str:
    """Return a value as pyarrow writes it: texts in quotes, nothing for a missing value, the shortest number."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    if value is None or value is pd.NA or value != value:
        return ""
    if not isinstance(value, float):
        return str(value).lower()
    if not value or 1e-4 <= abs(value) < 1e10 or math.isinf(value):
        return float.__repr__(value).removesuffix(".0")
    if 1e-6 <= abs(value) < 1e-4:
        return np.format_float_positional(value, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1)


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table for CSV, with an apostrophe before texts that a spreadsheet would run as formulas (OWASP)."""
    texts = frame.select_dtypes(["object", "str"])
    return frame.assign(**{str(name): texts[name].map(as_text) for name in texts})


def as_text(value: object) -> object:
    if not isinstance(value, str) or not FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def as_was(value: object) -> object:
    """Return a value of our CSV files without the apostrophe that was put before it."""
    return value[1:] if isinstance(value, str) and value.startswith("'") and FORMULA.match(value) else value


def write_comparisons(sections: Sequence[Section], folder: Path) -> None:
    """Write comparisons.csv: a line for each score of each row, with its comparison to the baseline."""
    lines = [comparison_line(score, section) for section in sections for score in section.scores]
    without_formulas(pd.DataFrame(lines)).to_csv(folder / "comparisons.csv", index=False)


def comparison_line(score: RowScore, section: Section) -> dict[str, object]:
    """Return a line of comparisons.csv; without a comparison, its columns except the verdict are empty."""
    row, pair = score.row, score.comparison
    judged = pair if pair and (pair.tested or pair.verdict in ("one seed", "no spread")) else None
    needs = pair.needs if pair else None
    return {
        "row": row.number, "position": row.position, "label": row.label, "variant": row.variant, "value": score.value,
        "higher": score.higher, "tested": score.tested, "complete": score.complete, "seeds": score.seeds,
        "mean": score.mean, "deviation": score.deviation, "margin": score.margin, "drawn": row.recorded.drawn,
        "against": pair and pair.against.label, "common": pair and pair.seeds, "difference": pair and pair.difference,
        "difference_half_width": pair and pair.half_width, "standard_error": pair and pair.standard_error,
        "over_texts": pair and pair.by_text, "p": pair and pair.p,
        "verdict": score.verdict, "side": judged and judged.side, "unequal": judged and judged.unequal,
        "needs_seeds": needs and needs.seeds, "needs_texts": needs and needs.texts,
        "needs_both": needs and needs.together,
        "only_ours": json.dumps(pair.only_ours) if pair and pair.only_ours else None,
        "only_theirs": json.dumps(pair.only_theirs) if pair and pair.only_theirs else None,
        "mcnemar": json.dumps(pair.mcnemar) if pair and pair.mcnemar else None,
        "improvement": pair and pair.improvement, "needs_seconds": pair and pair.needs_seconds, "bold": score.bold,
        "section": section.recorded.title, "detectable": section.detectable.get(score.value),
        "most_seeds": section.most_seeds, "ended": section.ended,
    }  # fmt: skip


def write_effects(sections: Sequence[tuple[Section, list[Effect]]], folder: Path) -> None:
    """Write effects.csv: for each score a line for each axis and each interaction of two."""
    lines = [
        (section.recorded.title, effect.value, " × ".join(effect.factors), effect.df, effect.f, effect.p, effect.share,
         " × ".join(map(symbol, effect.factors)))
        for section, effects in sections
        for effect in effects
    ]  # fmt: skip
    columns = ["section", "value", "effect", "df", "F", "p", "share", "shown"]
    without_formulas(pd.DataFrame(lines, columns=columns)).to_csv(folder / "effects.csv", index=False)
