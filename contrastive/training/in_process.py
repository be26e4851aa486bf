"""A cell trains in this very process, or this process's share of it does."""

from collections.abc import Generator
from pathlib import Path

from contrastive.config.cell import Training
from contrastive.data.tokens import Tokens
from contrastive.evaluation.embed import Embedder, embed
from contrastive.evaluation.needs import EmbeddingSpec
from contrastive.evaluation.prepare import with_larger_test
from contrastive.models import frozen_store
from contrastive.models.frozen import PassCache
from contrastive.runs import store
from contrastive.training import gather
from contrastive.training.request import TrainRequest
from contrastive.training.sharding import Shared
from contrastive.training.train import CellTraining


def steps_here(
    request: TrainRequest, training: Training, folder: Path, tokens: Tokens, wanted: EmbeddingSpec, passes: PassCache
) -> Generator[None, None, int]:
    """Train, stopping before each step, and then embed what an evaluation reads; return how many parameters trained.

    `training` is the cell's own, or encodes fewer texts at a time.
    """
    cell = request.cell.model_copy(update={"training": training})
    run = CellTraining(
        cell, folder, tokens, checkpoint_every=request.checkpoint_every, speed=request.speed, passes=passes
    )
    yield from run.steps()
    if gather.rank() == 0 or training.sharding is not None:  # where weights are split, all processes must take part
        embed_texts(run.shared, request, folder, tokens, wanted)
    return run.shared.count


def embed_texts(shared: Shared, request: TrainRequest, folder: Path, tokens: Tokens, wanted: EmbeddingSpec) -> None:
    is_first = gather.rank() == 0
    for path in folder.glob("*.npz") if is_first else ():  # of an earlier try in the same folder
        path.unlink()
    texts = with_larger_test(tokens, request.evaluation)
    texts = frozen_store.with_stored_outputs(texts, request.cell, request.speed, wanted.splits)
    embedder = Embedder(shared.read, texts, shared.device, request.cell.seed)
    embed(embedder, folder if is_first else None, wanted, store.home(), tokens.folder)
