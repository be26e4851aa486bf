"""Texts as Markdown shows them, and numbers with as many digits as their interval bears."""

import html
import math
import re

from contrastive.config.experiment import score_width
from contrastive.errors import printable
from reports.messages import Message, Said, _, n_

MISSING = "–"
MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_")  # an underscore within a word is none
BLOCK = re.compile(r"^(\s*)(?=(?:#{1,6}|[+-]|=+|-{3,})(?:\s|$))|^(\s*\d+)(?=[.)](?:\s|$))")


def plain(text: object) -> str:
    """A text of data or configuration as Markdown that shows it as it is: no link, picture, table, block or HTML."""
    shown = html.escape(MARKUP.sub(r"\\\g<0>", line(str(text))), quote=False)
    return BLOCK.sub(lambda match: match[0] + "\\", shown)


def code(text: str) -> str:
    """The same, set as code: between more backticks than it has in a row."""
    shown = line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def line(text: str) -> str:
    """On one line, and nothing in it that a reader does not see or that turns the text around."""
    return printable(re.sub(r"\s+", " ", text))


def markdown(lines: list[list[str]]) -> str:
    """A table of cells that are Markdown already: what is not our own markup has gone through `plain`."""
    head, *body = lines
    rule = [":--", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))


def unit(value: str) -> float:
    """What a score is multiplied by where it is shown: shares are shown in percent."""
    return 100.0 if score_width(value) == 1.0 else 1.0


def score_text(value: str, mean: float, half_width: float = math.nan) -> str:
    """`68.6 ± 1.0` of a share, in percent."""
    mean, half_width, most = unit(value) * mean, unit(value) * half_width, most_of(value)
    if most < half_width < math.inf:
        return f"{fixed(mean, 0)} ± > {most:.0f}"
    if not math.isfinite(mean):
        return MISSING
    if not math.isfinite(half_width) or half_width <= 0:
        return fixed(mean, 2) if unit(value) > 1 else f"{mean:.4g}"
    places = digits(half_width)
    return f"{fixed(mean, places)} ± {fixed(half_width, places)}"


def most_of(value: str) -> float:
    """The largest difference that a score can have, in the unit that is shown."""
    return unit(value) * score_width(value)


def difference_text(difference: float, half_width: float = math.nan, most: float = math.inf) -> str:
    """`+2.0 ± 1.4`, of numbers in the unit that is shown, of which `most` is the largest difference that can be."""
    if most < half_width < math.inf:
        return f"{signed(difference, 0)} ± > {most:.0f}"
    if not math.isfinite(half_width):
        return signed(difference, 2 if abs(difference) < 10 else 1)
    places = digits(half_width)
    return f"{signed(difference, places)} ± {fixed(half_width, places)}"


def with_unit(size: str, share: bool) -> Said:
    return n_("{size} point", "{size} points", 1 if size == "1" else 2, size=size) if share else size


def digits(half_width: float) -> int:
    """Two that are not zero."""
    return min(4, max(0, 1 - math.floor(math.log10(half_width)))) if half_width > 0 else 4


def fixed(value: float, places: int, sign: str = "") -> str:
    """Round to so many places; a tie is one on every processor, whatever the order of sums made of its last bits."""
    return f"{round(value, 10):{sign}.{places}f}"


def signed(value: float, places: int) -> str:
    text = fixed(value, places, "+")
    return text.replace("-", "−") if float(text) else text[1:]


def probability(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def duration(seconds: float) -> Said:
    if seconds < 120:
        return _("{number} s", number=f"{seconds:.0f}")
    if seconds < 7200:
        return _("{number} min", number=f"{seconds / 60:.{1 if seconds < 600 else 0}f}")
    return _("{number} h", number=f"{seconds / 3600:.1f}")


# The scores that readers meet most often, as they are called in each language
SCORES = {
    "accuracy": _("accuracy"), "macro_f1": _("macro F1"), "svm_accuracy": _("SVM accuracy"),
    "knn_accuracy": _("kNN accuracy"), "kmeans_accuracy": _("k-means accuracy"),
}  # fmt: skip
SPLITS = {"test": _("test"), "validation": _("validation"), "train": _("train"), "transfer": _("transfer")}


def heading(value: str) -> Message:
    """`accuracy (test)` for test.accuracy: a score as a reader sees it."""
    split, _dot, name = value.partition(".")
    return _("{score} ({split})", score=score_name(name), split=SPLITS.get(split, line(split)))


def score_name(name: str) -> Said:
    return SCORES.get(name, line(name.replace("_", " ").replace(".", " ")))


def symbol(name: str) -> str:
    return {"k": "K", "alpha": "α", "temperature": "τ"}.get(name, name)
