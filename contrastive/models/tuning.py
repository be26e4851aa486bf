"""Freeze blocks or add LoRA adapters, set the learning rate of each block, and run frozen blocks apart from the others.

Without dropout the output of frozen blocks for a text never changes, so it can be stored (frozen_store.py).
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from contrastive.config.cell import Training, Tune
from contrastive.errors import UserError
from contrastive.views.batches import Batch

BLOCK = re.compile(r"(?:^|\.)layers?\.(\d+)\.")  # names of blocks in BERT, RoBERTa, DeBERTa and Llama

# Prefixes of parameters outside the encoder: classifier, losses and masked-LM head.
HEADS = ("head.", "losses.", "masked.")


def apply_tuning(backbone: nn.Module, how: Tune) -> nn.Module:
    """Freeze parameters, or add adapters with LoRA. Heads are not part of the backbone and always train."""
    blocks = count_blocks(backbone)
    if how.last_blocks is not None and how.last_blocks > blocks:
        raise UserError(
            f"last_blocks is {how.last_blocks}, but this encoder has {blocks} blocks; lower it to at most {blocks}"
        )
    if how.lora is not None:
        return with_adapters(backbone, how, range(blocks - (how.last_blocks or blocks), blocks))
    if how.last_blocks is None:
        return backbone
    for name, parameter in backbone.named_parameters():
        parameter.requires_grad_(block_number(name) >= blocks - how.last_blocks)
    return backbone


def with_adapters(backbone: nn.Module, how: Tune, blocks: range) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    assert how.lora is not None
    targets = list(how.lora.targets) or default_targets(backbone)
    within = list(blocks) if blocks.start else None
    if within and has_layers(backbone):  # peft finds only blocks whose names do not begin with `layers`
        names = [name for name, _ in backbone.named_modules() if block_number(name) in blocks]
        targets = [name for name in names if f".{name}".endswith(tuple(f".{end}" for end in targets))] or targets
        within = None
    settings = LoraConfig(
        r=how.lora.r,
        lora_alpha=how.lora.alpha,
        lora_dropout=how.lora.dropout,
        target_modules=targets,
        layers_to_transform=within,
        use_dora=how.lora.dora,
        use_rslora=how.lora.rslora,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft uses a deprecated attribute
            return get_peft_model(backbone, settings)
    except ValueError as error:
        names = sorted({n.split(".")[-1] for n, m in backbone.named_modules() if isinstance(m, nn.Linear)})
        raise UserError(f"lora.targets {targets}: {error}; the linear modules are {', '.join(names)}") from error


def default_targets(backbone: nn.Module) -> list[str]:
    """Return this architecture's names of the query and value projections."""
    names = {name.split(".")[-1] for name, module in backbone.named_modules() if isinstance(module, nn.Linear)}
    for pair in (["query_proj", "value_proj"], ["query", "value"], ["q_lin", "v_lin"], ["q_proj", "v_proj"]):
        if set(pair) <= names:
            return pair
    raise UserError(
        f"lora.targets has no default for this encoder; set it to some of its linear modules: "
        f"{', '.join(sorted(names))}"
    )


def optimizer_groups(model: nn.Module, training: Training, how: Tune) -> list[dict[str, Any]]:
    """Optimizer groups: the head at its own rate, the top block at encoder_lr, and each block below × layer_decay.

    Biases and norms do not decay. `shown` marks the group whose rate stands for its kind in metrics.jsonl.
    """
    blocks = count_blocks(model)
    by_settings: dict[tuple[str, float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        kind = "head" if name.startswith(HEADS) else "encoder"
        depth = 0 if how.lora is not None else blocks - 1 - block_number(name)
        rate = training.head_lr if kind == "head" else training.encoder_lr * training.layer_decay**depth
        decay = 0.0 if parameter.ndim < 2 else training.weight_decay
        group = {"name": kind, "lr": rate, "weight_decay": decay, "params": []}
        by_settings.setdefault((kind, rate, decay), group)["params"].append(parameter)
    ordered = sorted(by_settings.values(), key=lambda group: -group["lr"])
    for kind in ("head", "encoder"):
        for group in [group for group in ordered if group["name"] == kind][:1]:
            group["shown"] = True
    return ordered


def count_blocks(model: nn.Module) -> int:
    blocks = 1 + max((block_number(name) for name, _ in model.named_parameters()), default=-1)
    if blocks == 0:
        raise UserError(
            "this encoder has no blocks named as in BERT, RoBERTa or DeBERTa; use one of these architectures"
        )
    return blocks


def is_block_name(name: str) -> bool:
    """Return whether a module of this name is a whole block."""
    match = BLOCK.search(f"{name}.")
    return match is not None and match.end() == len(name) + 1


def block_number(name: str) -> int:
    """Return the number of a parameter's block; −1 for embeddings and anything else below the blocks."""
    match = BLOCK.search(name)
    return int(match.group(1)) if match else -1


class PrecomputedEmbeddings(nn.Module):
    """Replaces the embeddings of an encoder by the output of the blocks below."""

    def __init__(self, outputs: Tensor):
        super().__init__()
        self.outputs = outputs

    def forward(self, *_: Any, **__: Any) -> Tensor:
        return self.outputs


def frozen_modules(backbone: Any, tuned: int) -> list[nn.Module]:
    """Return the modules of an encoder below its top `tuned` blocks, which do not train."""
    model = without_adapters(backbone)
    layers = blocks_of(model)
    return [embeddings_of(model), *layers[: len(layers) - tuned]]


def has_layers(model: Any) -> bool:
    """Return whether a model has its blocks in `layers`, as decoders have; encoders have them in `encoder.layer`."""
    return hasattr(model, "layers")


def blocks_of(model: Any) -> nn.ModuleList:
    blocks: nn.ModuleList = model.layers if has_layers(model) else model.encoder.layer
    return blocks


def embeddings_of(model: Any) -> nn.Module:
    embeddings: nn.Module = model.get_input_embeddings() if has_layers(model) else model.embeddings
    return embeddings


def without_adapters(backbone: Any) -> Any:
    """Return the encoder inside of a model with LoRA adapters."""
    return backbone.get_base_model() if hasattr(backbone, "get_base_model") else backbone


def has_active_dropout(backbone: Any) -> bool:
    """Return whether dropout is active in the frozen blocks, so that their output is random."""
    return embeddings_of(without_adapters(backbone)).training


@torch.no_grad()
def outputs_below(backbone: Any, batch: Batch, count: int) -> Float[Tensor, "n s d"]:
    """Return the output of the lowest `count` blocks for a batch."""
    with restricted_to_blocks(backbone, slice(count)):
        output = backbone(input_ids=batch.input_ids, attention_mask=batch.attention_mask.long())
    return output.last_hidden_state


def outputs_above(
    backbone: Any, given: Float[Tensor, "n s d"], batch: Batch, count: int
) -> list[Float[Tensor, "n s d"]]:
    """Return the input of the blocks above the lowest `count`, and the output of each of them."""
    model = without_adapters(backbone)
    if count == len(blocks_of(model)):
        return [model.norm(given) if has_layers(model) else given]
    with restricted_to_blocks(backbone, slice(count, None), PrecomputedEmbeddings(given)):
        output = backbone(inputs_embeds=given, attention_mask=batch.attention_mask.long(), output_hidden_states=True)
    return list(output.hidden_states)


@contextmanager
def restricted_to_blocks(backbone: Any, chosen: slice, embeddings: nn.Module | None = None) -> Iterator[None]:
    """Restrict an encoder to some of its blocks and optionally replace its embeddings, within a `with` block."""
    model = without_adapters(backbone)
    if has_layers(model):  # which makes mask and rotary positions from any embeddings that it is given
        whole, norm = model.layers, model.norm
        model.layers, model.norm = whole[chosen], norm if chosen.stop is None else nn.Identity()
        try:
            yield
        finally:
            model.layers, model.norm = whole, norm
        return
    whole, first = model.encoder.layer, model.embeddings
    model.encoder.layer, model.embeddings = whole[chosen], embeddings or first
    try:
        yield
    finally:
        model.encoder.layer, model.embeddings = whole, first
