"""Text and numbers as Markdown shows them."""

import html
import re

from contrastive.errors import printable

MISSING = "–"
MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_")  # an underscore within a word is none
BLOCK = re.compile(r"^(\s*)(?=(?:#{1,6}|[+-]|=+|-{3,})(?:\s|$))|^(\s*\d+)(?=[.)](?:\s|$))")


def plain(text: object) -> str:
    """A text of data or configuration as Markdown that shows it as it is: no link, picture, table, block or HTML."""
    shown = html.escape(MARKUP.sub(r"\\\g<0>", line(str(text))), quote=False)
    return BLOCK.sub(lambda found: found[0] + "\\", shown)


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


def bare(text: str) -> str:
    """What a reader sees of a field of a table: `plain` undone, and our own markup left out."""
    shown = re.sub(r"(?<!\\)\*+", "", text.replace("<br>", "; "))
    return html.unescape(re.sub(r"\\([\\`*\[\]|~$_#+=.)-])", r"\1", shown))


def number(value: float) -> str:
    return f"{value:.4f}"


def signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def probability(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def heading(value: str) -> str:
    """`accuracy (test)` for test.accuracy: a score as a reader sees it."""
    split, _, name = value.partition(".")
    return plain(f"{name.replace('_', ' ').replace('.', ' ')} ({split})")


def symbol(name: str) -> str:
    return {"k": "K", "alpha": "α", "temperature": "τ"}.get(name, name)
