"""Read an experiment file and check it completely: all mistakes at once, each with its line and what would be right."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from contrastive import paths
from contrastive.cells import grid
from contrastive.config import registry
from contrastive.config.cell import Encoder, Scratch, Training, misfit
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import PARTS, SETTINGS, Experiment, Section
from contrastive.config.objective import Objective
from contrastive.errors import UserError, brief, brief_name
from contrastive.experiment import schema
from contrastive.experiment.messages import MISSING, Finding, Place, explained, listed, nearest, shown, unknown_in_cells
from contrastive.experiment.yaml_lines import LONGEST, Document, Problem, read
from contrastive.sources import deepspeed_file, positions
from contrastive.sources.locate import TRANSLATOR_FILES, can_guess, check_block, check_width, model_folder

PINNED = re.compile(r"hf:[^@]+/[^@]+@[0-9a-f]{40}")
MOST_SHOWN = 30  # mistakes of a file that a terminal is given
SHOWN = [("title",), ("note",), ("show",)]  # of a section: decides no cell
# Stands in for what is missing or wrong, so that the rest of the file can be checked too.
PLACEHOLDERS: dict[str, Any] = {
    "name": "x",
    "source": "package:any",
    "test": 1,
    "model": "scratch:bert",
    "title": "?",
    "data": {"source": "package:any", "test": 1},
    "encoder": {"model": "scratch:bert"},
    "sections": ({"title": "?"},),
}
# Why no cell reads a setting that no loss and no view names, or that these read only at times.
UNREAD = {
    "view": "no loss there compares vectors",
    "alpha": "it weighs further terms against the cross-entropy, and no loss there has both",
    "layer_decay": "the encoder is frozen there, or has adapters, which all train at one rate",
    "encoder_lr": "the encoder is frozen there",
    "head_lr": "no loss there has a head",
}


class ExperimentError(UserError):
    """All mistakes of an experiment file; shown one a line, the first of many."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        rest = len(self.problems) - MOST_SHOWN
        return "\n".join([*map(str, self.problems[:MOST_SHOWN]), *([f"and {rest} more"] if rest > 0 else [])])


def load(path: Path | str) -> Experiment:
    """The experiment of a file; ExperimentError with every mistake."""
    name = str(path)
    try:
        if not os.path.isdir(path) and os.path.lexists(path):
            paths.check_file(Path(path))  # a pipe, for one, would be waited for without end
        with Path(path).open("rb") as file:
            content = file.read(4 * LONGEST + 1)  # bytes of a character: what is larger is not read whole
    except UserError as error:
        raise ExperimentError([Problem(name, 0, str(error).removeprefix(f"{brief(path)} "))]) from None
    except FileNotFoundError:
        raise ExperimentError([Problem(name, 0, "there is no such file" + _files(Path(path)))]) from None
    except IsADirectoryError:
        raise ExperimentError([Problem(name, 0, "is a folder; name a file in it" + _files(Path(path) / "x"))]) from None
    except OSError as error:
        raise ExperimentError([Problem(name, 0, f"cannot be read: {error.strerror}")]) from None
    try:
        return parse(content.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"not UTF-8 (byte {content[error.start]:#04x}); save the file as UTF-8"
        raise ExperimentError([Problem(name, line, message)]) from None


def parse(text: str, name: str = "experiment") -> Experiment:
    """The experiment that a text describes; ExperimentError with every mistake."""
    document = read(text, name)
    if document.data is None and not document.problems:
        raise ExperimentError([Problem(name, 1, "the file is empty; it needs name, data, encoder and sections")])
    if not isinstance(document.data, dict):
        got = f"expected settings (name: value), got {shown(document.data)}"
        raise ExperimentError(document.problems or [Problem(name, 1, got)])
    experiment, findings = _experiment(document.data)
    findings += _outside_cells(experiment, findings)
    findings += list(_too_many(experiment)) or _in_cells(experiment, findings)
    problems = document.problems + [_problem(document, name, *finding) for finding in findings]
    if problems:
        raise ExperimentError(sorted(set(problems)))
    return experiment


def _experiment(data: dict[str, Any]) -> tuple[Experiment, list[Finding]]:
    """The experiment, with what is wrong left out, and what was wrong."""
    findings: list[Finding] = []
    for attempt in range(10):  # what is checked last shows only once the rest is right
        try:
            experiment = Experiment.model_validate(data, strict=True)
            return experiment, findings + list(_values(experiment))
        except ValidationError as error:
            found = list(explained(error, Experiment, data))
            findings += [item for item in found if attempt == 0 or not item[1].startswith(MISSING)]
            data = _repaired(data, dict.fromkeys(_replaceable(place) for place, _ in found))
    raise AssertionError(f"no repair for {findings}")


def _values(experiment: Experiment) -> Iterator[Finding]:
    """What is wrong with the settings in a section's maps, each value on its own, and with names that are looked up."""
    for part, name in (
        ("data", "source"),
        ("encoder", "model"),
        ("objective", "translators"),
        ("training", "sharding"),
    ):
        yield from (((part, name), text) for text in _lookups(name, getattr(getattr(experiment, part), name)))
    for number, section in enumerate(experiment.sections):
        place: Place = ("sections", number)
        maps: list[tuple[Place, Mapping[str, Any]]] = [
            ((*place, "base"), section.base),
            ((*place, "baseline"), section.baseline),
        ]
        for kind, further in (("include", section.include), ("exclude", section.exclude)):
            maps += [((*place, kind, position), settings) for position, settings in enumerate(further)]
        for where, settings in maps:
            for name, value in settings.items():
                yield from _value((*where, name), name, value)
        for name, values in section.axes.items():
            yield from _axis((*place, "axes", name), name, values)


def _axis(place: Place, name: str, values: tuple[Any, ...]) -> Iterator[Finding]:
    if name not in SETTINGS:
        yield place, unknown_in_cells(name)
        return
    if not values:
        yield place, "an empty axis; give it a value or leave it out"
    for position, value in enumerate(values):
        yield from _value((*place, position), name, value)
    yield from (((*place, position), f"{shown(values[position])} is given twice") for position in _repeated(values))


def _value(place: Place, name: str, value: Any) -> Iterator[Finding]:
    if name not in SETTINGS:
        yield place, unknown_in_cells(name)
        return
    try:
        for text in _lookups(name, grid.check_value(name, value)):
            yield place, text
    except ValidationError as error:
        for where, message in explained(error, PARTS[SETTINGS[name]], {name: value}):
            yield (*place, *where[1:]), message


def _lookups(name: str, value: Any) -> Iterator[str]:
    if name == "sharding":
        yield from _unusable(value)
        return
    for source in {"source": [value], "model": [value], "translators": value}.get(name) or ():
        if source.startswith("hf:") and not PINNED.fullmatch(source):
            yield f"expected hf:OWNER/NAME@REVISION with the 40 hex digits of a commit, got {shown(source)}"
        elif name == "translators":
            yield from _missing(source)
    if name == "source" and value.startswith("package:") and value != PLACEHOLDERS["source"]:
        packages = registry.entries("contrastive.data", "DATASETS")
        package = value.removeprefix("package:")
        if package not in packages:
            yield f"no data of a package `{brief_name(package)}`" + nearest(package, packages)


def _missing(model: str) -> Iterator[str]:
    """Why a model is not on this machine; one of a hub is fetched when it is needed."""
    try:
        if not model.startswith("hf:"):
            model_folder(model, TRANSLATOR_FILES)
    except UserError as error:
        yield str(error)


def _unusable(sharding: str | None) -> Iterator[str]:
    """Why a file of DeepSpeed's cannot be used."""
    try:
        if sharding is not None and sharding.startswith(deepspeed_file.KIND):
            deepspeed_file.settings(sharding)
    except UserError as error:
        yield str(error)


def _outside_cells(experiment: Experiment, findings: list[Finding]) -> Iterator[Finding]:
    """What no single value shows: repeated seeds and titles, and tables of what is not there."""
    for position in _repeated(experiment.seeds):
        yield ("seeds", position), f"{experiment.seeds[position]} is given twice"
    if "validation" in experiment.evaluation.splits and not _has_validation(experiment):
        yield ("evaluation", "splits"), "`validation` has no texts; give data.validation a number, or a split or file"
    yield from _evaluation(experiment)
    for name in ("metrics", "splits", "vectors", "post"):
        values = getattr(experiment.evaluation, name)
        for position in _repeated(values):
            yield ("evaluation", name, position), f"`{values[position]}` is given twice"
    titles = [section.title for section in experiment.sections]
    for number in _repeated(titles):
        if titles[number] != PLACEHOLDERS["title"]:
            yield ("sections", number, "title"), f"another section has the title {shown(titles[number])} too"
    evaluation_is_sound = not any(place[0] == "evaluation" for place, _ in findings)
    there = evaluated(experiment.evaluation) if evaluation_is_sound else None
    for number, section in enumerate(experiment.sections):
        yield from _table(("sections", number), section, experiment.evaluation, there)


def _evaluation(experiment: Experiment) -> Iterator[Finding]:
    """What is not there to be measured with: blocks of the encoder, a package, further data of that name."""
    place: Place = ("evaluation",)
    evaluation = experiment.evaluation
    if evaluation.picture == "umap" and find_spec("umap") is None:
        yield (*place, "picture"), "umap is not installed: `pip install umap-learn`"
    for position, name in enumerate(evaluation.vectors):
        if not experiment.encoder.model.startswith("hf:"):  # which is fetched when it is needed
            try:
                check_block(experiment.encoder, name)
            except UserError as error:
                yield (*place, "vectors", position), str(error)
    for position, how in enumerate(evaluation.post):
        if not experiment.encoder.model.startswith("hf:"):
            try:
                check_width(experiment.encoder, how)
            except UserError as error:
                yield (*place, "post", position), str(error)
    names = [transfer.name for transfer in evaluation.transfer]
    for position in _repeated(names):
        yield (*place, "transfer", position, "name"), f"other further data has the name {names[position]} too"
    for position, transfer in enumerate(evaluation.transfer):
        yield from (((*place, "transfer", position, "source"), text) for text in _lookups("source", transfer.source))


def _has_validation(experiment: Experiment) -> bool:
    sections = (name for section in experiment.sections for name in (*section.base, *section.axes))
    return experiment.data.validation != 0 or "validation" in sections


def evaluated(evaluation: Evaluation) -> list[str]:
    """Names of the scores of the vectors that trained."""
    scores = [name for metric in evaluation.metrics for name in schema.score_names(metric)]
    there = [f"{split}.{name}" for split in evaluation.splits for name in scores]
    there += [name for transfer in evaluation.transfer for name in transfer.scores()]
    return there + (["transfer.mean"] if len(evaluation.transfer) > 1 else [])


def _table(place: Place, section: Section, evaluation: Evaluation, there: list[str] | None) -> Iterator[Finding]:
    """What a table shows that is not there; `there` are the names of the scores, where these are known."""
    table, place = section.show.table, (*place, "show", "table")
    axes = grid.axis_names(section)
    for side in ("rows", "columns"):
        name = getattr(table, side)
        if name is not None and name not in axes:
            yield (*place, side), f"`{brief_name(name)}` is not an axis of this section" + nearest(name, axes)
    if table.columns is not None and table.columns == table.rows:
        yield (*place, "columns"), f"`{brief_name(table.columns)}` names the rows already"
    if there is None:
        return
    if section.show.transfer and not evaluation.transfer:
        yield (*place[:-1], "transfer"), "there is no further data: name some under evaluation.transfer"
    known = set(there) if len(table.values) > 1 else there
    for position, value in enumerate(table.values):
        if value not in known:
            yield (*place, "values", position), f"`{brief_name(value)}` is not evaluated" + nearest(value, there)


def _too_many(experiment: Experiment) -> Iterator[Finding]:
    """More cells than anybody means to train. They are counted, since to make them would take hours and all memory."""
    counts = [grid.count(section) for section in experiment.sections]
    cells, most = sum(counts) * len(experiment.seeds), experiment.resources.most_cells
    if cells <= most:
        return
    number = counts.index(max(counts))
    parts = [f"{name} {len(values)}" for name, values in experiment.sections[number].axes.items()]
    parts += [f"include {length}"] if (length := len(experiment.sections[number].include)) else []
    yield (
        ("sections", number),
        f"{sum(counts)} combinations × {len(experiment.seeds)} seeds are {cells} cells, before `exclude`, and at most "
        f"{most} are taken; the most are here: {listed(parts)} values. Give fewer, or raise resources.most_cells",
    )


def _in_cells(experiment: Experiment, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Settings that are right alone and wrong together, in the sections that are right so far."""
    wrong = {place[:2] if place[0] == "sections" else place[:1] for place, _ in findings if place[2:3] not in SHOWN}
    if wrong & {("encoder",), ("objective",)}:
        return
    builder = grid.Builder(experiment)
    sound, read = not wrong, set[str]()
    for number, section in enumerate(experiment.sections):
        place: Place = ("sections", number)
        if place in wrong:
            continue
        kept, unmatched = grid.combinations(section, builder.settings)
        yield from (((*place, "exclude", position), "matches no combination") for position in unmatched)
        if not kept:
            yield place, "`exclude` leaves no combination"
        overlays = list(grid.overlays(section, builder))
        refused = [text for overlay, *_ in overlays for text in _refusals(builder, overlay)]
        yield from ((place, text) for text in dict.fromkeys(refused))
        sound = sound and not refused
        here = {baseline: _read(builder, [o for o, is_one, _ in overlays if is_one >= baseline]) for baseline in (0, 1)}
        if not refused:
            yield from _unread(_given(place, section), here[0])
            yield from _unread(_objective((*place, "baseline"), section.baseline), here[1])
        read |= here[0]
    if sound:
        yield from _unread(_objective(("objective",), experiment.objective.model_dump(exclude_unset=True)), read)


def _read(builder: grid.Builder, overlays: Iterable[grid.Overlay]) -> set[str]:
    """The settings that the cells of these overlays read."""
    return {name for overlay in overlays for name in builder.relevant(builder.settings | overlay)}


def _refusals(builder: grid.Builder, overlay: grid.Overlay) -> Iterator[str]:
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


def _unread(given: Iterable[tuple[Place, str]], read: set[str]) -> Iterator[Finding]:
    """Settings that no cell reads, such as a queue where no loss has one."""
    for place, name in given:
        if name not in read:
            readers = ", ".join(registry.readers(name))
            reason = UNREAD.get(name) or (f"it is for {readers}" if readers else "it decides nothing there")
            yield place, f"no cell here reads this setting: {reason}"


def _given(place: Place, section: Section) -> Iterator[tuple[Place, str]]:
    """The settings by which a section's cells are to differ, and those of its objective."""
    yield from _objective((*place, "base"), section.base)
    yield from (((*place, "axes", name), name) for name in section.axes)
    for number, further in enumerate(section.include):
        yield from _objective((*place, "include", number), further)


def _objective(place: Place, settings: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Those that are not what they would be anyway."""
    for name, value in settings.items():
        if SETTINGS[name] == "objective" and value != PARTS["objective"].model_fields[name].default:
            yield (*place, name), name


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


def _replaceable(place: Place) -> Place:
    """The setting that holds a place: a wrong item takes its list with it, unless the items are settings."""
    while isinstance(place[-1], int) and place[-2] not in ("sections", "include", "exclude"):
        place = place[:-1]
    return place


def _repaired(data: Any, places: Iterable[Place], holder: str = "") -> Any:
    """The data without what is at `places`, or with something that will do."""
    rests: dict[str | int, list[Place]] = {}
    for place in places:
        rests.setdefault(place[0], []).append(place[1:])
    if isinstance(data, tuple):
        usable, items = PLACEHOLDERS["sections"][0] if holder == "sections" else {}, list(data)
        for position, inner in rests.items():
            assert isinstance(position, int)
            items[position] = usable if () in inner else _repaired(items[position], inner)
        return tuple(items)
    if not isinstance(data, dict):
        return data  # another repair took it
    found = dict(data)
    for name, inner in rests.items():
        if () not in inner:
            found |= {name: _repaired(data[name], inner, str(name))} if name in data else {}
        elif name in data:
            del found[name]
        elif name in PLACEHOLDERS:
            found[name] = PLACEHOLDERS[name]
    return found


def _repeated(values: Sequence[Any]) -> Iterator[int]:
    """The positions of the values that stand before already."""
    seen = set()
    for position, value in enumerate(values):
        if (key := _key(value)) in seen:
            yield position
        seen.add(key)


def _key(value: Any) -> Any:
    """Equal for values that say the same: 1 and 1.0 do, 1 and true do not."""
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, Mapping):
        return frozenset((name, _key(inner)) for name, inner in value.items())
    return isinstance(value, bool), value


def _problem(document: Document, name: str, place: Place, message: str) -> Problem:
    setting = ".".join(brief_name(part) for part in place if isinstance(part, str))
    return Problem(name, document.line(place), f"{setting}: {message}" if setting else message)


def _files(path: Path) -> str:
    """The experiment files beside a path, for an error about it."""
    names = sorted(file.name for pattern in ("*.yaml", "*.yml") for file in path.parent.glob(pattern))
    return nearest(path.name, names, otherwise=f"; there are {', '.join(names)}" if names else "")
