"""The best score to be expected when so many of a section's configurations are tried (Dodge et al., 2019)."""

from pathlib import Path

import numpy as np
import pandas as pd

from contrastive.runs.recorded import RecordedSection
from reports.figures import lines
from reports.figures.canvas import Figure, labels_in_words, renamed, save, style, value_name
from reports.figures.costs import main_value
from reports.load import Results
from reports.messages import _
from reports.statistics import expected_best

FEWEST = 4  # configurations of a section: of fewer there is nothing to search


def draw_search(results: Results, path: Path) -> Figure | None:
    value, higher = main_value(results)
    sections = results.grid.sections
    tables = {
        number: reached(means, higher)
        for number, section in enumerate(sections)
        if len(means := mean_scores(section, value, results)) >= FEWEST
    }
    if not tables:
        return None
    titles = [section.title for section in sections]
    shown, others = labels_in_words([titles[number] for number in tables]), renamed(titles, "section")
    said = _(
        "Expected best {value} against the number of configurations drawn from a section and tried: {shown}{others}",
        value=value_name(value),
        shown=shown,
        others=others,
    )
    with style():
        drawn = lines.draw_lines(
            [lines.LinePanel(f"expected best {value_name(value)}", tables)],
            titles,
            "configurations tried",
            kind="section",
            scale="free",
        )
        return save(drawn, path.with_name(f"{path.name}-search.svg"), said)


def mean_scores(section: RecordedSection, value: str, results: Results) -> np.ndarray:
    """The mean over seeds of each configuration that has them all."""
    if value not in results.scores:
        return np.zeros(0)
    scores = dict(results.scores[value])
    means = np.array([np.mean([scores.get(cell, np.nan) for cell in row.cells]) for row in section.rows], float)
    return means[np.isfinite(means)]


def reached(means: np.ndarray, higher: bool) -> pd.DataFrame:
    sign = 1 if higher else -1
    return pd.DataFrame({"best": sign * expected_best(sign * means)[0]}, index=np.arange(1, len(means) + 1))
