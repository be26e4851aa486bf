"""Use an exported encoder: vectors of texts, and their classes if it has a head."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from contrastive.errors import UserError
from contrastive.models.pooling import POOLING_MODES, POOLINGS
from contrastive.runs import store
from contrastive.views.batches import Batch

BATCH = 64


class Exported:
    """An encoder in a folder that `ablate export` wrote."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        if not (folder / "1_Pooling" / "config.json").exists():
            raise UserError(f"{folder} is no exported encoder: `ablate export CELL {folder}` writes one")
        logging.disable_progress_bar()
        logging.set_verbosity_error()  # the base model's pooler, which nothing reads, is new
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        # what stands for an empty text, where the tokenizer adds no tokens
        self.blank = "" if self.tokenizer("")["input_ids"] else self.tokenizer.pad_token
        self.encoder = AutoModel.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, use_safetensors=True
        )
        self.encoder.to(self.device).eval()
        modes = store.read_json(folder / "1_Pooling" / "config.json")
        self.pool = POOLINGS[
            next(ours for ours, theirs in POOLING_MODES.items() if modes.get(f"pooling_mode_{theirs}"))
        ]
        prompts = store.read_json(folder / "config_sentence_transformers.json")
        self.prompt = prompts["prompts"].get(prompts["default_prompt_name"], "")
        post, head = folder / "2_Dense" / "model.safetensors", folder / "head.safetensors"
        self.post = load_file(post, str(self.device)) if post.exists() else None
        self.head = load_file(head, str(self.device)) if head.exists() else None
        self.labels = store.read_json(folder / "head.json")["labels"] if self.head else []

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        return self.apply(texts, self.post_processed)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return the probability of each class."""
        if self.head is None:
            raise UserError("this encoder was trained without classes: it has vectors, and no predictions")
        return self.apply(texts, self.by_class)

    @torch.no_grad()
    def apply(self, texts: Sequence[str], function: Any) -> np.ndarray:
        """Apply a function to the pooled vectors of texts, in batches of texts of similar length."""
        order = np.argsort([len(text) for text in texts], kind="stable")
        found = []
        for begin in range(0, len(order), BATCH):
            batch = [self.prompt + texts[number] or self.blank for number in order[begin : begin + BATCH]]
            tokens = self.tokenizer(batch, padding=True, truncation=True, return_tensors="pt").to(self.device)
            hidden = self.encoder(**tokens).last_hidden_state
            ids, mask = tokens["input_ids"], tokens["attention_mask"].bool()
            pooled = self.pool(hidden, Batch(ids, mask, ~mask, ids.new_zeros(len(ids))))
            found.append(function(pooled).float().cpu().numpy())
        return np.concatenate(found)[np.argsort(order, kind="stable")]

    def post_processed(self, vectors: torch.Tensor) -> torch.Tensor:
        if self.post is None:
            return vectors
        return torch.nn.functional.linear(vectors, self.post["linear.weight"], self.post["linear.bias"])

    def by_class(self, vectors: torch.Tensor) -> torch.Tensor:
        assert self.head is not None
        return torch.nn.functional.linear(vectors, self.head["weight"], self.head.get("bias")).softmax(-1)
