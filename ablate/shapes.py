"""Turn tables of other shapes into one line for each row and seed: scores below each other, seeds beside, and logs."""

import math
import re
from collections.abc import Hashable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd

from ablate import names as usual
from ablate.directions import listed
from ablate.names import all_named, free, is_numeric, named, number_of
from ablate.table import Columns, Table
from contrastive.errors import UserError
from reports.export import as_was
from reports.study import Kind

NAME, VALUE = ("score", "metric", "score_name", "metric_name"), ("value",)  # of a table with one score a line
OWN = ("section", "row", "label", "variant", "seed", "cell", "score", "value")  # columns of our own results.csv
OF_SEED = re.compile(r"(?:seed|run|rep|trial|fold|s)?[ _-]?(\d+)", re.IGNORECASE)  # a heading of a wide table
RUN_NAMES = [*usual.SEED, *usual.RUNS, *listed("run_id run_name name id trial_id")]  # each value is a run
STATES = ("state", "status")  # columns of W&B's and our own exports
FINISHED = re.compile(r"(?:finished|completed?|done|succe\w*|early.?stop\w*)\b")
OPEN = re.compile(
    r"$|(?:running|pending|queued|scheduled|waiting|pruned|preempt\w*|cancel\w*|in.?progress|not.?started|to.?do|skipped"
    r"|submitted|created|start\w*|initiali\w*|resum\w*|paused|active)\b"
)
FAILED = re.compile(
    r"(?<![a-z])(?:fail|crash|kill|error|diverg|oom|out.?of.?mem|time.?out|abort|exceed|interrupt|lost|dead|nan\b)"
)


def without_unfinished(table: Table, known: Columns) -> tuple[Table, Columns]:
    """Leave out lines whose state or status is not finished, if some are; keep lines of failed runs aside.

    A run has failed that is neither finished nor open; where no line says finished, by its word for a failure.
    """
    for name in (each for each in table.frame.columns if each.lower() in STATES):
        if name in (*known.row, *known.scores, *known.keys):
            continue
        states = table.frame[name].fillna("").astype(str).str.strip().str.lower()
        finished, still_open = states.str.match(FINISHED), states.str.match(OPEN)
        finished = finished if finished.any() else ~states.str.contains(FAILED) & ~still_open
        if finished.any() and not finished.all():
            failed = table.frame.set_axis(table.places)[(~finished & ~still_open).tolist()]
            return replace(table.keep(finished), failed=failed), known
    return table, known


def scores_below_each_other(table: Table, known: Columns) -> tuple[Table, Columns]:
    """Turn a table with one score a line (columns such as metric and value) into one with a column for each score."""
    name, value = named(table, NAME), named(table, VALUE)
    asked = known.scores and {*known.scores} <= {*table.frame.columns}
    own = len(all_named(table, OWN)) == len(OWN)
    if name is None or value is None or asked or name in table.settings:
        return table, known
    if not own and is_numeric(table.frame[name]):
        return table, known
    table = own_export(table) if own else table
    frame = table.frame
    keys = [column for column in frame.columns if column not in (name, value)]
    keys = [column for column in keys if own or column.lower() not in usual.IGNORED or column == usual.SECONDS]
    wide = dict[tuple[Any, ...], dict[Hashable, Any]]()
    places = dict[tuple[Any, ...], dict[str, str]]()
    for place, line in zip(table.places, frame.to_dict("records"), strict=True):
        key, score = tuple(str(line[column]) for column in keys), str(line[name])
        if before := places.setdefault(key, {}).get(score):
            raise UserError(
                f"{table.name}, {before} and {place}: both have the same {', '.join(keys)} and {name}; remove one, or "
                "add a column that tells them apart"
            )
        places[key][score] = place
        wide.setdefault(key, {column: line[column] for column in keys})[score] = line[value]
    firsts = [next(iter(by_score.values())) for by_score in places.values()]
    known = replace(known, section="section" if own and "section" in keys else None)
    return replace(table, frame=pd.DataFrame(list(wide.values())), places=firsts), known


def own_export(table: Table) -> Table:
    """Return the trained vectors of finished cells in our own export, with the kinds of its scores."""
    frame = table.frame.map(as_was) if table.name.endswith(".csv") else table.frame
    trained, scored = frame["variant"].fillna("") == "", frame["score"].fillna("") != ""
    failed = pd.concat([table.failed, frame.set_axis(table.places)[[*(trained & ~scored)]]])  # None is left out
    table = replace(table, frame=frame, failed=failed).keep(trained & scored)
    kinds = {
        score: Kind(str(higher).lower() == "true", int(texts) if (texts := number_of(count) or 0) > 0 else None)
        for score, higher, count in table.frame[["score", "higher_is_better", "count"]].itertuples(index=False)
    }
    several = ["section"] if table.frame["section"].nunique() > 1 else []
    run = "seed" if table.frame["seed"].map(number_of).notna().any() else "cell"  # of rows that are not paired
    return replace(table, frame=table.frame[[*several, "label", run, "seconds", "score", "value"]], kinds=kinds)


def seeds_beside_each_other(table: Table, known: Columns) -> tuple[Table, Columns]:
    """Turn a table with a column for each seed (`seed 0`, `seed 1`) into one with a line for each."""
    matches = {name: OF_SEED.fullmatch(name) for name in table.frame.columns}
    seeds = {name: int(match[1]) for name, match in matches.items() if match and is_numeric(table.frame[name])}
    if len(seeds) < 2 or known.seed or known.scores or named(table, (*usual.SEED, *usual.RUNS)):
        return table, known
    if not all(name[:2].lower() in ("se", "ru", "re", "tr", "fo") for name in seeds) and not counted(seeds.values()):
        return table, known  # numbers of shots, or years
    derived = all_named(table, (*usual.MEAN, *usual.SPREADS))  # of the seeds beside them
    others = [name for name in table.frame.columns if name not in seeds and name not in derived]
    number = "seed" if all(name.lower().startswith("seed") for name in seeds) else usual.NUMBER
    frame = table.frame.melt(others, [*seeds], number, "score")
    frame[number] = frame[number].map(seeds)
    return replace(table, frame=frame, places=[f"{place}, {name}" for name in seeds for place in table.places]), known


def counted(numbers: Iterable[float]) -> bool:
    """Return whether numbers are 0, 1, 2 … or 1, 2, 3 …, without regard to missing ones."""
    found = sorted({number for number in numbers if not math.isnan(number)})
    return bool(found) and found[0] in (0, 1) and evenly_spaced(found) in (0, 1)


def evenly_spaced(numbers: Iterable[float]) -> float | None:
    """Return the distance between numbers such as 42, 43, 44 or 0, 10, 20; None if it is not always the same."""
    found = sorted({number for number in numbers if not math.isnan(number)})
    steps = {after - before for before, after in pairwise(found)}
    return None if len(steps) > 1 else next(iter(steps), 0)


def last_step_of_each_run(table: Table, known: Columns) -> tuple[Table, Columns]:
    """Keep the last line of each run of a log, in which lines of a run differ by their step or epoch."""
    step = named(table, usual.STEPS)
    if step is None or step in (*known.row, *known.scores) or known.text or not is_numeric(table.frame[step]):
        return table, known
    run = [*filter(None, [known.seed]), *all_named(table, RUN_NAMES)]
    keys = [*dict.fromkeys([*known.row, *known.keys, *run, *free(table, known)[0], *sorted(table.settings)])]
    keys = [name for name in keys if name in table.frame.columns]
    steps = table.frame[step].map(number_of).astype(float)
    groups = steps.groupby([table.frame[name].astype(str) for name in keys]) if keys else steps.groupby(steps * 0)
    if (groups.size() == 1).all() or steps.isna().any() or groups.apply(lambda own: own.duplicated().any()).any():
        return table, known
    if not run:
        if not groups.apply(lambda own: own.is_monotonic_increasing).all():
            return table, known
        raise UserError(
            f"{table.name}: several lines of a row with increasing {step}; if they are a log, add a column seed that "
            f"names the run of each line; if each is a run of its own, remove the column {step}"
        )
    last = groups.transform("max") == steps
    ends = " to ".join(f"{end:g}" for end in sorted({steps[last].min(), steps[last].max()}))
    note, early = f"the last line of each run is used ({step} {ends})", int((steps[last] < steps[last].max()).sum())
    note += f"; {early} of {int(last.sum())} runs end earlier than the others and may have failed" if early else ""
    return table.keep(last), replace(known, notes=(*known.notes, note))
