"""Shared by all figures: size, fonts, colours, labels, saving with reproducible bytes, and errors while drawing."""

import errno
import logging
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import findfont, get_font

from reports.markdown import unit
from reports.messages import N_, _

WIDTH = 4.2  # inches: shown 420 pixels wide, a letter of 7 points is 10 pixels high
# Okabe and Ito's palette suits any colour vision; the yellow comes last, as it is faint in lines
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
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
class Marks:
    """Images in a figure, which the page shows larger; lengths in hundredths of an inch, from the upper left."""

    size: tuple[int, int]  # of the figure
    cards: dict[int, tuple[str, str, str]]  # address, colour and class of each image
    places: list[tuple[int, tuple[int, int], tuple[int, int]]]  # number of a card, corner of its mark, of the card
    side: int  # of a mark
    large: int  # of the image on a card


@dataclass(frozen=True)
class Figure:
    """A saved picture."""

    path: str  # relative to the report's folder
    alt: str  # alternative text
    caption: str = ""  # what it shows
    marks: Marks | None = None


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


def canvas(height: float, width: float = WIDTH) -> Any:
    return Canvas(figsize=(width, height))


def save(drawn: Any, path: Path, alt: str, caption: str = "") -> Figure:
    """Save a picture without date or version, so that its bytes are reproducible; remove it if writing fails."""
    path = path.with_suffix(_suffix.get() or path.suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        drawn.savefig(path, metadata=dict.fromkeys(DATED[path.suffix]))
    except Exception:
        path.unlink(missing_ok=True)
        raise
    return Figure(f"{path.parent.name}/{path.name}", alt, caption)


def in_shown_unit(axis: Any, value: str) -> None:
    """Label the ticks of a score's axis in its display unit: shares in percent."""
    axis.set_major_formatter(lambda number, _position: f"{unit(value) * number:.4g}")


def drawable(names: list[str], kind: str) -> list[str]:
    """Return the names, or `row 1`, `row 2`, … if the font lacks one of their characters."""
    glyphs = get_font(findfont("DejaVu Sans")).get_charmap()
    complete = all(ord(character) in glyphs for name in names for character in name)
    return names if complete else [f"{kind} {number}" for number in range(1, len(names) + 1)]


def wrapped(text: str, width: int, lines: int = 2) -> str:
    """Wrap a text to `width` letters a line; a text of more than `lines` lines ends in an ellipsis."""
    found = textwrap.wrap(text, width, max_lines=lines, placeholder=" …") or [""]
    if found[-1] == "…":  # textwrap drops a word that is longer than a line
        found[-1] = textwrap.wrap(text, width)[len(found) - 1][: width - 1] + "…"
    return "\n".join(found)


def labels_in_words(labels: list[str]) -> str:
    """List up to NAMED labels; of more, name the count, the first and the last."""
    if len(labels) <= NAMED:
        return _(", ").join(labels)
    count, first, last = len(labels), labels[0], labels[-1]
    return _("{count} configurations from {first} to {last}", count=count, first=first, last=last)


def renamed(labels: list[str], kind: str) -> str:
    """List which number stands for which label that `drawable` replaced; empty if it replaced none."""
    shown, kind_name = drawable(labels, kind), _(KINDS.get(kind, kind))
    entries = [
        _("{kind} {number} {label}", kind=kind_name, number=number, label=label)
        for number, (drawn, label) in enumerate(zip(shown, labels, strict=True), 1)
        if drawn != label
    ]
    return _(" ({names})", names=_(", ").join(entries)) if entries else ""


KINDS = {"row": N_("row"), "section": N_("section"), "class": N_("class"), "configuration": N_("configuration")}


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
logger = logging.getLogger(__name__)
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class LeftOut:
    """A picture that could not be drawn; the report shows the reason in its place."""

    kind: str
    reason: str


def drawn_or_left_out(kind: str, draw: Callable[[], Drawn]) -> Drawn | LeftOut:
    """Return the picture, or the reason why drawing failed; raise OSError if the disk is full or read-only."""
    try:
        return draw()
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:  # not the picture's fault: nothing can be written
            raise
        logger.warning("A picture could not be drawn and is left out of the report (%s).", kind, exc_info=error)
        # str() of an OSError would put a path of this machine into the report
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return LeftOut(kind, f"{type(error).__name__}: {reason or 'no more is known'}")
