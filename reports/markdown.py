"""Format texts and numbers for a report: Markdown escapes, tables, units, rounding to the interval's digits."""

import html
import math
import re
from collections.abc import Sequence
from statistics import median_low

from contrastive.config.scores import score_facts
from contrastive.errors import printable
from reports.messages import N_, _, n_

MISSING = "–"
MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_")  # an underscore within a word is not markup
BLOCK = re.compile(r"^(\s*)(?=(?:#{1,6}|[+-]|=+|-{3,})(?:\s|$))|^(\s*\d+)(?=[.)](?:\s|$))")

TINY = 1e-4  # below this, sizes are written with an exponent


def plain(text: object) -> str:
    """Escape a text of data or configuration, so that Markdown shows it literally."""
    shown = html.escape(MARKUP.sub(r"\\\g<0>", line(str(text))), quote=False)
    return BLOCK.sub(lambda match: match[0] + "\\", shown)


def code(text: str) -> str:
    """Format a text as Markdown code, fenced by more backticks than it contains in a row."""
    shown = line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def line(text: str) -> str:
    """Put a text on one line, without invisible or text-reversing characters."""
    return printable(re.sub(r"\s+", " ", text))


def unit(value: str) -> float:
    """Return the factor for display: 100 for a share, shown in percent, else 1."""
    return 100.0 if score_facts(value).width == 1.0 else 1.0


def score_text(value: str, mean: float, deviation: float = math.nan, places: int | None = None) -> str:
    """Format a mean and its standard deviation over seeds in display units, such as `68.6 (1.0)`, to `places` if these
    are given."""
    mean, deviation = unit(value) * mean, unit(value) * deviation
    if not math.isfinite(mean):
        return MISSING
    if places is None and 0 < deviation < TINY:
        return f"{mean:.3g} ({deviation:.2g})"
    if places is None and deviation >= 0:
        places = digits(deviation) if deviation > 0 else 2 if unit(value) > 1 else 4
    rough = f"{mean:.4g}" if unit(value) == 1 else fixed(mean, 2)
    text = rough if places is None else fixed(mean, places)
    return f"{text} ({fixed(deviation, places or 0)})" if math.isfinite(deviation) else text


def most_of(value: str) -> float:
    """Return the largest possible difference of a score, in display units."""
    return unit(value) * score_facts(value).width


def difference_text(
    difference: float, half_width: float = math.nan, most: float = math.inf, places: int | None = None
) -> str:
    """Format a difference such as `+2.0 ± 1.4`, in display units, to `places` if these are given; `most` is the largest
    one possible."""
    if most < half_width < math.inf:
        return f"{signed(difference, 0)} ± > {most:.0f}"
    if not math.isfinite(half_width):
        return signed(difference, (2 if abs(difference) < 10 else 1) if places is None else places)
    if 0 < half_width < TINY:
        return f"{difference:+.3g} ± {half_width:.2g}".replace("-", "−")
    places = digits(half_width) if places is None else places
    return f"{signed(difference, places)} ± {fixed(half_width, places)}"


def common_places(numbers: Sequence[tuple[float, float]]) -> int | None:
    """Return the decimal places of a column of (difference, half-width): two significant digits of the median
    half-width, and more where an interval without 0 would be rounded to one with it. None without half-widths."""
    sized = [(abs(number), half_width) for number, half_width in numbers if TINY <= half_width < math.inf]
    if not sized:
        return None
    places = median_low([digits(half_width) for _number, half_width in sized])
    while places < 4 and any(
        round(half_width, places) == 0 or (number > half_width and round(number, places) <= round(half_width, places))
        for number, half_width in sized
    ):
        places += 1
    return places


def number_text(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def with_unit(size: str, share: bool) -> str:
    return n_("{size} point", "{size} points", 1 if size == "1" else 2, size=size) if share else size


def digits(half_width: float) -> int:
    """Return the decimal places that show two significant digits."""
    return min(4, max(0, 1 - math.floor(math.log10(half_width)))) if half_width > 0 else 4


def fixed(value: float, places: int, sign: str = "") -> str:
    """Round to `places`; first to 10, so that ties round alike on every processor."""
    return f"{round(value, 10):{sign}.{places}f}"


def signed(value: float, places: int) -> str:
    text = fixed(value, places, "+")
    return text.replace("-", "−") if float(text) else text[1:]


def probability(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def duration(seconds: float) -> str:
    if seconds < 120:
        return _("{number} s", number=f"{seconds:.0f}")
    if seconds < 7200:
        return _("{number} min", number=f"{seconds / 60:.{1 if seconds < 600 else 0}f}")
    return _("{number} h", number=f"{seconds / 3600:.1f}")


# Names of the most frequent scores
SCORES = {
    "accuracy": N_("accuracy"), "macro_f1": N_("macro F1"), "svm_accuracy": N_("SVM accuracy"),
    "knn_accuracy": N_("kNN accuracy"), "kmeans_accuracy": N_("k-means accuracy"), "nmi": "NMI",
}  # fmt: skip
SPLITS = {"test": N_("test"), "validation": N_("validation"), "train": N_("train"), "transfer": N_("transfer")}


def split_of(value: str) -> str:
    """Return the split whose texts a score is measured on; those of transfer data are test texts."""
    split = value.rpartition("/")[2].partition(".")[0]
    return split if split in ("train", "validation") else "test"


def heading(value: str) -> str:
    """Return the display name of a score: `accuracy (test)` for test.accuracy, `val loss` for val_loss."""
    if "." not in value:
        return score_name(value)
    split, _dot, name = value.partition(".")
    return _("{score} ({split})", score=score_name(name), split=_(SPLITS[split]) if split in SPLITS else line(split))


def score_name(name: str) -> str:
    bare = name.removesuffix("(%)").rstrip()  # of another program's table; the unit is shown beside it
    return _(SCORES[name]) if name in SCORES else line(bare.replace("_", " ").replace(".", " "))


def symbol(name: str) -> str:
    return {"k": "K", "alpha": "α", "temperature": "τ"}.get(name, name)
