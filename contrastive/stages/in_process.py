"""A cell trains in this very process, or this process's share of it does."""

from collections.abc import Iterator
from pathlib import Path

from contrastive.config.cell import Training
from contrastive.data.tokens import Tokens
from contrastive.evaluation.embed import Embedder, embed
from contrastive.evaluation.needs import Wanted
from contrastive.models import frozen_store
from contrastive.models.frozen import Passes
from contrastive.runs import store
from contrastive.stages.prepare import with_larger_test
from contrastive.stages.request import Asked
from contrastive.training import gather
from contrastive.training.sharding import Shared
from contrastive.training.train import CellTraining


class TrainingHere:
    """The steps of a training, and then the embeddings that an evaluation reads; `training` is the cell's own, or
    encodes fewer texts at a time."""

    def __init__(
        self, request: Asked, training: Training, folder: Path, tokens: Tokens, wanted: Wanted, passes: Passes
    ) -> None:
        self.cell = request.cell.model_copy(update={"training": training})
        self.request, self.folder, self.tokens, self.wanted, self.passes = request, folder, tokens, wanted, passes
        self.trained_parameters: int | None = None

    def steps(self) -> Iterator[None]:
        """Stops before each step; `trained_parameters` says in the end how many there are."""
        run = CellTraining(
            self.cell,
            self.folder,
            self.tokens,
            checkpoint_every=self.request.checkpoint_every,
            speed=self.request.speed,
            passes=self.passes,
        )
        yield from run.steps()
        self._embed(run.shared)
        self.trained_parameters = run.shared.count

    def _embed(self, shared: Shared) -> None:
        """The first process does, and where weights are split, all of them must."""
        is_first = gather.rank() == 0
        if not is_first and self.cell.training.sharding is None:
            return
        for path in self.folder.glob("*.npz") if is_first else ():  # of an earlier try in the same folder
            path.unlink()
        tokens = with_larger_test(self.tokens, self.request.evaluation)
        tokens = frozen_store.to_embed(tokens, self.cell, self.request.speed, self.wanted.splits)
        embedder = Embedder(shared.read, tokens, shared.device, self.cell.seed)
        embed(embedder, self.folder if is_first else None, self.wanted, store.home(), self.tokens.folder)
