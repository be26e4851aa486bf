"""Evaluate a trained cell, from TRAINED to DONE: add missing embeddings, then compute scores and the picture."""

import os
from pathlib import Path

import torch

from contrastive.config.cell import add_plugin
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.data import tokens as token_store
from contrastive.evaluation import evaluate
from contrastive.evaluation.embed import Embedder, embed, load_trained_model
from contrastive.evaluation.prepare import (
    lacks_embeddings,
    prepare_cell_tokens,
    prepare_evaluation,
    read_cell,
    with_larger_test,
)
from contrastive.grid.identity import evaluation_key
from contrastive.grid.status import up_to_date
from contrastive.models import frozen_store
from contrastive.runs import claim, plugins, store


def evaluate_cell(folder: Path, evaluation: Evaluation) -> None:
    """Write scores and the picture unless they are up to date. Changed evaluation settings never cause training."""
    for copy in evaluation.plugins:
        add_plugin(copy)
    if store.damage(folder, "TRAINED") is None and lacks_embeddings(folder, evaluation):
        embed_cell(folder, evaluation)
    with claim.begin_attempt(folder, "evaluate", lambda: up_to_date(folder, evaluation_key(evaluation))) as work:
        if work is not None:
            torch.set_num_threads(1)
            plugins.load(evaluation.plugins)
            threads = int(os.environ.get("OMP_NUM_THREADS") or 1)  # set by the engine
            evaluate.evaluate_folder(folder, evaluation, into=work.folder, threads=threads, cell=read_cell(folder))
            work.publish("DONE")


def embed_cell(folder: Path, evaluation: Evaluation) -> None:
    """Add the embeddings that an evaluation needs to a trained cell, without retraining it."""
    with claim.begin_attempt(folder, "embed", lambda: not lacks_embeddings(folder, evaluation)) as work:
        if work is None:
            return
        cell = read_cell(folder)
        plugins.load(cell.plugins)
        prepared = prepare_cell_tokens(cell)
        spec = prepare_evaluation(cell, evaluation, prepared)
        for path in store.covered_files(folder, "TRAINED"):
            copy = work.folder / path.relative_to(folder)
            copy.parent.mkdir(exist_ok=True)
            os.link(path, copy)  # a hard link is safe: writers replace files and never modify them
        speed = Speed.model_validate(store.read_json(folder / "config.json")["speed"])
        tokens = with_larger_test(token_store.open_tokens(prepared), evaluation)
        tokens = frozen_store.with_stored_outputs(tokens, cell, speed, spec.splits)
        torch.set_num_threads(cell.training.threads)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = load_trained_model(cell, folder, tokens).to(device)
        embedder = Embedder(lambda look: look(model), tokens, device, cell.seed)
        embed(embedder, work.folder, spec, store.home(), prepared)
        work.publish("TRAINED")
