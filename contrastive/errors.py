"""UserError, for mistakes that the user can fix, and functions that make values safe to print in messages."""

import re

LONGEST, LONGEST_NAME = 300, 60  # most characters of a value, and of a name, that a message repeats
# Characters that control a terminal or browser instead of being shown (escape sequences, bells, changes of text
# direction, other line breaks), invisible ones (zero-width spaces, NUL), those of private use, and lone surrogates,
# which cannot be encoded.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\uf8ff\U000f0000-\U0010ffff]"
)


class UserError(ValueError):
    """A mistake in the user's input or environment; shown without a traceback. The message says what to do."""

    kind = "settings"  # of the failure of a cell


def printable(text: str) -> str:
    """Escape control and invisible characters as `\\u001b`; keep newlines and tabs."""
    return UNSEEN.sub(lambda match: match[0] if match[0] in "\n\t" else _escaped(match), text)


def brief(value: object, longest: int = LONGEST) -> str:
    """Return a value as one printable line for a message; a long value keeps its beginning and end only."""
    text, half = str(value), longest // 2
    return UNSEEN.sub(_escaped, text if len(text) <= longest else f"{text[:half]}…{text[-half:]}")


def brief_name(name: object) -> str:
    return brief(name, LONGEST_NAME)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
