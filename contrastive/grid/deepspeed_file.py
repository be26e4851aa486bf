"""Read and check DeepSpeed's JSON files, which may only say how ZeRO shards the training state.

Used when an experiment file is checked, so neither torch nor DeepSpeed is imported.
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
# Allowed keys: the first says how the state is sharded, the others set disk access and logging.
KEYS = ("zero_optimization", "aio", "steps_per_print", "wall_clock_breakdown")
# Settings of the experiment file that replace common keys of a DeepSpeed file.
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
    """Return the content of a JSON file without `auto` values; raise UserError if it cannot be used."""
    try:
        path = paths.expand_user(sharding.removeprefix(KIND)).absolute()
        paths.check_file(path)
        content = json.loads(path.read_text(encoding="utf-8"))
    except UserError as error:
        raise UserError(f"{brief(sharding)}: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{brief(sharding)}: the file is not readable JSON ({brief(error)})") from None
    if not isinstance(content, dict):
        raise UserError(f"{sharding}: expected a JSON object, as in configs/deepspeed/zero2.json")
    settings = {key: value for key, value in _without_auto(content).items() if value != {}}
    for key in settings:
        if key not in KEYS:
            instead = f"set it in the experiment file, {RECIPE[key]}" if key in RECIPE else "only ZeRO is supported"
            raise UserError(f"{brief(sharding)}: remove `{brief(key)}`; {instead}")
    zero = settings.get("zero_optimization")
    if not isinstance(zero, dict) or type(zero.get("stage")) is not int or zero["stage"] not in (1, 2, 3):
        raise UserError(f"{sharding}: zero_optimization.stage must be 1, 2 or 3; without ZeRO, leave `sharding` out")
    for key in ("offload_optimizer", "offload_param"):
        if zero.get(key, {}).get("device", "none") not in ("none", "cpu"):
            raise UserError(f"{sharding}: {key}.device must be cpu or none: checkpoints do not contain state on disk")
    return settings


def _without_auto(value: Any) -> Any:
    """Remove `auto` values, and objects that contain nothing else."""
    if not isinstance(value, dict):
        return value
    kept = {key: _without_auto(item) for key, item in value.items() if item != "auto"}
    return {key: item for key, item in kept.items() if item != {} or value[key] == {}}


def sharding_digest(sharding: str) -> str:
    """Return a digest of the file's settings, independent of its path and layout."""
    return KIND + fingerprint.key("deepspeed", **file_settings(sharding))


def splits_weights(training: Training) -> bool:
    """Return whether no process holds all weights, so that they can only be read in the forward pass."""
    return training.sharding is not None and splitting(training) in ("zero3", "fsdp")


def sharding_conflict(objective: Objective, training: Training) -> str:
    """Return why an objective cannot be trained with this sharding; empty if it can."""
    if not objective.compares() or training.sharding is None:
        return ""
    way = splitting(training)
    declared = {line.name: line.facts.unsplittable for line in objective.loss_entries()}
    declared[f"the view {objective.view_with_variant()}"] = objective.view_facts().unsplittable
    for name, unsplittable in declared.items():
        if unsplittable is not None and way in unsplittable.ways:
            reason = f"{name} cannot be trained with {training.sharding}: {unsplittable.because}"
            return f"{reason}; {_instead(unsplittable.ways)}"
    return ""


def splitting(training: Training) -> Splitting:
    """Return how processes split the training state."""
    assert training.sharding is not None, "sharding is not set"
    if not uses_deepspeed(training):
        return "fsdp"
    stages: dict[int, Splitting] = {1: "zero1", 2: "zero2", 3: "zero3"}
    return stages[file_settings(training.sharding)["zero_optimization"]["stage"]]


def _instead(refused: Sequence[Splitting]) -> str:
    """Return what to advise instead of the refused ways to split."""
    if "zero2" not in refused:
        return "take ZeRO 1 or 2, which do not split the weights"
    return "take sharding fsdp, or leave it out" if "fsdp" not in refused else "leave sharding out"
