"""Compare an experiment file with the grid in MLflow: what the file shows is applied, what has not run is refused."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from contrastive.config.experiment import PARTS, Experiment
from contrastive.errors import UserError, brief_name
from contrastive.grid.expand import Builder, GridSection, LoadedExperiment, with_seeds
from contrastive.grid.load import load_experiment
from contrastive.grid.plan import Plan, declaration, settings_digest
from contrastive.runs import store
from contrastive.runs.recorded import RecordedGrid, RecordedSection, Stopping
from reports.guards import changed_declarations
from reports.load import load_grid
from tasks.address import tracking_uri
from tasks.record import record_grid
from tasks.tracking import as_tracking_error, open_tracker


class NotWhatRan(UserError):
    """Rows, seeds or rules of an experiment file are not those that ran."""


MOST_NAMED = 3  # differences that an error names


def apply_file(file: Path) -> None:
    """Write the labels, notes and shown scores of an experiment file into MLflow.

    Raise NotWhatRan if rows, seeds or rules of the file are not those that ran.
    """
    recorded, edited = compare_file(file)
    if edited.document() != recorded.document():
        record_grid(open_tracker(store.home()), edited.experiment.name, edited.document())


def audit_file(file: Path) -> list[str]:
    """Return the difference between an experiment file and MLflow as a line; an empty list if they agree."""
    try:
        recorded, edited = compare_file(file)
    except NotWhatRan as error:
        return [str(error)]
    same = edited.document() == recorded.document()
    return [] if same else [f"{file} has other labels, notes or shown scores than MLflow: run `ablate report {file}`"]


def compare_file(file: Path) -> tuple[RecordedGrid, RecordedGrid]:
    """Return the grid in MLflow, and the same grid with what the file shows; raise NotWhatRan."""
    resolved = load_experiment(file)
    with as_tracking_error():
        recorded = load_grid(resolved.experiment.name, tracking_uri(store.home()))
    ran = Builder(recorded.experiment).resolved()
    if named := list(islice(differences(ran, resolved, recorded.stopping), MOST_NAMED + 1)):
        study = recorded.stopping
        options = f" --until-decided --max-seeds {study.most_seeds}" if study else ""
        options += " --regardless" if study and not study.gives_up else ""
        more = "; …" if len(named) > MOST_NAMED else ""
        raise NotWhatRan(
            f"{file} is not what ran; it changes {'; '.join(named[:MOST_NAMED])}{more}: "
            f"run `ablate run {file}{options}`"
        )
    return recorded, with_shown(recorded, ran, resolved)


def differences(ran: LoadedExperiment, resolved: LoadedExperiment, stopping: Stopping | None) -> Iterator[str]:
    """Yield what decides or judges results and differs between the experiment that ran and a file."""
    rules = [*changed_declarations(*(declaration(Plan(grid, {}), stopping) for grid in (ran, resolved)))]
    before, after = ran.experiment, resolved.experiment
    yield from changed_settings(before, after, ("evaluation", *(PARTS if rules else ())))
    if before.report.primary != after.report.primary:
        yield f"the primary score from {before.report.primary or 'none'} to {after.report.primary or 'none'}"
    yield from rules
    if stopping is not None:
        wanted = with_seeds(resolved, stopping.most_seeds).experiment.seeds[: len(before.seeds)]
        if wanted != before.seeds:
            yield f"the first seeds from {', '.join(map(str, before.seeds))} to {', '.join(map(str, wanted))}"


def changed_settings(before: Experiment, after: Experiment, parts: tuple[str, ...]) -> Iterator[str]:
    for part in parts:
        old, new = (getattr(experiment, part).model_dump(mode="json") for experiment in (before, after))
        for name in (name for name in old if old[name] != new[name]):
            yield f"{part}.{name} from {brief_name(old[name])} to {brief_name(new[name])}"


def with_shown(recorded: RecordedGrid, ran: LoadedExperiment, resolved: LoadedExperiment) -> RecordedGrid:
    """Return a recorded grid with the labels, notes and shown scores of a file; rows are matched by their settings."""
    rows = {
        (part.section.title, settings_digest(row)): kept
        for part, section in zip(ran.sections, recorded.sections, strict=True)
        for row, kept in zip(part.rows, section.rows, strict=True)
    }
    names, looks = dict[str, str](), {} if recorded.stopping is None else dict(recorded.stopping.looks)

    def section_of(part: GridSection) -> RecordedSection:
        title, labels, shown = part.section.title, dict[str, str](), []
        for row in part.rows:
            kept, data = rows[title, settings_digest(row)], resolved.data_names[row.cells[0].data]
            names[kept.data], labels[kept.label] = data, row.label
            shown.append(replace(kept, label=row.label, axes=row.axes, against=row.against, data=data))
        if title in looks:
            looks[title] = [replace(look, verdicts=relabelled(look.verdicts, labels)) for look in looks[title]]
        return RecordedSection(title, part.section.note, part.section.show, shown)

    sections = [section_of(part) for part in resolved.sections]
    return replace(
        recorded,
        experiment=resolved.experiment.model_copy(update={"seeds": recorded.experiment.seeds}),
        sections=sections,
        references=[replace(each, data=names.get(each.data, each.data)) for each in recorded.references],
        data=[each if each.transfer else replace(each, name=names.get(each.name, each.name)) for each in recorded.data],
        stopping=recorded.stopping and replace(recorded.stopping, looks=looks),
    )


def relabelled(verdicts: dict[str, str], labels: dict[str, str]) -> dict[str, str]:
    """Return the verdicts of a look, keyed `LABEL, SCORE` or `LABEL · VECTORS, SCORE`, with the new labels."""
    renamed = dict[str, str]()
    for key, verdict in verdicts.items():
        rows = [label for label in labels if key.startswith((f"{label}, ", f"{label} · "))]
        old = max(rows, key=len, default="")
        renamed[labels.get(old, old) + key.removeprefix(old)] = verdict
    return renamed
