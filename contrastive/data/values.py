"""What a value in a file stands for: a label, a score or a text. A mistake is told with its file and row.

What is one label does not depend on the format. A label written as a decimal number is that number: 1, 1.0, 01, +1 and
1e0 are the class `1`, as number or as text. `true` and `false` are one class in any case. Every other label is the word
as it stands, without the white space around it.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import lru_cache
from typing import Any

from contrastive.errors import UserError, brief

SURROGATE = re.compile("[\ud800-\udfff]")
# Bounded, so that none takes long or much room: what is longer is a word. One digit of precision each is exact.
NUMBER = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,9})?")
EXACT = Context(prec=600, Emax=MAX_EMAX, Emin=MIN_EMIN)
PLAINEST = 30  # digits before or after the point beyond which a number is named by its power of ten


class Number(str):
    """A number as a JSON file writes it, so that its label is made as that of the same characters in a csv file."""

    __repr__ = str.__str__


def _missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def _label_name(name: str, number: int, label: Any) -> str | None:
    """The class that a label names; None where there is none."""
    if _missing(label) or (isinstance(label, str) and label.strip().lower() == "nan"):
        return None
    if not isinstance(label, str | int | float | Decimal) or (isinstance(label, float) and math.isinf(label)):
        raise UserError(f"{name}, row {number}: the label is {brief(repr(label))}; give a word or a number")
    return _class(_characters(name, number, spelled(label)).strip())


def spelled(label: str | int | float | Decimal) -> str:
    """A label as the file has it."""
    return str(label).lower() if isinstance(label, bool) else str(label)


@lru_cache(maxsize=10_000)
def _class(word: str) -> str:
    """One name for the ways to write a number, or true and false."""
    if word.lower() in ("true", "false"):
        return word.lower()
    if not NUMBER.fullmatch(word):
        return word
    value = EXACT.create_decimal(word).normalize(EXACT)
    if not value:
        return "0"
    return f"{value:f}" if abs(value.adjusted()) <= PLAINEST else str(value)


def _score(name: str, number: int, score: Any) -> str | None:
    """A number as the text that stands for it, and for no other."""
    if _missing(score) or (isinstance(score, str) and score.strip().lower() == "nan"):
        return None
    try:
        value = float(score)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{name}, row {number}: the score is {brief(repr(score))}; give a number")
    return repr(value)


def text_of(name: str, number: int, value: Any) -> str | None:
    if not _missing(value) and (isinstance(value, Number) or not isinstance(value, str)):
        kind = "number" if isinstance(value, Number | int | float | Decimal) else type(value).__name__
        raise UserError(f"{name}, row {number}: the text is {brief(value)} ({kind}); give a text")
    return None if _missing(value) else _characters(name, number, value)


# What stands in the columns that hold no text.
MEANING: Mapping[str, Callable[[str, int, Any], str | None]] = {
    "label": _label_name,
    "subset": _label_name,
    "score": _score,
}


def _characters(name: str, number: int, value: str) -> str:
    if not value.isascii() and SURROGATE.search(value):
        raise UserError(
            f"{name}, row {number}: holds half of a surrogate pair, which is no character; repair or remove it"
        )
    return value
