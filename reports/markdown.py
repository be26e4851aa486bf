"""Text and numbers as Markdown shows them."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass

from contrastive.errors import printable

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


@dataclass(frozen=True)
class Markup:
    """How what a report says is set: one way for Markdown, another one for the page."""

    text: Callable[[object], str]  # a text of data or configuration, shown as it is
    bold: str
    italic: str
    line_break: str


MARKDOWN = Markup(plain, "**", "*", "<br>")
PAGE = Markup(lambda text: line(str(text)), "", "", "; ")  # its template escapes, and makes bold what is


def number(value: float) -> str:
    return f"{value:.4f}"


def signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def probability(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def heading(value: str, to: Markup = MARKDOWN) -> str:
    """`accuracy (test)` for test.accuracy: a score as a reader sees it."""
    split, _, name = value.partition(".")
    return to.text(f"{name.replace('_', ' ').replace('.', ' ')} ({split})")


def symbol(name: str) -> str:
    return {"k": "K", "alpha": "α", "temperature": "τ"}.get(name, name)
