"""Load encoders: pretrained ones from a package, a folder or a pinned hub revision, or small random ones.

Weights are read from safetensors only; code that comes with a model is never run.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from safetensors import SafetensorError
from torch import Tensor, nn

from contrastive.config.cell import IMAGE_ENCODERS, Encoder, Images, Tune
from contrastive.data import locate
from contrastive.errors import UserError
from contrastive.models import attention, images, tuning
from contrastive.models.pooling import POOLINGS
from contrastive.views.batches import Batch
from contrastive.views.types import Encoded, Hidden

# Architectures with absolute positions, and the first position id.
POSITIONS_FROM = {"bert": lambda config: 0, "roberta": lambda config: config.pad_token_id + 1}


def load_encoder(encoder: Encoder, vocab_size: int, pad_id: int, pictures: Images | None = None) -> nn.Module:
    """Return the tuned transformer without head or pooler, with SDPA attention if the architecture has it.

    Pretrained weights are read once per process. Models share frozen weights and copy those that they train.
    `pictures`: the size of the images that it encodes, None for texts.
    """
    if encoder.model in IMAGE_ENCODERS and pictures is not None:
        return tuning.apply_tuning(images.random_image_encoder(encoder, pictures), encoder.tune)
    if encoder.model.startswith("scratch:"):
        return tuning.apply_tuning(prepared(random_encoder(encoder, vocab_size, pad_id)), encoder.tune)
    with torch.random.fork_rng():  # cached or not, loading changes no random state
        if reason := locate.decoder_conflict(encoder):  # of a hub's model, which is here by now
            raise UserError(reason)
        plain = encoder.model_copy(update={"tune": Tune(), "pooling": "cls", "prompt": ""})
        first = _untuned(plain, pictures, locate.model_digest(encoder))
    # memo of deepcopy: frozen weights are shared, not copied
    shared = {id(weight): nn.Parameter(weight.detach()) for weight in first.parameters()}
    tuned = tuning.apply_tuning(copy.deepcopy(first, shared), encoder.tune)
    for weight in tuned.parameters():
        if weight.requires_grad:
            weight.data = weight.data.clone()
    return tuned


@lru_cache(maxsize=1)
def _untuned(encoder: Encoder, pictures: Images | None, digest: str) -> nn.Module:
    """Load an encoder from its files, cached by their digest. This instance is never trained."""
    from transformers import AutoModel

    if pictures is not None:
        scale = locate.json_object(locate.model_folder(encoder.model) / "preprocessor_config.json")
        mean, std = (scale.get(name, [0.5] * pictures.channels) for name in ("image_mean", "image_std"))
        return images.wrapped(_pretrained(AutoModel, encoder), pictures, encoder.model, mean, std)
    backbone = prepared(_pretrained(AutoModel, encoder))
    if encoder.attention is not None:
        check_attention(backbone.eval(), encoder)
    return backbone


@torch.no_grad()
def check_attention(backbone: Any, encoder: Encoder) -> None:
    """Raise UserError unless a change of the last token moves the states before it, or none of them, as asked."""
    ids = torch.arange(10, 18).repeat(2, 1)
    ids[1, -1] = 30
    states = backbone(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[:, :-1]
    sees = "causal" if torch.allclose(states[0], states[1], rtol=1e-4, atol=1e-6) else "bidirectional"
    if sees != encoder.attention:
        raise UserError(
            f"encoder.attention is {encoder.attention}, but {encoder.model} (a {backbone.config.model_type}) stays "
            f"{sees} whatever its config says: leave it out, or take another model"
        )


def prepared(backbone: Any) -> Any:
    """Set how DeBERTa computes positions, and install transformers' hooks for hidden states: later ones would miss
    blocks that are removed for a while."""
    from transformers.utils.output_capturing import maybe_install_capturing_hooks

    attention.use_shifted_positions(backbone)
    maybe_install_capturing_hooks(backbone)
    return backbone


def _pretrained(kind: Any, encoder: Encoder, **wanted: Any) -> Any:
    """Load an encoder's files as a transformers model class (AutoModel, AutoModelForMaskedLM)."""
    from transformers import AutoConfig, AutoModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # a bar per cell would fill the terminal
    folder = locate.model_folder(encoder.model)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        set_attention_dropout(config, encoder)
        if locate.is_decoder(encoder.model):
            config.use_cache = False  # of the past, which no later token will read
        if encoder.attention is not None:
            config.is_causal = encoder.attention == "causal"
        poolers = kind is AutoModel and config.model_type in ("bert", "roberta")
        plain = {"add_pooling_layer": False} if poolers else {}
        return kind.from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            dtype=torch.float32,
            **plain,
            **wanted,
        )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UserError(
            f"{encoder.model}: could not load an encoder from {folder} ({error}); check that the folder is complete"
        ) from error


def random_encoder(encoder: Encoder, vocab_size: int, pad_id: int) -> nn.Module:
    """Create a small encoder with random weights from torch's generator, so that the cell's seed decides them."""
    from transformers import AutoModel, BertConfig, DebertaV2Config

    sizes = locate.scratch_sizes(encoder)
    shape = {
        "vocab_size": vocab_size,
        "pad_token_id": pad_id,
        "num_hidden_layers": sizes["layers"],
        "hidden_size": sizes["hidden"],
        "num_attention_heads": sizes["heads"],
        "intermediate_size": 4 * sizes["hidden"],
        "max_position_embeddings": locate.SCRATCH_POSITIONS,
    }
    if encoder.model == "scratch:bert":
        return AutoModel.from_config(set_attention_dropout(BertConfig(**shape), encoder), add_pooling_layer=False)
    relative = {
        "relative_attention": True,
        "position_buckets": 256,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
    }
    kinds = {"pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0}
    return AutoModel.from_config(set_attention_dropout(DebertaV2Config(**shape, **relative, **kinds), encoder))


def set_attention_dropout(config: Any, encoder: Encoder) -> Any:
    """Set the dropout of attention weights in a model's configuration, if the cell sets one; return it."""
    if encoder.attention_dropout is not None:
        names = ("attention_probs_dropout_prob", "attention_dropout")
        name = next((name for name in names if hasattr(config, name)), None)
        if name is None:
            raise UserError(
                f"{encoder.model}: a {config.model_type} has no {names[0]}; leave out "
                "`encoder.attention_dropout`, or use another encoder"
            )
        setattr(config, name, encoder.attention_dropout)
    return config


def load_masked_lm_head(encoder: Encoder, backbone: Any) -> nn.Module:
    """Load the encoder's masked-LM head, tied to the backbone's word vectors; a scratch encoder's is random."""
    from transformers import AutoModelForMaskedLM

    if encoder.model.startswith("scratch:"):
        whole, missing = AutoModelForMaskedLM.from_config(backbone.config), []
    else:
        whole, missing = _pretrained(AutoModelForMaskedLM, encoder, output_loading_info=True)
        missing = sorted(missing["missing_keys"])
    heads = [module for name, module in whole.named_children() if name != whole.base_model_prefix]
    if missing or len(heads) != 1:
        raise UserError(
            f"{encoder.model} has no masked-LM head"
            + (f": its weights lack {', '.join(missing[:3])}" if missing else "")
        )
    whole.get_output_embeddings().weight = backbone.get_input_embeddings().weight
    return heads[0]


def echoed(mask: Bool[Tensor, "n s"]) -> tuple[Int64[Tensor, "n t"], Bool[Tensor, "n t"], Int64[Tensor, "n s"]]:
    """Return which token of its text stands at each place of the text twice, where these are no padding, and the place
    of each token in the second copy."""
    length_N1, width = mask.sum(1, keepdim=True), mask.shape[1]
    place_1T = torch.arange(2 * width, device=mask.device)[None]
    first, valid = place_1T < length_N1, place_1T < 2 * length_N1
    twice = torch.where(first, place_1T, torch.where(valid, place_1T - length_N1, width - 1))
    return twice, valid, (place_1T[:, :width] + length_N1).clamp(max=2 * width - 1)


def at_places(values: Tensor, places: Int64[Tensor, "n t"]) -> Tensor:
    """Return the values of each text at these of its places."""
    return values[torch.arange(len(values), device=values.device)[:, None], places]


def encode(
    backbone: Any,
    batch: Batch,
    pooling: str,
    dropout: nn.Module,
    *,
    alter: Callable[[Tensor], Tensor] | None = None,
    positions: Int64[Tensor, "n s"] | None = None,
    cut: int = 0,
) -> Encoded:
    """Encode a batch and keep the output of every block, except below block `cut`; those blocks are frozen.

    `alter` changes the token embeddings and `positions` the position ids, for views that do so; with either, the whole
    encoder is computed.
    """
    given: dict[str, Tensor] = {"input_ids": batch.input_ids}
    mask = batch.attention_mask
    if alter is not None:
        given = {"inputs_embeds": alter(backbone.get_input_embeddings()(batch.input_ids))}
    if positions is not None:
        if backbone.config.model_type not in POSITIONS_FROM:
            raise UserError(
                f"position_shuffle needs an encoder with absolute positions ({', '.join(POSITIONS_FROM)}); "
                f"{backbone.config.model_type} has relative positions"
            )
        given["position_ids"] = positions + POSITIONS_FROM[backbone.config.model_type](backbone.config)
    whole = alter is not None or positions is not None or cut == 0
    if pooling == "echo":
        twice_NT, mask, second_NS = echoed(mask)
        given = {name: at_places(values, twice_NT) for name, values in given.items()}
    if whole:
        states = backbone(**given, attention_mask=mask.long(), output_hidden_states=True).hidden_states
        if pooling == "echo":
            states = [at_places(layer, second_NS) for layer in states]
    else:
        stored = None if tuning.has_active_dropout(backbone) else batch.frozen_outputs
        states = tuning.outputs_above(
            backbone, tuning.outputs_below(backbone, batch, cut) if stored is None else stored, batch, cut
        )

    if states[-1].shape[1] != batch.attention_mask.shape[1]:  # tokens of an image, whose batch has its values
        mask = batch.attention_mask.new_ones(states[-1].shape[:2])
        batch = replace(batch, input_ids=mask.long(), attention_mask=mask, special=~mask)

    def attention_row(encoded: Encoded, block: int) -> Float[Tensor, "n s"]:
        return attention.cls_row(backbone, block, encoded.hidden.into(block), batch.attention_mask)

    return Encoded(Hidden(states, 0 if whole else cut), batch, POOLINGS[pooling], dropout, attention_row)
