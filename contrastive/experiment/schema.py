"""The names that an experiment file may use, and the JSON schema that lets an editor complete and check them."""

import json
from typing import Any

from contrastive.config import registry
from contrastive.config.experiment import PARTS, SETTINGS, Experiment

REGISTRIES = {
    "loss": ("contrastive.losses", "LOSSES"),
    "view": ("contrastive.views", "VIEWS"),
    "metrics": ("contrastive.evaluation.metrics", "METRICS"),
}
TRANSFER_SCORES = {"pattern": r"^transfer\.[a-z0-9.-]+(_(all|mean))?$"}


def names(setting: str) -> tuple[str, ...]:
    """The registered names that a setting chooses from."""
    return tuple(registry.entries(*REGISTRIES[setting]))


def score_names(metric: str) -> tuple[str, ...]:
    """Names of the scores that a metric computes."""
    return registry.metrics()[metric].facts.scores or (metric,)


def json_schema() -> dict[str, Any]:
    """The schema of an experiment file, with the registered names and the settings of `base` and `axes` spelt out."""
    schema = Experiment.model_json_schema()
    parts = schema["$defs"]
    section = parts["Section"]["properties"]
    _name_losses_and_views(parts["Objective"]["properties"])
    parts["Evaluation"]["properties"]["metrics"]["items"] = {"enum": list(names("metrics"))}
    parts["ShownTable"]["properties"]["values"]["items"] = {"anyOf": [{"enum": _scores()}, TRANSFER_SCORES]}
    parts["TuneSettings"] = parts["Tune"]
    parts["Tune"] = {"anyOf": [{"const": "full"}, {"$ref": "#/$defs/TuneSettings"}]}
    parts["Settings"] = {"type": "object", "additionalProperties": False, "properties": _settings(parts)}
    parts["Axes"] = parts["Settings"] | {"properties": {name: _axis_schema(name) for name in SETTINGS}}
    for name in ("base", "baseline"):
        section[name] = _with_description(section[name], {"$ref": "#/$defs/Settings"})
    section["axes"] = _with_description(section["axes"], {"$ref": "#/$defs/Axes"})
    for name in ("include", "exclude"):
        section[name]["items"] = {"$ref": "#/$defs/Settings"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _name_losses_and_views(objective: dict[str, Any]) -> None:
    """What the settings `loss` and `view` may be, and of each other setting which losses and views read it."""
    any_loss = "|".join(names("loss"))
    objective["loss"] |= {"anyOf": [{"enum": _usual_sums()}, {"pattern": rf"^({any_loss})(\+({any_loss}))*$"}]}
    objective["view"] |= {"anyOf": [{"enum": list(names("view"))}, {"type": "null"}]}
    for name, schema in objective.items():
        if readers := registry.readers(name):
            described = [schema["description"]] if "description" in schema else []
            schema["description"] = "; ".join([*described, f"read by {', '.join(readers)}"])


def _usual_sums() -> list[str]:
    """Each loss alone, and after the cross-entropy where it does not contain that."""
    losses = registry.loss_entries()
    supervised = next(name for name, line in losses.items() if line.facts.supervised)
    return [
        loss
        for name, line in losses.items()
        for loss in ([name] if line.facts.supervised or line.facts.contains else [name, f"{supervised}+{name}"])
    ]


def _scores() -> list[str]:
    splits = ("test", "validation", "train")
    return [f"{split}.{score}" for split in splits for metric in names("metrics") for score in score_names(metric)]


def schema_text() -> str:
    """What `configs/experiment.schema.json` holds."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _settings(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: parts[PARTS[part].__name__]["properties"][name] for name, part in SETTINGS.items()}


def _axis_schema(name: str) -> dict[str, Any]:
    values = {"$ref": f"#/$defs/{PARTS[SETTINGS[name]].__name__}/properties/{name}"}
    return {"type": "array", "minItems": 1, "uniqueItems": True, "items": values}


def _with_description(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return new | {name: old[name] for name in ("description", "title") if name in old}
