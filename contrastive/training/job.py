"""A job trains one cell, or one process's share of it, in the current process. It is described by a TrainRequest.

`python -m contrastive.training.job CONFIG FOLDER` does it by hand. Several processes run under `accelerate launch`, by
hand, or forked by `training.launch`, which sets ABLATE_MEET to the file or address of their rendezvous. The first one
writes the files of a trained cell.

Torch is imported when the work begins, because the flow's process builds requests.
"""

import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path

from contrastive.config.cell import Cell, Training, add_plugin
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Resources, Speed
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens
from contrastive.evaluation.prepare import EmbeddingSpec, prepare_cell_tokens, prepare_evaluation, with_larger_test
from contrastive.runs import plugins, store

MEETING_VARIABLE = "ABLATE_MEET"


@dataclass(frozen=True)
class TrainRequest:
    cell: Cell
    name: str
    checkpoint_every: int
    evaluation: Evaluation = field(default_factory=Evaluation)
    speed: Speed = field(default_factory=Speed)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m contrastive.training.job", description="Train one cell into a folder."
    )
    parser.add_argument("config", type=Path, help="config.json of a run folder, which describes the cell")
    parser.add_argument("folder", type=Path, help="output folder; an interrupted training in it is resumed")
    arguments = parser.parse_args()
    plugins.refuse_others(store.read_json(arguments.config)["cell"]["plugins"])
    train_rank(arguments.config, arguments.folder, Resources().checkpoint_every, None)


def train_rank(config: Path, folder: Path, checkpoint_every: int, micro_batch: int | None) -> None:
    """Train this process's share of the cell; write the number of trained parameters, or a failure report."""
    from contrastive.training import gather
    from contrastive.training.failures import failure_report

    if MEETING_VARIABLE in os.environ:
        gather.init_process_group(os.environ[MEETING_VARIABLE], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    content = store.read_json(config)
    request = TrainRequest(
        Cell.model_validate(content["cell"]),
        "",
        checkpoint_every,
        Evaluation.model_validate(content["evaluation"]),
        Speed.model_validate(content["speed"]),
    )
    if request.cell.soup:
        raise SystemExit("a soup is the mean of other cells: `ablate run FILE` makes it")
    training = request.cell.training
    if micro_batch is not None:
        training = training.model_copy(update={"micro_batch": micro_batch})
    folder.mkdir(parents=True, exist_ok=True)
    try:
        trained = train_here(request, training, folder, *prepare(request))
        store.write_json(folder / f"trained.{gather.rank()}.json", {"parameters": trained})
    except Exception as error:
        store.write_json(folder / f"failed.{gather.rank()}.json", failure_report(error))
        raise SystemExit(1) from error
    gather.leave_process_group()


def prepare(request: TrainRequest) -> tuple[Tokens, EmbeddingSpec]:
    """Return the tokens to train on, with the outputs of frozen blocks if the cell reads them, and what is embedded."""
    from contrastive.models import frozen_store, guide

    plugins.load(request.cell.plugins)
    for copy in request.evaluation.plugins:
        add_plugin(copy)
    prepared = prepare_cell_tokens(request.cell)
    spec = prepare_evaluation(request.cell, request.evaluation, prepared)
    tokens = guide.with_guide(token_store.open_tokens(prepared), request.cell)
    return frozen_store.with_stored_training_outputs(tokens, request.cell, request.speed), spec


def train_here(request: TrainRequest, training: Training, folder: Path, tokens: Tokens, spec: EmbeddingSpec) -> int:
    """Train, then embed the texts of the evaluation; return how many parameters trained.

    `training` is the cell's own, possibly with a smaller micro-batch.
    """
    from contrastive.evaluation.embed import Embedder, embed
    from contrastive.models import frozen_store
    from contrastive.training import gather, meters
    from contrastive.training.train import CellTraining

    cell = request.cell.model_copy(update={"training": training})
    run = CellTraining(cell, folder, tokens, checkpoint_every=request.checkpoint_every, speed=request.speed)
    with meters.training_time(folder / "resume", gather.rank()):
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


if __name__ == "__main__":
    main()
