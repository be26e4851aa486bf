"""The names that an experiment file may use, and the JSON schema that lets an editor complete and check them."""

import ast
import json
from functools import cache
from typing import Any

from contrastive.config import registry
from contrastive.config.experiment import PARTS, SETTINGS, Experiment

REGISTRIES = {
    "loss": ("contrastive.losses", "LOSSES"),
    "view": ("contrastive.views", "VIEWS"),
    "metrics": ("contrastive.evaluation.metrics", "METRICS"),
}


def names(setting: str) -> tuple[str, ...]:
    """The registered names that a setting chooses from."""
    return tuple(registry.entries(*REGISTRIES[setting]))


@cache
def score_names(metric: str) -> tuple[str, ...]:
    """Names of the scores that a metric computes, from `Score("x", …)`, `proportion` and `average` in its file."""
    entry = registry.entries(*REGISTRIES["metrics"])[metric]
    calls = [node for node in ast.walk(registry.parse(entry.module)) if isinstance(node, ast.Call)]
    made = [
        call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("Score", "proportion", "average")
    ]
    values = [
        value for call in made for value in [*call.args[:1], *(k.value for k in call.keywords if k.arg == "name")]
    ]
    found = tuple(value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str))
    assert found, f"{entry.module} makes no Score with a literal name"
    return found


def json_schema() -> dict[str, Any]:
    """The schema of an experiment file, with the registered names and the settings of `base` and `axes` spelt out."""
    schema = Experiment.model_json_schema()
    parts = schema["$defs"]
    objective, section = parts["Objective"]["properties"], parts["Section"]["properties"]
    losses = [
        name for loss in names("loss") for name in (loss, f"ce+{loss}") if loss not in ("ce", "rdrop") or name == loss
    ]
    one = "|".join(names("loss"))
    objective["loss"] |= {"anyOf": [{"enum": losses}, {"pattern": rf"^({one})(\+({one}))*$"}]}
    objective["view"] |= {"anyOf": [{"enum": list(names("view"))}, {"type": "null"}]}
    parts["Evaluation"]["properties"]["metrics"]["items"] = {"enum": list(names("metrics"))}
    scores = [
        f"{split}.{score}"
        for split in ("test", "validation", "train")
        for m in names("metrics")
        for score in score_names(m)
    ]
    further = {"pattern": r"^transfer\.[a-z0-9.-]+(_(all|mean))?$"}
    parts["Table"]["properties"]["values"]["items"] = {"anyOf": [{"enum": scores}, further]}
    parts["TuneSettings"] = parts["Tune"]
    parts["Tune"] = {"anyOf": [{"const": "full"}, {"$ref": "#/$defs/TuneSettings"}]}
    parts["Settings"] = {"type": "object", "additionalProperties": False, "properties": _settings(parts)}
    parts["Axes"] = parts["Settings"] | {"properties": {name: _axis(name) for name in SETTINGS}}
    for name in ("base", "baseline"):
        section[name] = _described(section[name], {"$ref": "#/$defs/Settings"})
    section["axes"] = _described(section["axes"], {"$ref": "#/$defs/Axes"})
    for name in ("include", "exclude"):
        section[name]["items"] = {"$ref": "#/$defs/Settings"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def text() -> str:
    """What `configs/experiment.schema.json` holds."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _settings(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: parts[PARTS[part].__name__]["properties"][name] for name, part in SETTINGS.items()}


def _axis(name: str) -> dict[str, Any]:
    values = {"$ref": f"#/$defs/{PARTS[SETTINGS[name]].__name__}/properties/{name}"}
    return {"type": "array", "minItems": 1, "uniqueItems": True, "items": values}


def _described(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return new | {name: old[name] for name in ("description", "title") if name in old}
