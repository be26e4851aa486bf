"""Shared by all figures: size, fonts, colours, labels, and saving with reproducible bytes."""

import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import findfont, get_font

from reports.messages import _

WIDTH = 4.2  # inches: shown 420 pixels wide, a letter of 7 points is 10 pixels high
# Okabe and Ito's palette suits any colour vision; the yellow comes last, as it is faint in lines
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442", "#882255", "#999933")
BETTER, WORSE, GREY = COLOURS[0], COLOURS[1], "#666666"
STYLE = {
    "font.family": ["DejaVu Sans"],  # shipped with matplotlib
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.08,  # with less, the outermost labels are cut by a pixel or two
    "figure.constrained_layout.w_pad": 0.08,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # TrueType: publishers refuse the default, Type 3
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "ablate",
    "text.parse_math": False,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
}
DATED = {".svg": ("Date", "Creator"), ".pdf": ("CreationDate", "Creator", "Producer"), ".png": ("Software",)}
NAMED = 12  # most labels that an alternative text lists; of more it names the first and the last
_suffix: ContextVar[str] = ContextVar("suffix", default="")  # suffix of all pictures, if set


@dataclass(frozen=True)
class Figure:
    """A saved picture."""

    path: str  # relative to the report's folder
    alt: str  # alternative text
    caption: str = ""  # what it shows


@contextmanager
def style(overrides: dict[str, str] | None = None) -> Iterator[None]:
    """Draw in the report's style, whatever matplotlib's configuration on this machine."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | (overrides or {}))
        yield


@contextmanager
def as_pdf() -> Iterator[None]:
    """Save all pictures as PDF."""
    token = _suffix.set(".pdf")
    try:
        yield
    finally:
        _suffix.reset(token)


def blank(height: float, width: float = WIDTH) -> Any:
    return Canvas(figsize=(width, height))


def save(drawn: Any, path: Path, alt: str, caption: str = "") -> Figure:
    """Save a picture without date or version, so that its bytes are reproducible."""
    path = path.with_suffix(_suffix.get() or path.suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, metadata=dict.fromkeys(DATED[path.suffix]))
    return Figure(f"{path.parent.name}/{path.name}", alt, caption)


def drawable(names: list[str]) -> list[str]:
    """Return the names, or `1`, `2`, … if the font lacks one of their characters."""
    glyphs = get_font(findfont("DejaVu Sans")).get_charmap()
    complete = all(ord(character) in glyphs for name in names for character in name)
    return names if complete else [str(number) for number in range(1, len(names) + 1)]


def wrapped(text: str, width: int, lines: int = 2) -> str:
    """Wrap a text to `width` letters a line; a text of more than `lines` lines ends in an ellipsis."""
    parts = textwrap.wrap(text, width, max_lines=lines, placeholder=" …") or [""]
    if parts[-1] == "…":  # textwrap drops a word that is longer than a line
        parts[-1] = textwrap.wrap(text, width)[len(parts) - 1][: width - 1] + "…"
    return "\n".join(parts)


LEGEND = 76  # letters in a line of a legend


def legend_below(drawn: Any, handles: list[Any], names: list[str]) -> None:
    """Draw a legend below all panels of a figure that is laid out by constraints."""
    shown = [wrapped(name, LEGEND - 10, 1) for name in names]
    look = {"columnspacing": 1.2, "handlelength": 1.4}
    drawn.legend(handles, shown, loc="outside lower center", ncols=legend_columns(shown), **look)


def legend_columns(names: list[str]) -> int:
    return max(1, min(4, LEGEND // (max(map(len, names), default=1) + 5)))


def legend_height(names: list[str]) -> float:
    """Return the height of a legend in inches."""
    return 0.13 * -(-len(names) // legend_columns(names)) + 0.1


def labels_in_words(labels: list[str]) -> str:
    """List the labels, with the numbers that `drawable` gives them; of more than NAMED, the count, first and last."""
    if len(labels) > NAMED:
        ends = {"first": labels[0], "last": labels[-1]}
        return _("{count} configurations from {first} to {last}", count=len(labels), **ends)
    return _(", ").join(numbered(labels))


def numbered(labels: list[str]) -> list[str]:
    """Return the labels, each behind its number if `drawable` replaces them."""
    shown = zip(drawable(labels), labels, strict=True)
    return [label if name == label else f"{name} {label}" for name, label in shown]
