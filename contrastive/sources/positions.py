"""How long a text an encoder can read, told from its files, so that a plan needs no model and downloads nothing."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from contrastive.errors import UserError
from contrastive.sources import locate

UNLIMITED = 10**6  # tokenizers without a limit say so with a huge number
# Architectures that add a learned vector for each position, and whether they count from behind the padding's number.
FROM_PADDING = {"bert": False, "distilbert": False, "electra": False, "albert": False, "mpnet": True, "roberta": True}
FROM_PADDING |= {"xlm-roberta": True, "camembert": True}
ROBERTA_PADDING = 1  # the default of its configuration


@cache
def longest(model: str) -> int | None:
    """Tokens of the longest text; None where nothing says it, or the files are not on this machine."""
    if model.startswith("scratch:"):
        return locate.SCRATCH_POSITIONS
    folder = folder_here(model)
    if folder is None:
        return None
    config, tokenizer = json_object(folder / "config.json"), json_object(folder / "tokenizer_config.json")
    limits = [positions(config), whole_number(tokenizer.get("model_max_length"))]
    return min((number for number in limits if number is not None and number < UNLIMITED), default=None)


def positions(config: dict[str, Any]) -> int | None:
    """Those that the weights have; None of an architecture that knows distances alone, or that is not known here."""
    count, kind = whole_number(config.get("max_position_embeddings")), config.get("model_type")
    if kind in ("deberta", "deberta-v2"):
        return count if config.get("position_biased_input", True) else None
    if count is None or kind not in FROM_PADDING or config.get("position_embedding_type", "absolute") != "absolute":
        return None
    padding = config.get("pad_token_id", ROBERTA_PADDING)
    return count - padding - 1 if FROM_PADDING[kind] and isinstance(padding, int) else count


def folder_here(model: str) -> Path | None:
    try:
        return cached_snapshot(model) if model.startswith("hf:") else locate.model_folder(model)
    except UserError:  # said where the model is looked up
        return None


def cached_snapshot(model: str) -> Path | None:
    """The folder of a hub's model in the local cache."""
    from huggingface_hub import try_to_load_from_cache

    repository, _, revision = locate.pinned(model)
    path = try_to_load_from_cache(repository, "config.json", revision=revision)
    return Path(path).parent if isinstance(path, str) else None


def json_object(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def whole_number(number: Any) -> int | None:
    """Of a tokenizer without a limit a float, such as 1e30."""
    return int(number) if isinstance(number, int | float) and number > 0 else None
