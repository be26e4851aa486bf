"""One thing that a report says and its numbers do not."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Contradiction:
    """`line` is as it stands in the report; of what is missing, it is the line below which that belongs."""

    says: str
    line: str

    def located(self, file: str, lines: Sequence[str]) -> str:
        """With the first place of its line; a line that is not in the report (a row made whole) has none."""
        number = f", line {lines.index(self.line) + 1}" if self.line in lines else ""
        return f"{file}{number}: {self.says}"


def exactly(true: Sequence[str], said: Sequence[str], above: str) -> Iterator[Contradiction]:
    """Nothing missing, nothing added; of a line that was changed, what the numbers say instead."""
    missing = list((Counter(true) - Counter(said)).elements())
    for line in (Counter(said) - Counter(true)).elements():
        if nearest := get_close_matches(line, missing, n=1):
            missing.remove(nearest[0])
            yield Contradiction(f"the numbers say `{nearest[0]}`, not `{line}`", line)
        else:
            yield Contradiction(f"the numbers do not say `{line}`", line)
    yield from (
        Contradiction(f"the numbers say `{line}`, and it is missing below `{above}`", above) for line in missing
    )
