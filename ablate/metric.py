"""Find the last number that a regular expression matches in the output of a run."""

import re

from ablate.directions import higher_is_better
from contrastive.errors import UserError, brief

NUMBER = r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
LARGEST = 1e100  # the square of a larger number, and sums of squares, would not be finite
UNIT = re.compile(r"[ \t]*%|(?:[kKMGTBmunµ]i?[sBb]?|s|min|h)\b")  # after a number


def number_in(text: str, metric: str) -> tuple[float | None, str]:
    """Return the number of the last match in a text with its unit, such as %; or None and what is wrong.

    After the match, look for a number that was not found: of a run that diverged, the good epoch before does not count.
    """
    last = None
    for match in re.finditer(metric, text):
        last = match if match[1] is not None else last
    if last is None:
        return None, f"printed nothing that --metric `{metric}` finds"
    unread = unread_after(text, last)
    later = [match[0].strip() for match in re.finditer(unread, text[last.end() :])] if unread else []
    if later:
        return None, f"printed `{brief(later[-1])}` last, which --metric `{metric}` does not find"
    return read_number(text, last, metric)


def read_number(text: str, last: re.Match[str], metric: str) -> tuple[float | None, str]:
    after = text[last.end(1) : last.end(1) + 99]
    if re.match(r"[eE][-+]?\d", after):
        cut = f"printed `{brief(last[1])}` with an exponent: --metric `{metric}` cuts it"
        return None, f"{cut}; write its group as `([-+0-9.eE]+)`"
    if "." not in last[1] and last.end() == last.end(1) and re.match(r",\d", after):
        return None, f"printed `{brief(last[1])}` before a comma and more digits: print a decimal point"
    try:
        value = float(last[1].rstrip("."))
    except ValueError:
        return None, f"printed `{brief(last[1])}`, which is not a number"
    if not abs(value) <= LARGEST:  # nan too
        return None, f"printed {value:g}, which cannot be compared" + (": it is too large" if value else "")
    unit = UNIT.match(after)
    return value, unit[0].strip() if unit else ""


def unread_after(text: str, last: re.Match[str]) -> str | None:
    """Return a pattern of what may stand in the place of a number: nan, inf, none, or a cut minus sign.

    The place is between the same words (other numbers aside), those of the line if the match has none before its group.
    """
    before, after = text[last.start() : last.start(1)].strip(), text[last.end(1) : last.end()].rstrip()
    start = "" if before else "(?m:^)"
    before = before or text[text.rfind("\n", 0, last.start()) + 1 : last.start(1)].strip()
    if not (before or after):
        return None
    known = re.escape(re.sub(NUMBER, "\0", before)).replace("\0", NUMBER)
    number = r"(?:[-+]?(?i:nan|inf|infinity|none|null)(?!\w)|-\.?\d[\d.]*)"
    return rf"{start}{known}\s*{number}{re.escape(after)}"


def lower_is_better(metric: str, lower: bool | None) -> bool:
    """Return the direction that was asked for, or that higher is better.

    Raise UserError if the words of the metric, before its group or after it, say otherwise.
    """
    if lower is not None:
        return lower
    plain = re.sub(r"\\.", " ", re.sub(r"\[(\w)\w\](?=\w)", r"\1", metric))  # `loss` of `[Ll]oss`
    before, _, after = re.sub(r"\(\?P<(\w+)>", r"\1 (", plain).partition("(")
    texts = (re.sub(r"[^\w/% -]", " ", part).strip() for part in (before, after.partition(")")[2]))
    directions = [higher_is_better(text) for text in texts]
    if next((direction for direction in directions if direction is not None), None) is False:
        raise UserError(f"--metric `{brief(metric)}`: lower seems to be better; say --lower, or --higher if it is not")
    return False
