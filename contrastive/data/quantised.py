"""Convert the quantised weights of a package (GGUF) once into safetensors, in the home's cache."""

from importlib.util import find_spec
from pathlib import Path

from contrastive.errors import UserError
from contrastive.runs import fingerprint, store

ENDING = "*.gguf"


def converted(model: str, file: Path) -> Path:
    """Return the folder with the encoder and the tokenizer of a GGUF file, in single precision."""
    code = fingerprint.code_digest(("contrastive.data.quantised",))
    key = fingerprint.key("converted", file=store.digest_file(file), code=code)
    return store.make_once(store.cache_folder("models", key), lambda unfinished: _convert(model, file, unfinished))


def _convert(model: str, file: Path, folder: Path) -> None:
    if find_spec("gguf") is None:
        raise UserError(f"{model} holds quantised weights ({file.name}): `pip install 'ablate-contrastive[decoders]'`")
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        read = AutoModel.from_pretrained(
            file.parent,
            gguf_file=file.name,
            dtype="float32",
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(
            file.parent, gguf_file=file.name, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # a foreign architecture or a damaged file may raise anything
        raise UserError(f"{model}: could not read {file.name} ({error}); take another model") from error
    config = read.config
    del config.quantization_config  # transformers saves no model that was read from GGUF, so another takes its weights
    config.architectures, config.name_or_path = [type(read).__name__], ""
    plain = AutoModel.from_config(config, dtype="float32")
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
