"""Translation of a report's sentences: English in the code, other languages in `locale/LANGUAGE.po`."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Literal

Language = Literal["en", "zh"]
CATALOGUES = Path(__file__).parent / "locale"
NAMED_ITEMS = 5  # items that a list names; the others are counted
LINES = r'(?:"[^\n]*"\n?)+'
# the singular is the key in English; Chinese has no other form
ENTRY = re.compile(rf"^msgid ({LINES})(?:msgid_plural {LINES})?msgstr(?:\[0\])? ({LINES})", re.MULTILINE)
_language: ContextVar[Language] = ContextVar("language", default="en")


@contextmanager
def using(language: Language) -> Iterator[None]:
    """Set the language of sentences."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def _(text: str, /, **values: object) -> str:
    """Translate a text into the language set by `using`, and fill in the values of its `{placeholders}`, if any."""
    translation = text if _language.get() == "en" else catalogue(_language.get()).get(text, text)
    return translation.format_map(values) if values else translation


def n_(singular: str, several: str, /, count: int, **values: object) -> str:
    """Translate `singular` if the count is 1, else `several`; both may use `{count}`."""
    text = singular if _language.get() != "en" or count == 1 else several
    return _(text, count=count, **values)


def N_(text: str) -> str:
    """Mark a constant for the catalogues; `_(CONSTANT)` translates it."""
    return text


def listed(items: Sequence[object], most: int = NAMED_ITEMS) -> str:
    """Join items in a sentence: `a, b and c`, or `a, b, c, d, e and 4 more`."""
    if len(items) > most:
        first = _(", ").join(map(str, items[:most]))
        return _("{first} and {rest} more", first=first, rest=len(items) - most, all=len(items))
    if len(items) < 2:
        return "".join(map(str, items))
    return _("{first} and {last}", first=_(", ").join(map(str, items[:-1])), last=items[-1])


@cache
def catalogue(name: Language) -> dict[str, str]:
    """Map English texts to their translations."""
    content = (CATALOGUES / f"{name}.po").read_text(encoding="utf-8")
    entries = {unquoted(text): unquoted(translation) for text, translation in ENTRY.findall(content)}
    return {text: translation for text, translation in entries.items() if text}


def unquoted(lines: str) -> str:
    return "".join(map(json.loads, lines.splitlines()))
