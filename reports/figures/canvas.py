"""What all pictures share: size, type, colours, names, and bytes that depend on nothing else."""

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
from reports.messages import Said, _, joined

WIDTH = 4.2  # inches: where 420 pixels show them, a letter of 7 points is 10 pixels high
# Okabe and Ito's palette: told apart with any colour vision; their yellow last, as it is faint as a line
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
BETTER, WORSE, GREY = COLOURS[0], COLOURS[1], "#666666"
STYLE = {
    "font.family": ["DejaVu Sans"],  # matplotlib brings it
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.08,  # with less, what stands outermost is cut by a pixel or two
    "figure.constrained_layout.w_pad": 0.08,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # publishers refuse the usual one
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "ablate",
    "text.parse_math": False,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
}
DATED = {".svg": ("Date", "Creator"), ".pdf": ("CreationDate", "Creator", "Producer"), ".png": ("Software",)}
NAMED = 12  # so many labels stand in a text beside a picture; of more, the first and the last
_kind: ContextVar[str] = ContextVar("kind", default="")  # the suffix of all pictures, where they should be of one kind


@dataclass(frozen=True)
class Figure:
    """A picture, where it lies from the report's folder, and what it shows."""

    path: str
    alt: Said


@contextmanager
def style(further: dict[str, str] | None = None) -> Iterator[None]:
    """Ours alone, whatever the machine has configured."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | (further or {}))
        yield


@contextmanager
def as_pdf() -> Iterator[None]:
    token = _kind.set(".pdf")
    try:
        yield
    finally:
        _kind.reset(token)


def canvas(height: float, width: float = WIDTH) -> Any:
    return Canvas(figsize=(width, height))


def save(drawn: Any, path: Path, alt: Said) -> Figure:
    """Written without a date or a version in it; whole, or not at all."""
    path = path.with_suffix(_kind.get() or path.suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        drawn.savefig(path, metadata=dict.fromkeys(DATED[path.suffix]))
    except Exception:
        path.unlink(missing_ok=True)
        raise
    return Figure(f"{path.parent.name}/{path.name}", alt)


def in_shown_unit(axis: Any, value: str) -> None:
    """The ticks of an axis of a score: shares in percent."""
    axis.set_major_formatter(lambda number, _place: f"{unit(value) * number:.4g}")


def drawable(names: list[str], kind: str) -> list[str]:
    """The names, or their numbers where the font that every installation has lacks one of their characters."""
    glyphs = get_font(findfont("DejaVu Sans")).get_charmap()
    whole = all(ord(character) in glyphs for name in names for character in name)
    return names if whole else [f"{kind} {number}" for number in range(1, len(names) + 1)]


def wrapped(text: str, width: int, lines: int = 2) -> str:
    """Broken to a width in letters; what is longer ends in an ellipsis."""
    return "\n".join(textwrap.wrap(text, width, max_lines=lines, placeholder=" …") or [""])


def labels_in_words(labels: list[str]) -> Said:
    """All of a few, the ends of many."""
    if len(labels) <= NAMED:
        return joined(labels, _(", "))
    count, first, last = len(labels), labels[0], labels[-1]
    return _("{count} configurations from {first} to {last}", count=count, first=first, last=last)


def renamed(labels: list[str], kind: str) -> Said:
    """Which label stands for which number, where the font could not draw them; else nothing."""
    shown, kind_said = drawable(labels, kind), KINDS.get(kind, kind)
    entries = [
        _("{kind} {number} {label}", kind=kind_said, number=number, label=label)
        for number, (drawn, label) in enumerate(zip(shown, labels, strict=True), 1)
        if drawn != label
    ]
    return _(" ({names})", names=joined(entries, _(", "))) if entries else ""


KINDS = {"row": _("row"), "section": _("section"), "class": _("class"), "configuration": _("configuration")}


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
logger = logging.getLogger(__name__)
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class LeftOut:
    """What stands in the place of a picture that could not be drawn."""

    kind: Said
    reason: str


def drawn_or_left_out(kind: Said, draw: Callable[[], Drawn]) -> Drawn | LeftOut:
    """The picture, or why there is none; the log has the whole error."""
    try:
        return draw()
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:  # that is no fault of the picture
            raise
        logger.warning("The report goes without one picture (%s).", kind, exc_info=error)
        said = error.strerror if isinstance(error, OSError) else str(error)  # which would name a path of this machine
        return LeftOut(kind, f"{type(error).__name__}: {said or 'no more is known'}")
