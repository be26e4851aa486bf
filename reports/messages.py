"""Sentences of a report: English in the code, other languages in catalogues (`locale/LANGUAGE.po`).

A `Message` is translated when it is written out, by `str()`, in the language of `using`. Its values may be messages.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from babel.messages.pofile import read_po

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
NAMES: dict[Language, str] = {"en": "English", "zh": "中文"}
FILES: dict[Language, str] = {"en": "README.md", "zh": "README.zh.md"}  # the report as each reads it
PAGES: dict[Language, str] = {"en": "index.html", "zh": "index.zh.html"}
CATALOGUES = Path(__file__).parent / "locale"
_language: ContextVar[Language] = ContextVar("language", default="en")


@dataclass(frozen=True)
class Message:
    """`text` with `{names}` of values; `several`: the same of another count than one, which is the value `count`."""

    text: str
    values: tuple[tuple[str, object], ...] = ()
    several: str = ""

    def __str__(self) -> str:
        return translated(self).format_map(dict(self.values))

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)

    def of(self, **values: object) -> "Message":
        """The same with values."""
        return Message(self.text, tuple(values.items()), self.several)


@dataclass(frozen=True)
class Joined:
    """Messages beside each other, with a message between them."""

    parts: tuple[object, ...]
    between: Message | str

    def __str__(self) -> str:
        return str(self.between).join(map(str, self.parts))

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)


Said = Message | Joined | str


def _(text: str, /, **values: object) -> Message:
    return Message(text, tuple(values.items()))


def n_(one: str, several: str, /, count: int, **values: object) -> Message:
    """`one` for a count of one, else `several`; both may name `{count}`."""
    return Message(one, (("count", count), *values.items()), several)


def joined(parts: Iterable[object], between: Message | str) -> Joined:
    return Joined(tuple(parts), between)


@contextmanager
def using(language: Language) -> Iterator[None]:
    """Write messages in this language."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def language() -> Language:
    return _language.get()


def translated(message: Message) -> str:
    """The text in the language in use; an entry of a catalogue that counts has one form of each text."""
    text = message.several if message.several and dict(message.values)["count"] != 1 else message.text
    if _language.get() == "en":
        return text
    return catalogue(_language.get()).get(message.text) or text


@cache
def catalogue(name: Language) -> dict[str, str]:
    """Text in English → in another language."""
    with open(CATALOGUES / f"{name}.po", "rb") as file:
        entries = {entry.id: entry.string for entry in read_po(file, locale=name) if entry.id}
    return {first(text): first(translation) for text, translation in entries.items()}


def first(text: object) -> str:
    """Chinese has one form whatever the count."""
    return str(text[0] if isinstance(text, tuple | list) else text)


@dataclass(frozen=True)
class OtherLanguage:
    """The same file in another language, to link to."""

    language: Language
    name: str
    address: str


def other(files: dict[Language, str]) -> OtherLanguage:
    name = next(each for each in LANGUAGES if each != language())
    return OtherLanguage(name, NAMES[name], files[name])
