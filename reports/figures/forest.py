"""Differences to the baseline with their intervals, over the band in which this design can find nothing."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports.compare import Comparison, RowScore, Section
from reports.figures.canvas import (
    BETTER,
    GREY,
    WORSE,
    Figure,
    canvas,
    drawable,
    labels_in_words,
    renamed,
    save,
    style,
    value_name,
    wrapped,
)
from reports.messages import Said, _, joined

LINES = 40  # of all panels together; a section with more shows its first value only
MOST = 60  # rows: of more, the table says it
LETTERS = 26  # of a label, in a line
# verdict → marker, colour, filled, words of the legend
MARKS: dict[str, tuple[str, str, bool, str]] = {
    "better": ("o", BETTER, True, "better"),
    "worse": ("s", WORSE, True, "worse"),
    "equivalent": ("D", GREY, True, "equivalent"),
    "undecided": ("o", GREY, False, "undecided"),
    "one seed": ("x", GREY, False, "no test possible"),
}


Compared = tuple[RowScore, Comparison]
Panel = tuple[str, list[Compared]]  # a score, and what is compared in it


def draw_forest(section: Section, path: Path) -> Figure | None:
    compared = [pair for pair in section.compared if np.isfinite(pair[1].difference)]
    if not compared:
        return None
    values = list(dict.fromkeys(score.value for score, _ in compared))
    panels = [(value, [pair for pair in compared if pair[0].value == value]) for value in values]
    if len(compared) > LINES:
        panels = panels[:1]
    if len(panels[0][1]) > MOST:
        return None
    labels = [row.label for row in section.rows]
    names = dict(zip(labels, drawable(labels, "row"), strict=True))
    with style():
        drawn = forest_figure(panels, names, section.detectable)
        said = forest_caption(panels, labels, section.detectable)
        return save(drawn, path.with_name(f"{path.name}-forest.svg"), said)


def forest_figure(panels: list[Panel], names: dict[str, str], detectable: dict[str, float | None]) -> Any:
    shown = [beside(compared, names) for _, compared in panels]
    heights = [0.11 * sum(1.6 + name.count("\n") for name in labels) + 0.55 for labels in shown]
    drawn = canvas(sum(heights) + 0.45)
    axes = drawn.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axis, (value, compared), labels in zip(axes, panels, shown, strict=True):
        forest_panel(axis, compared, labels, detectable.get(value))
        against, direction = others(compared, names), direction_in_words(compared[0][0])
        axis.set_title(f"{value_name(value)}, difference to {against}{direction}", loc="right")
    verdicts = {score.verdict for _, compared in panels for score, _ in compared}
    handles: list[Any] = [marked(verdict) for verdict in MARKS if verdict in verdicts]
    if any(detectable.get(value) is not None for value, _ in panels):
        handles.append(Patch(color="#DDDDDD", label="found less often than 4 times in 5"))
    said = "lines: 95 % intervals, of all differences together"
    drawn.legend(handles=handles, title=said, loc="outside lower center", ncols=3, handletextpad=0.4, columnspacing=1)
    return drawn


def marked(verdict: str) -> Any:
    marker, colour, filled, words = MARKS[verdict]
    face = colour if filled else "white"
    return Line2D([], [], color=colour, marker=marker, markersize=4, markerfacecolor=face, label=words)


def forest_panel(axis: Any, compared: list[Compared], names: list[str], detectable: float | None) -> None:
    """A line a row, the first on top; its numbers stand at the right."""
    steps = np.array([1.6 + name.count("\n") for name in names])
    places = -(np.cumsum(steps) - steps / 2)
    differences = np.array([comparison.difference for _, comparison in compared])
    widths = np.nan_to_num([comparison.half_width for _, comparison in compared])
    reach = float(np.abs(np.concatenate([differences - widths, differences + widths])).max()) * 1.08 or 1.0
    if detectable is not None:
        axis.axvspan(max(-detectable, -reach), min(detectable, reach), color="#DDDDDD", linewidth=0, zorder=0)
    axis.axvline(0, color="black", linewidth=0.6, zorder=1)
    for verdict, (marker, colour, filled, _words) in MARKS.items():
        own = np.array([score.verdict == verdict for score, _ in compared])
        face = colour if filled else "white"
        axis.errorbar(
            differences[own],
            places[own],
            xerr=widths[own],
            fmt=marker,
            color=colour,
            markersize=4,
            markerfacecolor=face,
        )
    axis.set(xlim=(-reach, reach), ylim=(-float(steps.sum()) - 0.3, 0.3))
    axis.set_yticks(places, names)
    axis.tick_params("y", length=0)
    axis.locator_params("x", nbins=5)
    numbers = axis.secondary_yaxis("right")
    numbers.set_yticks(places, [difference_text(each.difference, each.half_width) for _, each in compared])
    numbers.tick_params("y", length=0)
    numbers.spines["right"].set_visible(False)


def difference_text(difference: float, half_width: float) -> str:
    text = f"{difference:+.4f}" + (f" ± {half_width:.4f}" if np.isfinite(half_width) else "")
    return text.replace("-", "−")


def others(compared: list[Compared], names: dict[str, str]) -> str:
    """What the panel's rows are compared with, where it is one."""
    baselines = list(dict.fromkeys(comparison.against.label for _, comparison in compared))
    return wrapped(names[baselines[0]], 16, 1) if len(baselines) == 1 else "its baseline"


def direction_in_words(score: RowScore) -> str:
    return "" if score.higher is None else f" ({'higher' if score.higher else 'lower'} is better)"


def beside(compared: list[Compared], names: dict[str, str]) -> list[str]:
    """With what a row is compared with, where the rows have several baselines."""
    pairs = [(names[score.row.label], names[comparison.against.label]) for score, comparison in compared]
    several = len({other for _, other in pairs}) > 1
    return [wrapped(f"{name} – {other}" if several else name, LETTERS) for name, other in pairs]


def forest_caption(panels: list[Panel], labels: list[str], detectable: dict[str, float | None]) -> Said:
    names = labels_in_words([score.row.label for score, _compared in panels[0][1]])
    against = labels_in_words(list(dict.fromkeys(comparison.against.label for _score, comparison in panels[0][1])))
    values = joined([value_name(value) for value, _compared in panels], _(", "))
    numbers = renamed(labels, "row")
    if any(detectable.get(value) is not None for value, _compared in panels):
        return _(
            "Differences of {values} to {against}, with 95 % intervals and the band of differences that are found less "
            "often than 4 times in 5: {names}{numbers}",
            values=values, against=against, names=names, numbers=numbers,
        )  # fmt: skip
    return _(
        "Differences of {values} to {against}, with 95 % intervals: {names}{numbers}",
        values=values, against=against, names=names, numbers=numbers,
    )  # fmt: skip
