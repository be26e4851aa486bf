"""`ablate report --from TABLE`: report the results of another program."""

import hashlib
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ablate.columns import choose
from ablate.table import MLFLOW, Columns, read
from ablate.verdicts import Question, judge_table
from contrastive.errors import UserError
from contrastive.runs.store import home
from flows.terminal import say, tell
from reports.compare import RowScore
from reports.markdown import difference_text, most_of, unit
from tasks.address import tracking_uri

MOST_TOLD = 20  # comparisons shown in the terminal


def report_table(
    source: str,
    given: Mapping[str, Any],
    baseline: str | None,
    margins: Sequence[str],
    lower: Sequence[str],
    higher: Sequence[str],
    paired: bool = False,
    sigma: Sequence[str] = (),
    ties: bool = False,
    records: str = "",
    texts: str = "",
) -> None:
    """Read a table, say which column was taken for what, and write its report."""
    tell(f"reading {source}")
    wanted = Columns(tuple(given["row"]), tuple(given["score"]), given["seed"], given["text"], given["data"])
    table, columns = choose(read(source, tracking_uri(home())), wanted, paired)
    sizes, known = (
        dict(size for text in given_sizes for size in parsed_size(option, text, columns))
        for option, given_sizes in (("--margin", margins), ("--sigma", sigma))
    )
    question = Question(baseline, sizes, tuple(lower), tuple(higher), ties, records, known, texts)
    verdicts = judge_table(table, columns, question, shlex.join(["ablate", *sys.argv[1:]]))
    tell(f"{table.name}: {table.frame.index.nunique()} lines; {verdicts.columns}")
    asked = " ".join([*(["ties"] if ties else []), records, texts, *sigma]).strip()
    page = verdicts.report(home() / "reports" / "tables" / folder_name(source, verdicts.results.study.name, asked))
    used = {score.value: score.margin for score in verdicts.comparisons if score.margin is not None}
    if used:
        in_points = {name: (f"{unit(name) * size:.2g}", unit(name) > 1) for name, size in used.items()}
        shown = ", ".join(
            f"{name} {size}" + f" point{'s' * (size != '1')}" * is_share for name, (size, is_share) in in_points.items()
        )
        tell(f"differences too small to matter: {shown}; --margin SCORE=SIZE, in the unit of the table, changes one")
    for warning in verdicts.warnings:
        tell(f"warning: {warning}")
    compared = [score for score in verdicts.comparisons if score.verdict != "no record"]
    told = compared[-MOST_TOLD:] if records else compared[:MOST_TOLD]  # the newest records
    for score in told:
        tell(comparison_text(score))
    if len(compared) > len(told):
        tell(f"and {len(compared) - len(told)} more comparisons on the page")
    tell(str(verdicts))
    say(f"report: {page.with_name('README.md')}")


def folder_name(source: str, name: str, asked: str = "") -> str:
    """Return the name of a table's report, another one for tables of the same name in other folders or stores, and for
    each question of a board."""
    place = tracking_uri(home()) + source if source.startswith(MLFLOW) else os.path.abspath(source)
    return f"{name}-{hashlib.sha256((place + asked).encode()).hexdigest()[:4]}"


def comparison_text(score: RowScore) -> str:
    """Return a comparison as a line: `LoRA, f1: undecided, −0.2 ± 1.9 points`."""
    compared = score.comparison
    if compared is None or not math.isfinite(compared.difference):
        return f"{score.row.label}, {score.value}: {score.verdict}"
    factor, size = unit(score.value), f"{compared.difference:+.3g}"  # 100 for a share, which the page has in percent
    if factor > 1 or math.isfinite(compared.half_width):
        size = difference_text(factor * compared.difference, factor * compared.half_width, most_of(score.value))
    return f"{score.row.label}, {score.value}: {score.verdict}, {size}{' points' if factor > 1 else ''}"


def parsed_size(option: str, text: str, columns: Columns) -> list[tuple[str, float]]:
    """Parse SCORE=SIZE, or SIZE for all scores."""
    name, _, size = text.rpartition("=")
    try:
        number = float(size)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise UserError(f"{option} {text}: write SCORE=SIZE with a size above 0, such as {option} accuracy=0.01")
    return [(score, number) for score in ([name] if name else columns.scores)]
