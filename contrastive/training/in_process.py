"""Train a cell, or this process's share of it, in the current process, and store its embeddings."""

from pathlib import Path

from contrastive.config.cell import Training
from contrastive.data.tokens import Tokens
from contrastive.evaluation.embed import Embedder, embed
from contrastive.evaluation.needs import EmbeddingSpec
from contrastive.evaluation.prepare import with_larger_test
from contrastive.models import frozen_store
from contrastive.runs import store
from contrastive.training import gather
from contrastive.training.request import TrainRequest
from contrastive.training.train import CellTraining


def train_here(request: TrainRequest, training: Training, folder: Path, tokens: Tokens, spec: EmbeddingSpec) -> int:
    """Train, then embed the texts of the evaluation; return how many parameters trained.

    `training` is the cell's own, possibly with a smaller micro-batch.
    """
    cell = request.cell.model_copy(update={"training": training})
    run = CellTraining(cell, folder, tokens, checkpoint_every=request.checkpoint_every, speed=request.speed)
    run.run()
    if gather.rank() == 0 or training.sharding is not None:  # all processes must take part if weights are split
        is_first = gather.rank() == 0
        for path in folder.glob("*.npz") if is_first else ():  # left by an earlier try in this folder
            path.unlink()
        texts = with_larger_test(tokens, request.evaluation)
        texts = frozen_store.with_stored_outputs(texts, request.cell, request.speed, spec.splits)
        embedder = Embedder(run.shared.read, texts, run.shared.device, request.cell.seed)
        embed(embedder, folder if is_first else None, spec, store.home(), tokens.folder)
    return run.shared.count
