"""Export the trained encoder of a cell, as a folder that sentence-transformers and transformers load."""

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from contrastive.config.cell import Cell
from contrastive.config.experiment import source_name
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.evaluation.embed import load_trained_model
from contrastive.evaluation.prepare import prepare_cell_tokens, read_cell
from contrastive.runs import store

MODULES = "sentence_transformers.models"  # the names that all its versions know
FOLDERS = re.compile(r'(?<=file:)[^"]*[/\\\\](?=[^"/\\\\])')  # of this machine
CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, feature-extraction]
---

# {name}

The encoder of one training, seed {seed}, of `{model}` on `{source}`, without normalisation.

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("FOLDER").encode(["a text"])
```

`AutoModel.from_pretrained("FOLDER")` loads the encoder alone; its pooler is new, and the vectors do not use it.{head}
The licence is that of `{model}`.

## Scores

One training says little: other seeds score otherwise. The report of the experiment compares configurations.

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


def export_cell(run: Path, into: Path) -> None:
    """Write the encoder of a trained cell, adapters merged, with its pooling and tokenizer; beside it a model card, and
    the class head if there is one."""
    if (damage := store.damage(run, "TRAINED")) is not None:
        raise UserError(f"the cell {run.name} is not trained ({damage}): run its experiment first")
    cell = read_cell(run)
    if cell.data.images is not None:
        raise UserError(f"the cell {run.name} encodes images: only encoders of texts can be exported")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UserError(f"{into} exists: name a new folder")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}-") as temporary:
        whole = Path(temporary) / "model"
        write_model(cell, run, token_store.open_tokens(prepare_cell_tokens(cell)), whole)
        if into.exists():
            into.rmdir()
        shutil.move(whole, into)


def write_model(cell: Cell, run: Path, tokens: Tokens, folder: Path) -> None:
    from safetensors.torch import save_file
    from transformers import AutoTokenizer
    from transformers.utils import logging

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
    size, pooling = backbone.config.hidden_size, cell.encoder.pooling
    modes = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
    parts = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling")]
    documents: dict[str, Any] = {
        "modules.json": [
            {"idx": i, "name": name, "path": path, "type": f"{MODULES}.{kind}"}
            for i, (name, path, kind) in enumerate(parts)
        ],
        "sentence_bert_config.json": {"max_seq_length": cell.data.max_length, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {"word_embedding_dimension": size, **modes, "pooling_mode_max_tokens": False},
    }
    if model.head is not None:
        save_file(
            {name: weight.contiguous() for name, weight in model.head.state_dict().items()}, folder / "head.safetensors"
        )
        documents["head.json"] = {"labels": list(tokens.labels), "input": "sentence embedding", "layer": "linear"}
    (folder / "README.md").write_text(card(cell, run, model.head is not None), encoding="utf-8")
    for name, document in documents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def card(cell: Cell, run: Path, has_head: bool) -> str:
    """Return the model card."""
    found = store.read_json(run / "scores.json")["scores"] if (run / "scores.json").exists() else []
    lines = [
        f"| {score['name']} | {score['value']:.4f} | {'' if error is None else f'{error:.4f}'} |"
        for score in found
        for error in [score.get("standard_error")]
    ]
    return CARD.format(
        name=store.read_json(run / "config.json")["name"],
        seed=cell.seed,
        model=FOLDERS.sub("", cell.encoder.model),
        source=source_name(cell.data.source),
        head=HEAD if has_head else "",
        scores="\n".join(lines),
        settings=FOLDERS.sub("", cell.model_dump_json(indent=1, exclude_none=True)),
        id=run.name,
    )
