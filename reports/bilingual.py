"""A sentence of the report in the languages that it is written in."""

from dataclasses import dataclass
from typing import Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
FILES: dict[Language, str] = {"en": "README.md", "zh": "README.zh.md"}  # the report as each reads it


@dataclass(frozen=True)
class Words:
    """The same said in each language."""

    en: str
    zh: str

    def in_language(self, language: Language) -> str:
        return self.en if language == "en" else self.zh
