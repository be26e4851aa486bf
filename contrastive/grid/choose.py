"""Choose values of settings for each row, such as its learning rate, by scores on validation texts.

The candidates are an experiment of their own, NAME-choice, at seeds that the comparison does not use and without test
texts. The grid of the comparison follows from their scores, so nothing else is stored.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from contrastive.config.cell import Cell
from contrastive.config.experiment import (
    NO_BASELINE,
    Experiment,
    Report,
    Section,
    Show,
    ShownTable,
    choices_of,
    settings_of_row,
)
from contrastive.errors import UserError
from contrastive.grid.expand import Builder, LoadedExperiment, Row, RowKey, combinations, setting_overlay
from contrastive.grid.identity import evaluation_key
from contrastive.grid.names import Overlay, setting_value, settings_of_cell, short_value
from contrastive.grid.plan import make_plan
from contrastive.grid.status import Status, outcome
from contrastive.runs import store
from contrastive.runs.recorded import ChosenRow

SUFFIX = "-choice"


@dataclass(frozen=True)
class Candidates:
    """The values that one row may take, each with its cells at the seeds of the choice."""

    key: RowKey
    options: list[tuple[Overlay, tuple[Cell, ...]]]


def candidates(experiment: Experiment) -> LoadedExperiment:
    """Return the grid of the candidates: of each row that has any, one row for each value."""
    derived = choosing(experiment)
    builder = Builder(derived)
    rows = [row for row in rows_to_choose(experiment, builder) if len(row.options) > 1]
    cells = {cells[0] for row in rows for _, cells in row.options}
    resolved = builder.resolved()
    sections = [
        replace(part, rows=tuple(row for row in part.rows if row.cells[0] in cells)) for part in resolved.sections
    ]
    kept = [part for part in sections if part.rows]
    every = dict.fromkeys(cell for part in kept for row in part.rows for cell in row.cells)
    return replace(resolved, sections=tuple(kept), cells=tuple(every))


def choosing(experiment: Experiment) -> Experiment:
    """Return the experiment of the candidates, in which the values to choose from are axes of the rows."""
    choose = experiment.choose or {}
    judging = tuple(transfer for transfer in experiment.evaluation.transfer if choose["by"] in transfer.scores())
    measured = {"splits": ("validation",), "vectors": (), "post": (), "transfer": judging, "test": None}
    return experiment.model_copy(
        update={
            "name": experiment.name + SUFFIX,
            "seeds": tuple(choose["seeds"]),
            "description": f"Values to choose from for {experiment.name}, judged by {choose['by']}.",
            "choose": None,
            "evaluation": experiment.evaluation.model_copy(update=measured),
            "sections": tuple(section_of_candidates(section, choose) for section in experiment.sections),
            "report": Report(
                primary=choose["by"], author=experiment.report.author, language=experiment.report.language
            ),
        }
    )


def section_of_candidates(section: Section, choose: Mapping[str, Any]) -> Section:
    rows = {}
    for key, row in section.trained().items():
        free = free_choices(row, choose)
        name = ", ".join([key, *(f"{name} {{{name}}}" for name in free)])
        rows[name] = dict(row) | {"axes": dict(row.get("axes", {})) | free}
    show = Show(table=ShownTable(values=(choose["by"],)))
    return section.model_copy(update={"rows": rows, "baseline": "none", "show": show})


def free_choices(row: Mapping[str, Any], choose: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the settings to choose that a row does not write itself, with their values."""
    own = own_choices(row, choose)
    return {name: values for name, values in choices_of(choose).items() if name not in own}


def own_choices(row: Mapping[str, Any], choose: Mapping[str, Any]) -> list[str]:
    """Return the settings to choose that a row writes itself."""
    written = {*settings_of_row(row), *row.get("axes", ())}
    return [name for name in choices_of(choose) if name in written]


def rows_to_choose(experiment: Experiment, builder: Builder) -> Iterator[Candidates]:
    """Yield each row of each setting that reads a setting to choose. `builder`: of the candidates' experiment."""
    for number, setting in builder.sections:
        section, derived = experiment.sections[number], builder.experiment.sections[number]
        base = setting_overlay(experiment, setting) | dict(section.base)
        for (key, row), of_candidates in zip(section.trained().items(), derived.rows.values(), strict=True):
            free = free_choices(row, experiment.choose or {})
            options = [dict(zip(free, values, strict=True)) for values in product(*free.values())]
            overlays, _ = combinations(of_candidates, base, builder.settings)
            for position in range(len(overlays) // len(options)):
                every = overlays[position * len(options) : (position + 1) * len(options)]
                distinct: dict[Cell, tuple[Overlay, tuple[Cell, ...]]] = {}
                for option, overlay in zip(options, every, strict=True):
                    relevant = builder.relevant(overlay)
                    cells = builder.row(relevant)
                    distinct.setdefault(cells[0], ({name: option[name] for name in option if name in relevant}, cells))
                if any(option for option, _ in distinct.values()):
                    yield Candidates((number, setting, key, position), [*distinct.values()])


def settled(resolved: LoadedExperiment) -> LoadedExperiment | None:
    """Return the grid of the comparison with the chosen values; None if candidates have to be trained first."""
    experiment = resolved.experiment
    if experiment.choose is None:
        return resolved
    plan = make_plan(candidates(experiment))
    if any(status.action != "reuse" for status in plan.statuses.values()):
        return None
    scores = {cell: score_of(status, plan.experiment) for cell, status in plan.statuses.items()}
    return replace(with_chosen(experiment, scores), file=resolved.file)


def require_settled(resolved: LoadedExperiment) -> LoadedExperiment:
    """Return the grid of the comparison; raise UserError if its values are not chosen yet."""
    found = settled(resolved)
    if found is None:
        raise UserError(
            f"the values of `choose` are not chosen yet: run `ablate run {resolved.file}` (if another file evaluated "
            "the candidates otherwise since, none is trained again)"
        )
    return found


def with_rows_written(resolved: LoadedExperiment) -> dict[str, Any]:
    """Return an experiment file that asks for the same cells, whose rows write every setting: without `settings`,
    `choose` and baselines."""
    sections = []
    for part in resolved.sections:
        rows, distinct = {}, dict[Cell, Row]()
        for row in (row for row in part.rows if not row.cells[0].soup):
            distinct.setdefault(row.cells[0], row)  # chosen values may have made rows alike
        for row in distinct.values():
            parts = row.cells[0].model_dump(mode="json", exclude={"seed", "plugins", "soup"}, exclude_none=True)
            name = row.label.replace("{", "{{").replace("}", "}}")
            rows[name] = {setting: value for values in parts.values() for setting, value in values.items()}
        show = part.section.show.model_dump(mode="json")
        show["table"] |= {"rows": None, "columns": None}  # there are no axes
        sections.append({"title": part.title, "rows": rows, "baseline": NO_BASELINE, "show": show})
    kept = resolved.experiment.model_dump(mode="json", exclude={"settings", "choose", "sections"})
    return kept | {"sections": sections}


def score_of(status: Status, experiment: Experiment) -> tuple[float, bool | None]:
    """Return the score that a candidate is judged by, nan if it diverged, and whether higher is better."""
    folder = store.run_folder(status.id)
    if outcome(folder, evaluation_key(experiment.evaluation))[0] != "finished":
        return math.nan, None
    for score in store.read_json(folder / "scores.json")["scores"]:
        if score["name"] == experiment.report.primary:
            return float(score["value"]), score["higher_is_better"]
    return math.nan, None


def with_chosen(experiment: Experiment, scores: Mapping[Cell, tuple[float, bool | None]]) -> LoadedExperiment:
    """Return the grid in which each row has the value with the best mean score; ties go to the first."""
    values, means = dict[RowKey, Overlay](), dict[RowKey, list[float]]()
    rows = list(rows_to_choose(experiment, Builder(choosing(experiment))))
    for row in rows:
        if len(row.options) == 1:
            values[row.key] = row.options[0][0]
            continue
        measured = [[scores[cell] for cell in cells] for _, cells in row.options]
        sign = -1 if any(higher is False for each in measured for _, higher in each) else 1
        means[row.key] = [sum(score for score, _ in each) / len(each) for each in measured]
        best = max((sign * mean for mean in means[row.key] if math.isfinite(mean)), default=None)
        if best is None:
            number, setting, key, _ = row.key
            where = f"{experiment.sections[number].title}{f' ({setting})' if setting else ''}"
            raise UserError(f"{where}: {key} diverged with all values to choose from; give others in `choose`")
        values[row.key] = row.options[[sign * mean for mean in means[row.key]].index(best)][0]
    resolved = Builder(experiment, values).resolved()
    return replace(resolved, choice=values, chosen=tuple(described(resolved, rows, values, means)))


def first_values(experiment: Experiment) -> LoadedExperiment:
    """Return the grid of the comparison as if the first values were chosen, to see its size."""
    rows = rows_to_choose(experiment, Builder(choosing(experiment)))
    return Builder(experiment, {row.key: row.options[0][0] for row in rows}).resolved()


def described(
    resolved: LoadedExperiment,
    rows: Sequence[Candidates],
    values: Mapping[RowKey, Overlay],
    means: Mapping[RowKey, list[float]],
) -> Iterator[ChosenRow]:
    """Yield what was chosen for each row, with the means of all values, and what rows give themselves."""
    of_key = {row.key: row for row in rows}
    for part in resolved.sections:
        for row in part.rows:
            key = (part.number, part.setting, row.key, row.position)
            own = own_choices(part.section.rows[row.key], resolved.experiment.choose or {})
            given = {name: setting_value(row.cells[0], name) for name in own if name in settings_of_cell(row.cells[0])}
            if given:
                yield ChosenRow(part.title, row.label, text_of(given), {}, False)
            if key in means:
                options = [option for option, _ in of_key[key].options]
                known = [mean if math.isfinite(mean) else None for mean in means[key]]
                tried = dict(zip(map(text_of, options), known, strict=True))
                edge = at_edge(values[key], options)
                yield ChosenRow(part.title, row.label, text_of(values[key]), tried, edge)


def text_of(option: Overlay) -> str:
    return ", ".join(f"{name} {short_value(name, value)}" for name, value in option.items())


def at_edge(chosen: Overlay, options: Sequence[Overlay]) -> bool:
    """Return whether a chosen number is the smallest or largest of at least three."""
    for name, value in chosen.items():
        tried = sorted({option[name] for option in options if isinstance(option[name], int | float)})
        if len(tried) > 2 and value in (tried[0], tried[-1]):
            return True
    return False
