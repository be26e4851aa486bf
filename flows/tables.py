"""`ablate report --from TABLE`: report the results of another program."""

import hashlib
import math
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from ablate.columns import Columns
from ablate.table import MLFLOW, read
from ablate.verdicts import Question, judge_table
from contrastive.errors import UserError
from contrastive.runs.store import home
from flows.terminal import say, tell
from reports.markdown import unit, with_unit
from tasks.address import tracking_uri


def report_table(source: str, columns: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Read a table, say which column was taken for what, and write its report. `columns` and `asked`: the options."""
    tell(f"reading {source}")
    given = Columns(**{**columns, "row": tuple(columns["row"] or ()), "scores": tuple(columns["scores"] or ())})
    margins = dict(parsed_margin(margin) for margin in asked["margin"] or ())
    question = Question(asked["baseline"], margins, tuple(asked["lower"] or ()), tuple(asked["higher"] or ()))
    command = shlex.join(["ablate", *sys.argv[1:]])
    verdicts = judge_table(read(source, tracking_uri(home())), given, question, command)
    study = verdicts.results.study
    tell(f"{study.source}: {len(verdicts.results.cells)} runs; {verdicts.columns}")
    page = verdicts.report(home() / "reports" / "tables" / folder_name(source, study.name))
    margins = {score.value: score.margin for score in verdicts.comparisons if score.margin is not None}
    if margins:
        sizes = [f"{name} {with_unit(f'{unit(name) * size:.2g}', unit(name) > 1)}" for name, size in margins.items()]
        tell(f"differences too small to matter: {', '.join(sizes)}; --margin SCORE=SIZE changes one")
    for warning in verdicts.warnings:
        tell(f"warning: {warning}")
    tell(str(verdicts))
    say(f"report: {page.with_name('README.md')}")


def folder_name(source: str, name: str) -> str:
    """Return the name of a table's report, another one for tables of the same name in other folders or stores."""
    place = tracking_uri(home()) + source if source.startswith(MLFLOW) else os.path.abspath(source)
    return f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:4]}"


def parsed_margin(text: str) -> tuple[str, float]:
    """Parse SCORE=SIZE, or SIZE for all scores."""
    name, _, size = text.rpartition("=")
    try:
        number = float(size)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise UserError(f"--margin {text}: write SCORE=SIZE with a size above 0, such as --margin accuracy=0.01")
    return name, number
