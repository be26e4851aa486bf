"""The best score to be expected when so many of a section's rows are tried (Dodge et al., 2019)."""

from pathlib import Path

import numpy as np
import pandas as pd

from reports.compare import Section
from reports.figures import lines
from reports.figures.canvas import Figure, save, style
from reports.markdown import heading
from reports.messages import _
from reports.statistics import expected_best

FEWEST = 4  # rows: of fewer there is nothing to search


def draw_search(section: Section, path: Path) -> Figure | None:
    """By the first score that is compared; rows that lack a seed are left out."""
    value = next(iter(section.tested), "")
    scores = [score for score in section.scores if score.value == value and score.complete and not score.row.variant]
    if len(scores) < FEWEST:
        return None
    name = heading(value)
    table = reached(np.array([score.mean for score in scores]), scores[0].higher is not False)
    with style():
        panel = lines.LinePanel(f"expected best {name}", {0: table})
        drawn = lines.draw_lines([panel], [section.recorded.title], "rows tried", kind="section", scale="free")
        said = _("Expected best {value} against the number of rows that are drawn and tried", value=name)
        return save(drawn, path.with_name(f"{path.name}-search.svg"), said)


def reached(means: np.ndarray, higher: bool) -> pd.DataFrame:
    sign = 1 if higher else -1
    return pd.DataFrame({"best": sign * expected_best(sign * means)[0]}, index=np.arange(1, len(means) + 1))
