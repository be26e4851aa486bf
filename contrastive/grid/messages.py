"""Turn pydantic's errors into messages (expected, actual, nearest name), and write the schema of experiment files."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from contrastive.config import registry
from contrastive.config.cell import PARTS, SETTINGS
from contrastive.config.experiment import Experiment, Section
from contrastive.config.objective import KNOWN
from contrastive.errors import LONGEST_NAME, brief, brief_name

SettingPath = tuple[str | int, ...]  # where in the file: ("sections", 0, "axes", "k", 1)
Finding = tuple[SettingPath, str]

LONGEST = 80  # most characters of a value that a message repeats
MOST_NAMES = 60  # most names that a message lists
SETTINGS_MAP = "settings (name: value)"
EXPECTED = {"tuple_type": "a list", "mapping_type": SETTINGS_MAP, "dict_type": SETTINGS_MAP, "model_type": SETTINGS_MAP}
# Of types and texts with a form whose field has no description
EXPECTED_AS = {
    "Tune": "full, {last_blocks: N}, {lora: {r: N}} or both",
    "name": "lower-case letters, digits and - (at most 63)",
}


def explain_errors(error: ValidationError, model: type[BaseModel], data: Any) -> Iterator[Finding]:
    """Yield path and message of pydantic's errors; errors at one path (members of a union) become one."""
    by_path: dict[SettingPath, list[Any]] = {}
    for item in error.errors():
        path, value = _setting_path(item["loc"], data, item["type"])
        if item["type"] != "too_short" or not value:  # pydantic also counts a list of wrong items as too short
            by_path.setdefault(path, []).append(item)
    for path, items in by_path.items():
        parent, field = _field(model, path)
        described = field.description if field else None
        of_value = [item for item in items if not item["type"].endswith("_type")]
        if len(items) > 1 and not of_value and described:
            yield path, f"expected {described}, got {shown_value(items[0]['input'])}"
        else:
            yield path, _message((of_value or items)[0], parent, path, described)


def _message(item: Any, parent: type[BaseModel] | None, path: SettingPath, described: str | None) -> str:
    kind, got, context = item["type"], shown_value(item["input"]), item.get("ctx", {})
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    if kind == "extra_forbidden":
        return _unknown_setting(name, parent)
    if kind == "missing":
        return f"is missing{': ' + described if described else ''}"
    if kind == "value_error":
        return str(context["error"]) + _nearest_registered(name, item["input"])
    if kind == "literal_error":
        names = re.findall("'(.*?)'", context["expected"])
        return f"expected {context['expected']}, got {got}{nearest_name(item['input'], names)}"
    if kind == "too_short":
        return f"an empty list; give {name} a value or leave it out"
    expected = EXPECTED_AS.get(context.get("class_name", ""), EXPECTED.get(kind))
    if kind == "string_pattern_mismatch":
        expected = described or EXPECTED_AS.get(name)
    reason = item["msg"].removeprefix("Input ").replace("Tuple", "the list")
    return f"expected {expected}, got {got}" if expected else f"{reason}, got {got}"


def _setting_path(location: tuple[int | str, ...], data: Any, kind: str) -> tuple[SettingPath, Any]:
    """Return the part of pydantic's location that is in the file (without names of union members), and its value."""
    path: SettingPath = ()
    for part in location:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return ((*path, part), None) if kind == "missing" else (path, data)
        path = (*path, part)
    return path, data


def _field(model: type[BaseModel] | None, path: SettingPath) -> tuple[type[BaseModel] | None, FieldInfo | None]:
    """Return the schema's field for the setting at `path`, or for the list that contains it, and the model of both."""
    parent, field = None, None
    for part in path:
        if isinstance(part, str):
            model = model or PARTS.get(SETTINGS.get(part, ""))  # in a map of a section
            parent, field = model, model.model_fields.get(part) if model else None
            model = _inner_model(field.annotation) if field else None
    return parent, field


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner_model, get_args(annotation))), None)


def _unknown_setting(name: str, parent: type[BaseModel] | None) -> str:
    if parent is None and name in ("seed", "seeds"):
        return "seeds are set for the whole experiment: write `seeds: [0, 1, 2]` at the top level"
    names = list(parent.model_fields if parent else [*SETTINGS, "axes", "exclude", "by"])
    names.sort(key=lambda known: SETTINGS.get(known) != "objective" or known in KNOWN)  # those of users' files first
    if not difflib.get_close_matches(name, names, 1) and name in SETTINGS:
        part = "base" if parent is Section else SETTINGS[name]
        return f"there is no such setting here; did you mean `{part}: {{{name}: …}}`?"
    return "there is no such setting" + nearest_name(name, names)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def old_sections(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Find sections of files from before rows had names, with the rows to write."""
    sections, report = data.get("sections"), data.get("report")
    listed = sections if isinstance(sections, tuple) else ()
    maps = [section if isinstance(section, dict) else {} for section in listed]
    gone = {"axes", "include", "exclude"}
    old = [isinstance(each.get("baseline"), dict) or bool(gone & each.keys()) for each in maps]
    for number, section in enumerate(maps):
        axes, include = section.get("axes") or {}, section.get("include") or ()
        readable = isinstance(axes, dict) and all(isinstance(settings, dict) for settings in include)
        if readable and (old[number] or (any(old) and section and "rows" not in section)):
            yield ("sections", number), f"the rows of a section have names; write {_rows_to_write(section)}"
    if isinstance(report, dict) and "labels" in report:
        yield ("report", "labels"), "rows have their names in sections: leave labels out"


MOST_TO_WRITE = 900  # characters


def _rows_to_write(section: Mapping[str, Any]) -> str:
    """Return the `rows` and `baseline` of a section with `axes`, `include` or a map of settings as its baseline."""
    usual_loss = registry.literal("contrastive.losses", "USUAL_LOSS")
    axes, further = dict(section.get("axes") or {}), section.get("include") or ()
    rows = dict[str, Any](section.get("rows") or {})
    varied = {name for settings in (axes, *further) for name in settings}
    compared = any(SETTINGS.get(name) == "objective" for name in varied) or not varied
    usual = {"loss": usual_loss} if not rows and (compared or "loss" in (section.get("base") or {})) else {}
    baseline = section.get("baseline", usual)
    excluded, named = list(section.get("exclude") or ()), "" if baseline or rows else "none"
    is_grid = bool(axes) or not (further or rows)
    if baseline:
        further = [settings for settings in further if settings != baseline]
        # it had the other settings of each row; cross-entropy reads none of the objective's, a frozen encoder no rate
        own = {"objective"} if baseline.get("loss") == usual_loss else set[str]()
        idle = {"encoder_lr", "layer_decay"} if baseline.get("tune") == {"last_blocks": 0} else set[str]()
        shared = {n: values for n, values in axes.items() if n not in baseline and SETTINGS.get(n) not in own}
        others = {name for settings in further for name in settings if SETTINGS.get(name) not in own}
        fewer = any(exclude.keys() <= {*shared, *baseline} for exclude in excluded)
        if fewer or others - baseline.keys() - idle:
            return "each as `NAME: {settings}` under `rows`, its baseline first, in place of axes, include and baseline"
        first = ", ".join(["baseline", *(f"{{{name}}}" for name in shared)])
        rows = {first: {**baseline, "axes": shared}} | rows
        if all(value in axes.get(name, ()) for name, value in baseline.items()):
            excluded.append(baseline)
    if is_grid:
        names = ", ".join(f"{{{name}}}" for name in axes)
        rows[names or "NAME"] = {"axes": axes} | ({"exclude": excluded} if excluded else {})
    for number, settings in enumerate(further, 1):
        words = [str(value) for value in settings.values() if isinstance(value, str | int | float)]
        name = ", ".join(words) or f"NAME {number}"
        rows[f"{name}, {number}" if name in rows else name] = settings
    style: dict[str, Any] = {"default_flow_style": True, "width": 10**6, "allow_unicode": True, "sort_keys": False}
    written = yaml.dump(rows, Dumper=_Plain, **style).strip().replace(", axes: {}", "").replace("{axes: {}}", "{}")
    return f"`rows: {brief(written, MOST_TO_WRITE)}`" + (f" and `baseline: {named}`" if named else "")


def _nearest_registered(name: str, value: Any) -> str:
    if name not in REGISTRIES:
        return ""
    registered = names(name)
    parts = value.split("+") if isinstance(value, str) else value or ()
    unknown = [part for part in parts if part not in registered]
    return nearest_name(unknown[0], registered, otherwise="") if unknown else ""


def nearest_name(name: Any, names: Iterable[str], otherwise: str | None = None, prefix: str = "") -> str:
    names, word = list(names), str(name)[:LONGEST_NAME]
    containing = [candidate for candidate in names if len(word) > 2 and word in candidate]
    starting = [candidate for candidate in containing if candidate.startswith(word)]
    near = starting or difflib.get_close_matches(word, names, 1) or containing
    if near:
        return f"; did you mean `{prefix}{brief_name(near[0])}`?"
    return otherwise if otherwise is not None else f"; there are {comma_list(names)}" if names else "; it has none"


def comma_list(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(map(brief_name, names[:MOST_NAMES])) + (f" and {rest} more" if rest > 0 else "")


def shown_value(value: Any) -> str:
    return brief("nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str), LONGEST)


REGISTRIES = {
    "loss": ("contrastive.losses", "LOSSES"),
    "view": ("contrastive.views", "VIEWS"),
    "metrics": ("contrastive.evaluation.metrics", "METRICS"),
}
TRANSFER_SCORES = {"pattern": r"^transfer\.[a-z0-9.-]+(_all|_10)?$"}


def names(setting: str) -> tuple[str, ...]:
    """Return the registered names that a setting can take."""
    return tuple(registry.entries(*REGISTRIES[setting]))


def score_names(metric: str) -> tuple[str, ...]:
    """Return the names of the scores that a metric computes."""
    return tuple(facts.name for facts in registry.metrics()[metric].facts.scores) or (metric,)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of experiment files, with registered names and the settings of `base` and `axes`."""
    schema = Experiment.model_json_schema()
    parts = schema["$defs"]
    section = parts["Section"]["properties"]
    _name_losses_and_views(parts["Objective"]["properties"])
    scores = [score for metric in names("metrics") for score in score_names(metric)]
    shown = [f"{split}.{score}" for split in ("test", "validation", "train") for score in scores]
    parts["Evaluation"]["properties"]["metrics"]["items"] = {"enum": list(names("metrics"))}
    parts["ShownTable"]["properties"]["values"]["items"] = {"anyOf": [{"enum": shown}, TRANSFER_SCORES]}
    parts["TuneSettings"] = parts["Tune"]
    parts["Tune"] = {"anyOf": [{"const": "full"}, {"$ref": "#/$defs/TuneSettings"}]}
    parts["Settings"] = {"type": "object", "additionalProperties": False, "properties": {}}
    parts["Axes"] = parts["Settings"] | {"properties": {}}
    for name, part in SETTINGS.items():
        model = PARTS[part].__name__
        values = {"$ref": f"#/$defs/{model}/properties/{name}"}
        axis = {"type": "array", "minItems": 1, "uniqueItems": True, "items": values}
        parts["Settings"]["properties"][name] = parts[model]["properties"][name]
        parts["Axes"]["properties"][name] = axis
    settings, excludes = {"$ref": "#/$defs/Settings"}, {"type": "array", "items": {"$ref": "#/$defs/Settings"}}
    of_row = parts["Settings"]["properties"] | {"axes": {"$ref": "#/$defs/Axes"}, "exclude": excludes}
    parts["Data"]["required"].remove("source")  # settings may name it
    schema["properties"]["settings"]["additionalProperties"] = settings
    of_choice = {"by": {"type": "string"}, "seeds": {"type": "array", "minItems": 1, "items": {"type": "integer"}}}
    choice = {"properties": parts["Axes"]["properties"] | of_choice, "required": [*of_choice]}
    schema["properties"]["choose"]["anyOf"][0] = parts["Axes"] | choice
    parts["SectionRow"] = parts["Settings"] | {"properties": of_row}
    section["base"] = settings | {"description": section["base"]["description"]}
    section["rows"]["additionalProperties"] = {"$ref": "#/$defs/SectionRow"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _name_losses_and_views(objective: dict[str, Any]) -> None:
    """Add the values of `loss` and `view`, and to each other setting the losses and views that read it."""
    any_loss = "|".join(names("loss"))
    objective["loss"] |= {"anyOf": [{"enum": list(names("loss"))}, {"pattern": rf"^({any_loss})(\+({any_loss}))*$"}]}
    objective["view"] |= {"anyOf": [{"enum": list(names("view"))}, {"type": "null"}]}
    for name, schema in objective.items():
        if readers := registry.setting_readers(name):
            described = [schema["description"]] if "description" in schema else []
            schema["description"] = "; ".join([*described, f"read by {', '.join(readers)}"])


def schema_text() -> str:
    """Return the content of `configs/experiment.schema.json`."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
