"""Sections as the report hands them to the page, from the sample experiment of the figures."""

from pathlib import Path
from typing import Any

import numpy as np

from reports import figures
from reports.bilingual import Words
from reports.load import Results
from tests.reports.figures import sample


def of(results: Results, folder: Path) -> list[dict[str, Any]]:
    found = []
    for number, section in enumerate(results.grid["sections"]):
        drawn = figures.draw(section, sample.comparisons(section, results), results, folder, f"section-{number}")
        first = section["rows"][0]["label"]
        found.append({
            "title": section["title"], "anchor": f"section-{number}", "note": section["note"], "rows": section["rows"],
            "guards": [Words(f"A guard of {first}.", f"对 {first} 的警告。")],
            "findings": [Words(f"Nothing beats {first}.", f"没有配置优于 {first}。")],
            "tables": [table(section, results)], "figures": drawn,
        })  # fmt: skip
    return found


def table(section: dict[str, Any], results: Results) -> dict[str, Any]:
    values = section["show"]["table"]["values"]
    rows = []
    for row in section["rows"]:
        label = {"text": row["label"], "value": None, "cells": [], "bold": False}
        rows.append([label, *(number(row, value, results) for value in values)])
    return {"caption": Words("Scores", "得分"), "head": ["Configuration", *values], "rows": rows}


def number(row: dict[str, Any], value: str, results: Results) -> dict[str, Any]:
    mean = float(results.scores[value].reindex(row["cells"]).mean())
    known = bool(np.isfinite(mean))
    return {"text": f"{mean:.4f}" if known else "–", "value": mean if known else None, "cells": row["cells"],
            "bold": mean > 0.75}  # fmt: skip
