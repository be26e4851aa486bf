"""The verdicts on a table of scores, as a frame, as a report, and in words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ablate.columns import choose, described
from ablate.results import Question, TableResults, results_of
from ablate.table import Columns, Table, of_frame, usual_form
from contrastive.errors import UserError
from contrastive.grid.messages import comma_list
from reports.build import build
from reports.compare import RowScore, Section
from reports.export import comparison_line
from reports.looks import compare_section
from reports.messages import FILES, PAGES
from reports.overview import overview

NUMBERS = ("results.csv", "results.parquet", "comparisons.csv", "effects.csv")
REPORT_FILES = {*FILES.values(), *PAGES.values(), *NUMBERS, "figures"}


@dataclass(frozen=True)
class Verdicts:
    """The comparisons of a table: each row against the baseline, by the model and guards of every report."""

    results: TableResults
    columns: str  # which column was taken for what

    @property
    def sections(self) -> list[Section]:
        return [compare_section(section, self.results)[1] for section in self.results.study.sections]

    @property
    def warnings(self) -> list[str]:
        """Sentences on what forbids or limits comparisons, such as missing seeds."""
        sections = self.results.study.sections
        return [str(guard.words) for section in sections for guard in compare_section(section, self.results)[0]]

    @property
    def comparisons(self) -> list[RowScore]:
        """Each score of each row that has a baseline, with its comparison."""
        return [score for section in self.sections for score, _comparison in section.comparisons]

    def frame(self) -> pd.DataFrame:
        """Return the comparisons as a data frame, the columns of comparisons.csv."""
        return pd.DataFrame([comparison_line(score, section) for section in self.sections for score in section.scores])

    def report(self, folder: str | Path) -> Path:
        """Write the report into a folder, and return the path of its page. It may replace an earlier report."""
        place = Path(folder)
        if others := sorted(path.name for path in place.glob("*") if path.name not in REPORT_FILES):
            raise UserError(f"{place} has other files ({comma_list(others)}); name a new folder for the report")
        build(self.results, place)
        return place / "index.html"

    def __str__(self) -> str:
        sections = self.sections
        return str(overview(self.results, sections, [str(number) for number in range(len(sections))]).headline)


def judge(
    frame: pd.DataFrame,
    *,
    row: str | Iterable[str] = (),
    seed: str | None = None,
    score: str | Iterable[str] = (),
    text: str | None = None,
    data: str | None = None,
    baseline: object = None,
    margin: float | Mapping[str, float] | None = None,
    lower: str | Iterable[str] = (),
    higher: str | Iterable[str] = (),
    paired: bool = False,
    name: str = "table",
) -> Verdicts:
    """Compare the rows of a data frame with a baseline row.

    A line of the frame has the score(s) of one row at one seed, and, with `text`, of one text. Columns left out are
    guessed from their names and values (`Verdicts.columns` says how). `margin`: largest difference that does not
    matter, of all scores or by score; `lower` and `higher`: scores whose direction is not guessed; `paired`:
    equal numbers of runs (a column such as run or fold) belong together, as seeds do. Raises UserError.
    """
    if not isinstance(frame, pd.DataFrame):
        raise UserError(f"ablate.judge takes a pandas DataFrame, not a {type(frame).__name__}")
    given = Columns(_names(row), _names(score), seed, text, data)
    table, columns = choose(usual_form(of_frame(frame, name)), given, paired)
    margins = dict[str, Any](
        margin if isinstance(margin, Mapping) else {} if margin is None else dict.fromkeys(columns.scores, margin)
    )
    if bad := [size for size in margins.values() if size is None or isinstance(size, str | bool) or not size > 0]:
        raise UserError(f"margin is {bad[0]!r}; give a number above 0")
    asked = None if baseline is None else str(baseline)
    return judge_table(table, columns, Question(asked, margins, _names(lower), _names(higher)), "ablate.judge(…)")


def judge_table(table: Table, columns: Columns, question: Question, command: str) -> Verdicts:
    """Compare the rows of a table whose columns are known. `command` builds the report again."""
    results = results_of(table, columns, question, command)
    return Verdicts(results, described(columns, results.kinds, results.study.assumed))


def _names(names: object) -> tuple[str, ...]:
    if names is None:
        return ()
    return tuple(map(str, names)) if isinstance(names, Iterable) and not isinstance(names, str) else (str(names),)
