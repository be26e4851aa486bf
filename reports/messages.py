"""Translation of a report's sentences: English in the code, other languages in `locale/LANGUAGE.po`.

`str()` of a `Message` translates it into the language set by `using`. Its values may be messages themselves.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
NAMES: dict[Language, str] = {"en": "English", "zh": "中文"}
FILES: dict[Language, str] = {"en": "README.md", "zh": "README.zh.md"}  # file name of the report in each language
PAGES: dict[Language, str] = {"en": "index.html", "zh": "index.zh.html"}
CATALOGUES = Path(__file__).parent / "locale"
LINES = r'(?:"[^\n]*"\n?)+'
# the singular is the key in English; Chinese has no other form
ENTRY = re.compile(rf"^msgid ({LINES})(?:msgid_plural {LINES})?msgstr(?:\[0\])? ({LINES})", re.MULTILINE)
_language: ContextVar[Language] = ContextVar("language", default="en")
_images: ContextVar[bool] = ContextVar("images", default=False)
# how sentences about texts speak of images, outside of placeholders
OF_IMAGES = {
    "en": ((r"(?<!\{)\btext(?=s?\b(?!\}))", "image"),),
    "zh": ((r"条(?=[^，。；]{0,4}文本)", "张"), ("文本", "图像")),
}


@dataclass(frozen=True)
class Message:
    """A sentence with `{placeholders}` and their values; `several` is its plural, for a value `count` other than 1."""

    text: str
    values: tuple[tuple[str, object], ...] = ()
    several: str = ""

    def __str__(self) -> str:
        return translated(self).format_map(dict(self.values))

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)

    def of(self, **values: object) -> "Message":
        """Return this message with values filled in."""
        return Message(self.text, tuple(values.items()), self.several)


@dataclass(frozen=True)
class Joined:
    """Messages joined by a separator."""

    parts: tuple[object, ...]
    between: Message | str

    def __str__(self) -> str:
        return str(self.between).join(map(str, self.parts))

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)


Text = Message | Joined | str


def _(text: str, /, **values: object) -> Message:
    return Message(text, tuple(values.items()))


def n_(singular: str, several: str, /, count: int, **values: object) -> Message:
    """Return `singular` if the count is 1, else `several`; both may use `{count}`."""
    return Message(singular, (("count", count), *values.items()), several)


def joined(parts: Iterable[object], between: Message | str) -> Joined:
    return Joined(tuple(parts), between)


@contextmanager
def using(language: Language) -> Iterator[None]:
    """Set the language of messages."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


@contextmanager
def about_images(images: bool) -> Iterator[None]:
    """Let messages speak of images in place of texts."""
    token = _images.set(images)
    try:
        yield
    finally:
        _images.reset(token)


def language() -> Language:
    return _language.get()


def translated(message: Message) -> str:
    """Return the text of a message in the current language, before its values are filled in."""
    text = message.several if message.several and dict(message.values)["count"] != 1 else message.text
    if _language.get() != "en":
        text = catalogue(_language.get()).get(message.text) or text
    for found, instead in OF_IMAGES[_language.get()] if _images.get() else ():
        text = re.sub(found, instead, text)
    return text


@cache
def catalogue(name: Language) -> dict[str, str]:
    """Map English texts to their translations."""
    content = (CATALOGUES / f"{name}.po").read_text(encoding="utf-8")
    entries = {unquoted(text): unquoted(translation) for text, translation in ENTRY.findall(content)}
    return {text: translation for text, translation in entries.items() if text}


def unquoted(lines: str) -> str:
    return "".join(map(json.loads, lines.splitlines()))


def other_language(files: dict[Language, str]) -> dict[str, str]:
    """Return what links to the same file in another language."""
    name = next(each for each in LANGUAGES if each != language())
    return {"language": name, "name": NAMES[name], "address": files[name]}
