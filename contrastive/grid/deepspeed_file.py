"""DeepSpeed's JSON files: how ZeRO shares the training state. Everything else in one is the recipe's, and refused here.

An experiment file is checked with it, so neither torch nor DeepSpeed is imported.
"""

import json
from collections.abc import Sequence
from typing import Any

from contrastive import paths
from contrastive.config.cell import Training
from contrastive.config.facts import Splitting
from contrastive.config.objective import Objective
from contrastive.errors import UserError, brief
from contrastive.runs import fingerprint

KIND = "deepspeed:"
# What a file may say; the first decides how the state is shared, the others how it moves and what is said of it.
KEYS = ("zero_optimization", "aio", "steps_per_print", "wall_clock_breakdown")
# What the experiment file says instead, for each key that people put there.
RECIPE = {
    "optimizer": "training.head_lr, encoder_lr and weight_decay (the optimizer is AdamW)",
    "scheduler": "training.schedule and warmup",
    "train_batch_size": "training.batch_size",
    "train_micro_batch_size_per_gpu": "training.batch_size and processes",
    "gradient_accumulation_steps": "training.accumulate",
    "gradient_clipping": "training.clip",
    **dict.fromkeys(
        ("fp16", "bf16", "amp", "torch_autocast", "data_types", "communication_data_type"), "training.precision"
    ),
}


def uses_deepspeed(training: Training) -> bool:
    return training.sharding is not None and training.sharding.startswith(KIND)


def file_settings(sharding: str) -> dict[str, Any]:
    """What a JSON file says, without what it leaves to others (`auto`); UserError where it is not to be used."""
    try:
        path = paths.expand_user(sharding.removeprefix(KIND)).absolute()
        paths.check_file(path)
        content = json.loads(path.read_text(encoding="utf-8"))
    except UserError as error:
        raise UserError(f"{brief(sharding)}: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{brief(sharding)}: no JSON can be read there ({brief(error)})") from None
    if not isinstance(content, dict):
        raise UserError(f"{sharding}: a JSON object was expected, as in configs/deepspeed/zero2.json")
    said = {key: value for key, value in _said(content).items() if value != {}}
    for key in said:
        if key not in KEYS:
            instead = f"say it in the experiment file, {RECIPE[key]}" if key in RECIPE else "only ZeRO is used here"
            raise UserError(f"{brief(sharding)}: take `{brief(key)}` out: {instead}")
    zero = said.get("zero_optimization")
    if not isinstance(zero, dict) or type(zero.get("stage")) is not int or zero["stage"] not in (1, 2, 3):
        raise UserError(f"{sharding}: zero_optimization.stage must be 1, 2 or 3; without ZeRO, leave `sharding` out")
    for key in ("offload_optimizer", "offload_param"):
        if zero.get(key, {}).get("device", "none") not in ("none", "cpu"):
            raise UserError(f"{sharding}: {key}.device must be cpu or none: what lies on a disk is in no checkpoint")
    return said


def _said(value: Any) -> Any:
    """Without the values that are `auto`, and what consists of such values only."""
    if not isinstance(value, dict):
        return value
    kept = {key: _said(item) for key, item in value.items() if item != "auto"}
    return {key: item for key, item in kept.items() if item != {} or value[key] == {}}


def sharding_digest(sharding: str) -> str:
    """What the file says, wherever it lies and however it is laid out."""
    return KIND + fingerprint.key("deepspeed", **file_settings(sharding))


def splits_weights(training: Training) -> bool:
    """Whether no process holds all weights, so that they can be read in the forward pass only."""
    return training.sharding is not None and splitting(training) in ("zero3", "fsdp")


def sharding_conflict(objective: Objective, training: Training) -> str:
    """Why an objective cannot be trained with its state shared like that; empty where it can."""
    if not objective.compares() or training.sharding is None:
        return ""
    way = splitting(training)
    declared = {line.name: line.facts.unsplittable for line in objective.lines()}
    declared[objective.said_of_view()] = objective.view_facts().unsplittable
    for name, unsplittable in declared.items():
        if unsplittable is not None and way in unsplittable.ways:
            reason = f"{name} cannot be trained with {training.sharding}: {unsplittable.because}"
            return f"{reason}; {_instead(unsplittable.ways)}"
    return ""


def splitting(training: Training) -> Splitting:
    """How processes split the training state."""
    assert training.sharding is not None, "nothing is split"
    if not uses_deepspeed(training):
        return "fsdp"
    stages: dict[int, Splitting] = {1: "zero1", 2: "zero2", 3: "zero3"}
    return stages[file_settings(training.sharding)["zero_optimization"]["stage"]]


def _instead(ways: Sequence[Splitting]) -> str:
    if "zero2" not in ways:
        return "take ZeRO 1 or 2, which leave the weights whole"
    return "take sharding fsdp, or leave it out" if "fsdp" not in ways else "leave sharding out"
