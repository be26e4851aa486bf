"""One cell in a folder: `python -m contrastive.stages.job CONFIG FOLDER`, alone or as one of several.

Several run under `accelerate launch`, by hand, or under `stages.launch`, which forks them instead and names a file
or an address to meet at in ABLATE_MEET. The first one leaves the files of a trained cell.
"""

import argparse
import os
from pathlib import Path

MEET = "ABLATE_MEET"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m contrastive.stages.job", description="Train one cell into a folder."
    )
    parser.add_argument("config", type=Path, help="config.json of a run folder: which cell it is")
    parser.add_argument("folder", type=Path, help="where its files are left; one that is interrupted there goes on")
    parser.add_argument("--checkpoint-every", type=int, default=200, metavar="STEPS")
    parser.add_argument("--micro-batch", type=int, metavar="TEXTS", help="texts encoded at a time, fewer than planned")
    given = parser.parse_args()
    train(given.config, given.folder, given.checkpoint_every, given.micro_batch)


def train(config: Path, folder: Path, checkpoint_every: int, micro_batch: int | None) -> None:
    from contrastive.config.cell import Cell
    from contrastive.config.evaluation import Evaluation
    from contrastive.config.speed import Speed
    from contrastive.runs import store
    from contrastive.stages import stages
    from contrastive.stages.request import Asked
    from contrastive.training import gather

    if MEET in os.environ:
        gather.meet(os.environ[MEET], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    said = store.read_json(config)
    cell, evaluation = Cell.model_validate(said["cell"]), Evaluation.model_validate(said.get("evaluation", {}))
    speed = Speed.model_validate(said.get("speed", {}))
    asked = Asked(cell, "", checkpoint_every, evaluation, speed)
    how = cell.training.model_copy(update={"micro_batch": micro_batch or cell.training.micro_batch})
    folder.mkdir(parents=True, exist_ok=True)
    try:
        prepared = stages.prepare(cell)
        wanted = stages.prepare_further(cell, evaluation, prepared)
        trained = stages.train_here(asked, how, folder, prepared, wanted)
        store.write_json(folder / f"trained.{gather.rank()}.json", {"parameters": trained})
    except Exception as error:
        store.write_json(folder / f"failed.{gather.rank()}.json", stages.report(error))
        raise SystemExit(1) from error
    gather.part()


if __name__ == "__main__":
    main()
