"""The error whose message is written for the person at the terminal: what arrived, and what to do."""

import re

LONGEST, LONGEST_NAME = 300, 60  # characters of a value, and of a name, that a message repeats
# What a terminal or a browser obeys instead of showing it (escape sequences, bells, overrides of the direction of text,
# other line breaks), or what nobody sees (zero-width spaces, NUL), and halves of characters, which cannot be written.
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


class UserError(ValueError):
    """Something outside of this program is wrong; shown without a traceback."""


def printable(text: str) -> str:
    """A text of several lines of which nothing commands a terminal. What does stands as JSON has it, `\\u001b`."""
    return UNSEEN.sub(lambda match: match[0] if match[0] in "\n\t" else _escaped(match), text)


def brief(value: object, longest: int = LONGEST) -> str:
    """A value as a message may repeat it: on one line, and of a long one the beginning and the end."""
    text, half = str(value), longest // 2
    return UNSEEN.sub(_escaped, text if len(text) <= longest else f"{text[:half]}…{text[-half:]}")


def brief_name(name: object) -> str:
    return brief(name, LONGEST_NAME)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
