"""Figures with the same bytes from the same numbers: t-SNE grids, loss and gradient-norm curves."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font

from reports.load import Results
from reports.tables import unique

# Okabe and Ito's palette: told apart with any colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
STYLE = {
    "font.size": 9,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 110,
}
SMOOTHING = 10  # steps in the running mean of a curve


def tsne_grid(section: dict[str, Any], results: Results, path: Path) -> str | None:
    """One panel a configuration at its first seed, laid out as the section's table; returns the alt text."""
    panels = [row for row in section["rows"] if row["cells"][0] in results.tsne]
    if not panels:
        return None
    across = section["show"]["table"]["columns"]
    pivot = [row for row in panels if across in row["axes"]]
    width = len(unique(row["axes"][across] for row in pivot)) if pivot else min(3, len(panels))
    ordered = [row for row in panels if row not in pivot] + pivot
    first_line = [None] * ((-len([r for r in panels if r not in pivot])) % width) if pivot else []
    slots = [row for row in ordered if row not in pivot] + first_line + pivot
    height = -(-len(slots) // width)
    names = class_names(panels, results)
    drawn_texts = [results.tsne[row["cells"][0]] for row in ordered]
    first = next((arrays for arrays in drawn_texts if len(arrays["x"])), drawn_texts[0])
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(height, width, figsize=(2.6 * width, 2.6 * height + 0.4), squeeze=False)
        for axis in axes.flat:
            axis.set_axis_off()
        for axis, row in zip(axes.flat, slots, strict=False):
            if row is not None:
                panel(axis, row, results, first)
        handles = [
            plt.Line2D([], [], marker="o", linestyle="", markersize=5, color=COLOURS[i % len(COLOURS)], label=name)
            for i, name in enumerate(drawable(names))
        ]
        if handles:
            figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False)
        figure.tight_layout(rect=(0, 0.4 / (2.6 * height + 0.4), 1, 1))
        save(figure, path)
    seed = section["rows"][0]["seeds"][0]
    classes = ", ".join(f"{drawn} {name}" for drawn, name in zip(drawable(names), names, strict=True) if drawn != name)
    labels = ", ".join(row["label"] for row in ordered)
    caption = (
        f"{first['method']} of the embeddings, seed {seed}, each turned to agree with the first: {labels}; "
        "colour is the class"
    )
    return f"{caption} ({classes})" if classes else caption


def turned(arrays: dict[str, Any], first: dict[str, Any]) -> np.ndarray:
    """Coordinates turned and mirrored so that the texts of the first panel lie as there as far as they can.

    t-SNE and UMAP know distances only, and a turned start makes panels agree no better. Of other texts than the first's
    nothing can be turned.
    """
    _, here, there = np.intersect1d(arrays["ids"], first["ids"], return_indices=True)
    if len(here) < 2:
        return arrays["x"]
    own, other = (points - points.mean(0) for points in (arrays["x"][here], first["x"][there]))
    left, _, right = np.linalg.svd(own.T.astype(np.float64) @ other)
    return (arrays["x"] - arrays["x"][here].mean(0)) @ left @ right


def panel(axis: Any, row: dict[str, Any], results: Results, first: dict[str, Any]) -> None:
    arrays = results.tsne[row["cells"][0]]
    if len(arrays["x"]) == 0:  # too few texts, or collapsed embeddings
        axis.text(0.5, 0.5, str(arrays["reason"]), ha="center", va="center", wrap=True, fontsize=7)
        axis.set_title(row["label"], fontsize=8)
        return
    colours = [COLOURS[label % len(COLOURS)] for label in arrays["labels"]]
    axis.scatter(*turned(arrays, first).T, c=colours, s=3, alpha=0.7, linewidths=0)
    axis.set_title(row["label"], fontsize=8)


def drawable(names: list[str]) -> list[str]:
    """The names, or their numbers where the font that every installation has lacks one of their characters."""
    known = get_font(findfont("DejaVu Sans")).get_charmap()
    whole = all(ord(character) in known for name in names for character in name)
    return names if whole else [f"class {number}" for number in range(1, len(names) + 1)]


def class_names(rows: list[dict[str, Any]], results: Results) -> list[str]:
    """Of the classes that the panels show; none where they show several data sets."""
    known = (results.cells.loc[row["cells"][0], "provenance"] for row in rows)
    found = {tuple(provenance["class_counts"]["test"]) for provenance in known if provenance}
    return list(found.pop()) if len(found) == 1 else []


def curve_pair(section: dict[str, Any], results: Results, path: Path) -> str | None:
    """Training loss and gradient norm against the step: mean over seeds, in a band from the lowest to the highest."""
    known = results.curves[results.curves["cell"].isin([cell for row in section["rows"] for cell in row["cells"]])]
    if known.empty:
        return None
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.2))
        for axis, key, title in zip(axes, ("loss", "gradient_norm"), ("Training loss", "Gradient norm"), strict=True):
            for number, row in enumerate(section["rows"]):
                draw_curve(axis, known[(known["key"] == key) & known["cell"].isin(row["cells"])], number, row["label"])
            axis.set_xlabel("optimizer step")
            axis.set_title(title)
        axes[0].set_ylim(bottom=min(0, axes[0].get_ylim()[0]))
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), frameon=False, fontsize=8)
        figure.tight_layout(rect=(0, 0.07 * (1 + (len(labels) - 1) // 4), 1, 1))
        save(figure, path)
    labels_shown = ", ".join(row["label"] for row in section["rows"])
    return f"Training loss and gradient norm against the step (running mean over {SMOOTHING} steps): {labels_shown}"


def draw_curve(axis: Any, points: pd.DataFrame, number: int, label: str) -> None:
    if points.empty:
        return
    table = points.pivot_table(index="step", columns="cell", values="value").sort_index()
    smooth = table.rolling(SMOOTHING, min_periods=1).mean()
    colour, dash = COLOURS[number % len(COLOURS)], ("-", "--", ":", "-.")[number // len(COLOURS) % 4]
    axis.plot(smooth.index, smooth.mean(axis=1), color=colour, linestyle=dash, linewidth=1.4, label=label)
    axis.fill_between(smooth.index, smooth.min(axis=1), smooth.max(axis=1), color=colour, alpha=0.15, linewidth=0)


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)
