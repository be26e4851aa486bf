"""Translate texts into another language and back with two models that the user names; rephrase batches that way.

Greedy, without dropout, and in float64, which autocast leaves alone: a text has one back-translation, whatever was
translated before it or beside it. So a cell's numbers do not depend on what the process translated before.
"""

import re
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Int64
from safetensors import SafetensorError
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from contrastive.data import locate
from contrastive.data.tokens import Tokens, read_tokenizer
from contrastive.errors import UserError
from contrastive.views.batches import Batch

Translators: TypeAlias = tuple[str, str]  # names of the models: there, and back

CPU = torch.device("cpu")  # CUDA is the only accelerator with float64
AT_A_TIME = 32  # texts
# BERT's tokenizers put spaces between Chinese characters
APART = re.compile(r"(?<=[\u3400-\u9fff]) (?=[\u3400-\u9fff])")

_remembered: dict[tuple[str, str, str], str] = {}  # digests of the two models, text → its back-translation


class Translator(NamedTuple):
    model: Any
    tokenizer: Any
    longest: int  # maximum tokens of input or output


def back_and_forth(texts: list[str], translators: Translators, device: torch.device) -> list[str]:
    """Translate each text into another language and back; return the text itself if the result is empty."""
    there, back = (locate.weights_digest(model, locate.TRANSLATOR_FILES) for model in translators)
    returned_of = {text: stored for text in texts if (stored := _remembered.get((there, back, text))) is not None}
    if new := [text for text in dict.fromkeys(texts) if text not in returned_of]:
        foreign = translated(load_translator(translators[0], there, device), new)
        returned = translated(load_translator(translators[1], back, device), foreign)
        returned_of |= {text: other.strip() or text for text, other in zip(new, returned, strict=True)}
        _remembered.update({(there, back, text): returned_of[text] for text in new})
    return [returned_of[text] for text in texts]


@torch.no_grad()
def translated(translator: Translator, texts: list[str]) -> list[str]:
    """Translate each text; the result of an empty text is empty."""
    model, tokens, longest = translator
    rows = tokens(texts, truncation=True, max_length=longest)["input_ids"]
    written = dict.fromkeys(texts, "")
    readable = {text: row for text, row in zip(texts, rows, strict=True) if text.strip() and row}
    waiting = sorted(readable, key=lambda text: len(readable[text]))
    for begin in range(0, len(waiting), AT_A_TIME):
        part = waiting[begin : begin + AT_A_TIME]
        ids, mask = (tensor.to(model.device) for tensor in padded([readable[text] for text in part], 0))
        bounds = [min(2 * len(readable[text]) + 10, longest - 1) for text in part]
        generated = model.generate(
            input_ids=ids, attention_mask=mask.long(), num_beams=1, do_sample=False, max_new_tokens=max(bounds)
        )
        for text, row, bound in zip(part, generated.tolist(), bounds, strict=True):
            written[text] = tokens.decode(row[1 : bound + 1], skip_special_tokens=True)  # the first is the start token
    return [written[text] for text in texts]


@lru_cache(maxsize=2)
def load_translator(model: str, digest: str, device: torch.device) -> Translator:
    """Load a model and its tokenizer; the last two stay in memory. `digest` distinguishes versions of a folder."""
    from transformers import AutoModelForSeq2SeqLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder = locate.model_folder(model, locate.TRANSLATOR_FILES)
    tokens = read_tokenizer(model, folder)
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            loaded, report = AutoModelForSeq2SeqLM.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype=torch.float64,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UserError(f"{model}: no translation model could be loaded from {folder} ({error})") from error
    if missing := sorted(set(report["missing_keys"]) & {name for name, _ in loaded.named_parameters()}):
        raise UserError(
            f"{model}: {folder} lacks the weights {', '.join(missing[:3])}: the translation model is incomplete; "
            "download it again, or use another one"
        )
    loaded.generation_config.forced_eos_token_id = None  # it depends on the longest text of the batch
    loaded.generation_config.max_length = None  # each text has its own limit
    parts = (loaded.config, getattr(loaded.config, "decoder", None))
    limits = [getattr(part, "max_position_embeddings", None) or locate.UNLIMITED for part in parts]
    return Translator(loaded.to(device).eval(), tokens, min(tokens.model_max_length, *limits))


class Rephrase:
    """Back-translate batches of an encoder's tokens with two translators."""

    def __init__(self, tokens: Tokens, max_length: int):
        self.tokens = tokens
        self.max_length = max_length

    @cached_property
    def tokenizer(self) -> Any:
        return read_tokenizer("the prepared tokens", self.tokens.tokenizer)

    def __call__(self, batch: Batch, translators: Translators) -> Batch:
        device = batch.input_ids.device
        rows = [ids[mask].tolist() for ids, mask in zip(batch.input_ids, batch.attention_mask, strict=True)]
        texts = [APART.sub("", self.tokenizer.decode(row, skip_special_tokens=True)) for row in rows]
        other = back_and_forth(texts, translators, device if device.type == "cuda" else CPU)
        rows = self.tokenizer(other, truncation=True, max_length=self.max_length)["input_ids"]
        ids, mask = padded(rows, self.tokens.pad_id)
        special = ~mask | torch.isin(ids, torch.tensor(self.tokens.special_ids))
        return Batch(ids, mask, special, batch.labels.cpu()).to(device)


def padded(rows: list[list[int]], pad_id: int) -> tuple[Int64[Tensor, "n s"], Bool[Tensor, "n s"]]:
    """Pad rows of tokens to one table; also return the mask of real tokens."""
    lengths = torch.tensor([len(row) for row in rows])
    ids = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=pad_id)
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]
