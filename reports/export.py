"""Write a report's numbers as files: answer.json, results.csv, comparisons.csv and means.csv."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from reports.compare import RowScore, Section
from reports.forest import ForestRow
from reports.overview import Overview
from reports.questions import Question
from reports.study import Results

PLACE = ["section", "row", "label", "variant"]
KNOWN = ["status", "score", "value", "standard_error", "count", "higher_is_better", "unit", "seconds"]
FORMULA = re.compile(r"'*[=+\-@\t\r]")  # begins what spreadsheets take for a formula, and what was one


def tidy(results: Results) -> pd.DataFrame:
    """Return one line per (section, row, seed, score), in the order of the report; a cell without scores has one line.

    `row` counts from 0 within its section. Each axis is a column `axis.NAME`, empty for rows that do not use it.
    """
    lines = []
    for section in results.study.sections:
        for number, row in enumerate(section.rows):
            axes = {f"axis.{name}": value for name, value in row.axes.items()}
            for cell, seed in zip(row.cells, row.seeds, strict=True):
                run = results.cells.get(cell)
                status = run.status if run else "missing"
                seconds = run.provenance.wall_seconds if run and run.provenance else None
                lines.append((section.title, number, row.label, seed, cell, status, seconds, axes))
    cells = pd.DataFrame(lines, columns=["section", "row", "label", "seed", "cell", "status", "seconds", "axes"])
    axes_of_cells = pd.DataFrame(cells.pop("axes").tolist(), dtype=object)
    frame = pd.concat([cells, axes_of_cells], axis=1).merge(scores_frame(results), on="cell", how="left", sort=False)
    if not results.study.paired:
        frame["seed"] = None  # numbers of runs, which would pair rows when the file is read again
    frame = frame.astype({"count": "Int64", "higher_is_better": "boolean"})
    return frame[[*PLACE, *sorted(axes_of_cells.columns), "seed", "cell", *KNOWN]]


def scores_frame(results: Results) -> pd.DataFrame:
    """Return the scores that MLflow has, in long form, with the columns that scores.json adds."""
    scores = results.scores[results.score_names].rename_axis(index="cell", columns="score")
    frame = pd.DataFrame({"value": scores.stack().dropna()}).reset_index()
    frame = frame.merge(results.measured.drop(columns="value"), on=["cell", "score"], how="left", sort=False)
    parts = [name.rpartition("/") for name in frame["score"]]
    return frame.assign(variant=[part[0] for part in parts], score=[part[2] for part in parts])


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table, with an apostrophe before texts that a spreadsheet would run as formulas (OWASP)."""
    texts = frame.select_dtypes(["object", "str"])
    frame.assign(**{str(name): texts[name].map(as_text) for name in texts}).to_csv(path, index=False)


def as_text(value: object) -> object:
    if not isinstance(value, str) or not FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def write_answer(summary: Overview, questions: Sequence[Question], folder: Path) -> None:
    """Write answer.json: the first screen's answers, its rows in display units, the lines of means.csv, and the next
    step."""
    rows = [
        {"question": group.title, "row": row.label, "against": row.against, **comparison_of(row)}
        | ({"settings": {part.label: comparison_of(part) for part in row.parts}} if row.parts else {})
        for group in summary.chart.groups
        for row in group.rows
        if row.against
    ]
    content = {
        "answers": [{"question": answer.question, "answer": answer.words} for answer in summary.answers],
        "score": summary.chart.score,
        "margin": summary.chart.margin,
        "rows": rows,
        "means": [{name: known(value) for name, value in line.items()} for line in mean_lines(questions)],
        "next": {"words": summary.next.words, "command": summary.next.command},
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (folder / "answer.json").write_text(f"{text}\n", encoding="utf-8")


def comparison_of(row: ForestRow) -> dict[str, object]:
    numbers = {"difference": row.difference, "half_width": row.half_width}
    return {"verdict": row.verdict} | {name: known(number) for name, number in numbers.items()}


def known(value: object) -> object:
    """Return None for numbers that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_comparisons(sections: Sequence[Section], folder: Path) -> None:
    """Write comparisons.csv: a line for each score of each row, with its comparison to the baseline."""
    lines = [comparison_line(score, section) for section in sections for score in section.scores]
    write_csv(pd.DataFrame(lines), folder / "comparisons.csv")


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
        "needs_both": needs and needs.together, "needs_seconds": pair and pair.needs_seconds, "bold": score.bold,
        "section": section.recorded.title, "most_seeds": section.most_seeds, "ended": section.ended,
    }  # fmt: skip


def write_means(questions: Sequence[Question], folder: Path) -> None:
    """Write means.csv, if questions are asked in several settings."""
    if lines := mean_lines(questions):
        write_csv(pd.DataFrame(lines), folder / "means.csv")


def mean_lines(questions: Sequence[Question]) -> list[dict[str, object]]:
    """Return a line for each row and score of questions that are asked in several settings."""
    return [
        {
            "question": question.title, "row": row.label, "against": row.against, "value": value,
            "data_sets": question.data_sets, "settings": len(row.scores), "difference": row.mean.difference,
            "half_width": row.mean.half_width, "p": row.mean.p, "verdict": row.verdict,
            "better": row.count("better"), "worse": row.count("worse"),
            "general_half_width": row.mean.general, "general": row.general,
            "prediction_half_width": row.mean.prediction,
            "without": row.left_out, "without_difference": row.without and row.without.difference,
            "without_half_width": row.without and row.without.half_width,
        }
        for question in questions
        for value, rows in question.means.items()
        for row in rows
    ]  # fmt: skip
