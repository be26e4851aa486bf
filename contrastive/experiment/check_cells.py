"""What is wrong with the cells of an experiment: settings that are right alone and wrong together, or read by none."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from contrastive.cells.combinations import Overlay, count_combinations
from contrastive.cells.grid import Builder, Resolved, Variant
from contrastive.cells.names import row_label
from contrastive.config import registry
from contrastive.config.cell import Encoder, Scratch, Training, misfit
from contrastive.config.experiment import PARTS, SETTINGS, Experiment, Section
from contrastive.config.objective import Objective
from contrastive.errors import UserError
from contrastive.experiment.messages import Finding, SettingPath, comma_list, nearest_name, shown_value
from contrastive.sources import deepspeed_file, positions
from contrastive.sources.locate import can_guess

SHOWN = [("title",), ("note",), ("show",)]  # of a section: decides no cell
OF_ALL_CELLS: set[SettingPath] = {("data", "resample")}  # what is wrong there is wrong in every cell, and said once
# Why no cell reads a setting that no loss and no view names, or that these read only at times.
UNREAD = {
    "view": "no loss there compares vectors",
    "alpha": "it weighs further terms against the cross-entropy, and no loss there has both",
    "layer_decay": "the encoder is frozen there, or has adapters, which all train at one rate",
    "encoder_lr": "the encoder is frozen there",
    "head_lr": "no loss there has a head",
}


def too_many(experiment: Experiment) -> Iterator[Finding]:
    """More cells than anybody means to train. They are counted, since to make them would take hours and all memory."""
    counts = [count_combinations(section) for section in experiment.sections]
    cells, most = sum(counts) * len(experiment.seeds), experiment.resources.most_cells
    if cells <= most:
        return
    number = counts.index(max(counts))
    parts = [f"{name} {len(values)}" for name, values in experiment.sections[number].axes.items()]
    parts += [f"include {length}"] if (length := len(experiment.sections[number].include)) else []
    yield (
        ("sections", number),
        f"{sum(counts)} combinations × {len(experiment.seeds)} seeds are {cells} cells, before `exclude`, and at most "
        f"{most} are taken; the most are here: {comma_list(parts)} values. Give fewer, or raise resources.most_cells",
    )


def in_cells(builder: Builder, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Settings that are right alone and wrong together, in the sections that are right so far."""
    paths = {path for path, _ in findings}
    wrong = {path[:2] if path[0] == "sections" else path[:1] for path in paths if path[2:3] not in SHOWN}
    if wrong & {("encoder",), ("objective",)} or paths & OF_ALL_CELLS:
        return
    sound, read = not wrong, set[str]()
    for number, section in enumerate(builder.experiment.sections):
        path: SettingPath = ("sections", number)
        if path in wrong:
            continue
        rows, unmatched = builder.variants(number)
        yield from (((*path, "exclude", position), "matches no combination") for position in unmatched)
        if not rows:
            yield path, "`exclude` leaves no combination"
        refused = dict.fromkeys(text for row in rows for text in _refusals(builder, row.overlay))
        yield from ((path, text) for text in refused)
        sound = sound and not refused
        if not refused:
            yield from ((("evaluation", "test"), text) for text in _unmeasurable(builder, rows))
        every = _settings_read(builder, rows)
        if not refused:
            yield from _unread(_given(path, section), every)
            baselines = _settings_read(builder, [row for row in rows if row.is_baseline])
            yield from _unread(_objective((*path, "baseline"), section.baseline), baselines)
        read |= every
    if sound:
        own = builder.experiment.objective.model_dump(exclude_unset=True)
        yield from _unread(_objective(("objective",), own), read)


def wrong_labels(resolved: Resolved) -> Iterator[Finding]:
    """Labels that name no row and no part of one, and rows of a section that would have the same name."""
    labels, path = resolved.experiment.report.labels, ("report", "labels")
    rows = [row for section in resolved.sections for row in section.rows]
    names = dict.fromkeys(name for row in rows for name in (row_label(row.parts), *row.parts))
    for name, label in labels.items():
        if name not in names:
            yield (*path, name), f"no row and no part of one has this name{nearest_name(name, names)}"
        elif not label.strip():
            yield (*path, name), "an empty name; give it letters, or leave it out"
    for section in resolved.sections:
        seen: dict[str, str] = {}
        for row in section.rows if labels else ():
            own = row_label(row.parts)
            if (other := seen.setdefault(row.label, own)) != own:
                renamed = [name for name in (own, other, *row.parts) if name in labels]
                yield (*path, *renamed[:1]), f"{own} and {other} would both be called {shown_value(row.label)}"


def _settings_read(builder: Builder, rows: Iterable[Variant]) -> set[str]:
    """The settings that the cells of these rows read."""
    return set().union(*{builder.reads(row.overlay) for row in rows})


def _unmeasurable(builder: Builder, rows: Iterable[Variant]) -> Iterable[str]:
    """Why cells of these rows cannot be measured on as many test texts as are asked for."""
    data = dict.fromkeys(builder.build(row.overlay)["data"] for row in rows)
    return dict.fromkeys(reason for each in data if (reason := builder.experiment.evaluation.unmeasurable(each)))


def _refusals(builder: Builder, overlay: Overlay) -> Iterator[str]:
    try:
        parts = builder.build(overlay)
        encoder, longest = parts["encoder"], parts["data"].max_length
    except ValidationError as error:
        for item in error.errors():
            reason = str(item.get("ctx", {}).get("error", item["msg"]))
            yield f"{reason} (drop this combination with `exclude`, or mend it)"
        return
    reason = misfit(parts["data"], encoder, parts["objective"], parts["training"])
    reason = reason or _cannot_guess(encoder, parts["objective"])
    if reason := reason or _cannot_split(parts["objective"], parts["training"]):
        yield f"{reason} (drop this combination with `exclude`, or mend it)"
    used = builder.relevant(builder.settings | overlay)
    if used.get("k", 0) > longest:
        yield f"k is {used['k']}, and a text has at most {longest} tokens (data.max_length)"
    most = positions.longest(encoder.model)
    if most is not None and longest > most:
        yield f"data.max_length is {longest}, and {encoder.model} takes at most {most} tokens: lower data.max_length"
    if encoder.model.startswith("scratch:"):
        blocks = (encoder.scratch or Scratch()).layers
        wanted = [*(used.get("layers") or ()), used.get("middle") or 0, (encoder.tune.last_blocks or 1) - 1]
        if max(wanted) >= blocks:
            yield f"block {max(wanted)} is asked for, and the encoder's blocks are 0 to {blocks - 1}"


def _unread(given: Iterable[tuple[SettingPath, str]], read: set[str]) -> Iterator[Finding]:
    """Settings that no cell reads, such as a queue where no loss has one."""
    for path, name in given:
        if name not in read:
            readers = ", ".join(registry.readers(name))
            reason = UNREAD.get(name) or (f"it is for {readers}" if readers else "it decides nothing there")
            yield path, f"no cell here reads this setting: {reason}"


def _given(path: SettingPath, section: Section) -> Iterator[tuple[SettingPath, str]]:
    """The settings by which a section's cells are to differ, and those of its objective."""
    yield from _objective((*path, "base"), section.base)
    yield from (((*path, "axes", name), name) for name in section.axes)
    for number, further in enumerate(section.include):
        yield from _objective((*path, "include", number), further)


def _objective(path: SettingPath, settings: Mapping[str, Any]) -> Iterator[tuple[SettingPath, str]]:
    """Those that are not what they would be anyway."""
    for name, value in settings.items():
        if SETTINGS[name] == "objective" and value != PARTS["objective"].model_fields[name].default:
            yield (*path, name), name


def _cannot_guess(encoder: Encoder, objective: Objective) -> str:
    if not (guessing := objective.guessing()):
        return ""
    try:
        able = can_guess(encoder)
    except UserError:  # said where the model is looked up
        return ""
    if able:
        return ""
    return (
        f"{encoder.model} has no head that guesses hidden words: take another model, or none of {', '.join(guessing)}"
    )


def _cannot_split(objective: Objective, training: Training) -> str:
    try:
        return deepspeed_file.unshareable(objective, training)
    except UserError:  # said where the file is looked up
        return ""
