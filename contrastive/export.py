"""Export the trained encoder of a cell, as a folder that sentence-transformers and transformers load."""

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from contrastive.config.cell import Cell
from contrastive.config.experiment import source_name
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.evaluation.embed import load_trained_model
from contrastive.evaluation.post import fit_post
from contrastive.evaluation.prepare import prepare_cell_tokens, read_cell
from contrastive.grid.identity import own_encoder
from contrastive.models.pooling import POOLING_MODES
from contrastive.runs import plugins, store

MODULES = "sentence_transformers.models"  # the names that all its versions know
LINEAR = ("whiten", "standardise")
FOLDERS = re.compile(r'(?<=file:)[^"]*[/\\\\](?=[^"/\\\\])')  # of this machine
CARD = """---
{front}---

# {name}

{what}, seed {seed}, of `{model}` on `{source}`, {post}without normalisation.

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("FOLDER").encode(["a text"])
```

`AutoModel.from_pretrained("FOLDER")` loads the encoder alone; its pooler is new, and the vectors do not use it.{head}
The licence of `{model}`, as its package states it: {licence}.

## Comparisons

{verdicts}

## Scores

Of this training alone; other seeds score otherwise.

| score | value | standard error over texts |
|---|---|---|
{scores}

## Settings

```json
{settings}
```

`ablate cell {id}` prints the command that trains it again.
"""
HEAD = " `head.safetensors` is the linear layer from a vector to the classes in `head.json`."
NO_VERDICTS = (
    "This card was made from one training alone: `ablate export FILE --row NAME` adds the verdicts on its row."
)


def export_cell(run: Path, into: Path, post: str = "", verdicts: Sequence[str] = ()) -> None:
    """Write the encoder of a trained cell, adapters merged, with its pooling and tokenizer; beside it a model card, and
    the class head if there is one.

    Args:
        run: The cell's run folder.
        into: A new folder.
        post: Linear post-processing that follows the pooling, such as `whiten:256`.
        verdicts: What the card says of comparisons with other rows.
    """
    if (damage := store.damage(run, "TRAINED")) is not None:
        raise UserError(f"the cell {run.name} is not trained ({damage}): run its experiment first")
    cell = read_cell(run)
    if cell.data.images is not None:
        raise UserError(f"the cell {run.name} encodes images: only encoders of texts can be exported")
    if cell.encoder.pooling == "echo":
        raise UserError("echo reads each text twice, which no other program does: export a row with another pooling")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UserError(f"{into} exists: name a new folder")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}-") as temporary:
        whole = Path(temporary) / "model"
        write_model(cell, run, token_store.open_tokens(prepare_cell_tokens(cell)), whole)
        has_head = (whole / "head.json").exists()
        if post:
            add_post(post, run, whole)
        (whole / "README.md").write_text(card(cell, run, has_head, post, verdicts), encoding="utf-8")
        if into.exists():
            into.rmdir()
        shutil.move(whole, into)


def write_model(cell: Cell, run: Path, tokens: Tokens, folder: Path) -> None:
    from safetensors.torch import save_file
    from transformers import AutoTokenizer
    from transformers.utils import logging

    plugins.load(cell.plugins)
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # a base model's pooler, which nothing reads, is reported as unexpected
    model = load_trained_model(cell, run, tokens).eval()
    backbone: Any = model.backbone
    if cell.encoder.tune.lora is not None:
        backbone = backbone.merge_and_unload()
    backbone.config.name_or_path = ""
    backbone.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(tokens.tokenizer, trust_remote_code=False, local_files_only=True)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.model_max_length = cell.data.max_length
    tokenizer.save_pretrained(folder)
    size, pooling, prompt = backbone.config.hidden_size, cell.encoder.pooling, cell.encoder.prompt
    if pooling not in POOLING_MODES or own_encoder(cell.encoder):
        raise UserError("its pooling or encoder is code of yours, which no other program has: export another row")
    modes = {f"pooling_mode_{theirs}": pooling == ours for ours, theirs in POOLING_MODES.items()}
    parts = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling")]
    documents: dict[str, Any] = {
        "modules.json": [
            {"idx": i, "name": name, "path": path, "type": f"{MODULES}.{kind}"}
            for i, (name, path, kind) in enumerate(parts)
        ],
        "sentence_bert_config.json": {"max_seq_length": cell.data.max_length, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"text": prompt} if prompt else {},
            "default_prompt_name": "text" if prompt else None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {"word_embedding_dimension": size, **modes, "pooling_mode_max_tokens": False},
    }
    if model.head is not None:
        save_file(
            {name: weight.contiguous() for name, weight in model.head.state_dict().items()}, folder / "head.safetensors"
        )
        documents["head.json"] = {"labels": list(tokens.labels), "input": "sentence embedding", "layer": "linear"}
    for name, document in documents.items():
        write_document(folder / name, document)


def write_document(path: Path, document: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def add_post(name: str, run: Path, folder: Path) -> None:
    """Add a linear post-processing of the vectors, fitted on the training texts, as a dense layer."""
    from safetensors.numpy import save_file

    if name.partition(":")[0] not in LINEAR:
        raise UserError(
            f"--post takes {' or '.join(LINEAR)}, perhaps with a number of columns (whiten:256), not {name}"
        )
    with np.load(run / "embeddings.npz") as stored:
        if "train" not in stored:
            raise UserError(f"the training vectors of {run.name} are not kept: name {name} in evaluation.post, and run")
        transform, size = fit_post(name, stored["train"]), stored["train"].shape[1]
    bias = transform(np.zeros((1, size)))[0]
    weight = np.ascontiguousarray((transform(np.eye(size)) - bias).T)
    modules = store.read_json(folder / "modules.json")
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": f"{MODULES}.Dense"})
    write_document(folder / "modules.json", modules)
    shape = {"in_features": size, "out_features": len(bias), "bias": True}
    write_document(
        folder / "2_Dense" / "config.json", shape | {"activation_function": "torch.nn.modules.linear.Identity"}
    )
    save_file({"linear.weight": weight, "linear.bias": bias}, folder / "2_Dense" / "model.safetensors")


def card(cell: Cell, run: Path, has_head: bool, post: str, verdicts: Sequence[str]) -> str:
    """Return the model card."""
    found = store.read_json(run / "scores.json")["scores"] if (run / "scores.json").exists() else []
    model = FOLDERS.sub("", cell.encoder.model)
    front = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "feature-extraction"],
        "model-index": [
            {
                "name": store.read_json(run / "config.json")["name"],
                "results": [
                    {
                        "task": {"type": "feature-extraction"},
                        "dataset": {"name": source_name(cell.data.source), "type": source_name(cell.data.source)},
                        "metrics": [{"type": score["name"], "value": score["value"]} for score in found],
                    }
                ],
            }
        ],
    }
    lines = [
        f"| {score['name']} | {score['value']:.4f} | {'' if error is None else f'{error:.4f}'} |"
        for score in found
        for error in [score.get("standard_error")]
    ]
    return CARD.format(
        front=yaml.safe_dump(front, sort_keys=False, allow_unicode=True),
        post=f"post-processed by {post}, " if post else "",
        licence=licence(cell.encoder.model),
        verdicts="\n".join(f"- {words}" for words in verdicts) or NO_VERDICTS,
        name=store.read_json(run / "config.json")["name"],
        what=f"The mean weights of {len(cell.soup)} trainings" if cell.soup else "The encoder of one training",
        seed=cell.seed,
        model=model,
        source=source_name(cell.data.source),
        head=HEAD if has_head else "",
        scores="\n".join(lines),
        settings=FOLDERS.sub("", cell.model_dump_json(indent=1, exclude_none=True, exclude={"plugins"})),
        id=run.name,
    )


def licence(model: str) -> str:
    """Return the licence of a base model, if an installed package says it."""
    kind, _, name = model.partition(":")
    if kind == "scratch":
        return "none, since it was trained from nothing"
    if kind == "package":
        about = dict(metadata.metadata(name).json)
        return str(about.get("license_expression") or about.get("license") or "see its package")
    return "see where it comes from"
