"""One process of several that train a cell: `python -m contrastive.job ATTEMPT TOKENS CHECKPOINT_EVERY MICRO_BATCH`.

It runs under `accelerate launch` or `torchrun`, by hand, as well as under `contrastive.launch`, which names a file to
meet at in ABLATE_MEET, opens no port but those of the loopback device, and ends every process with the one that began
them. The first process leaves weights, embeddings and predictions in the attempt's folder.
"""

import os
import sys
import threading
from pathlib import Path

MEET = "ABLATE_MEET"


def main(folder: Path, tokens_folder: Path, checkpoint_every: int, micro_batch: int) -> None:
    if MEET in os.environ:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    from contrastive import gather, stages, store
    from contrastive.config import Cell
    from contrastive.data import tokens as token_store
    from contrastive.embed import embed
    from contrastive.train import train

    if MEET in os.environ:
        gather.meet(os.environ[MEET], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    cell = Cell.model_validate(store.read_json(folder / "config.json")["cell"])
    if micro_batch:
        cell = cell.model_copy(update={"training": cell.training.model_copy(update={"micro_batch": micro_batch})})
    tokens = token_store.open(tokens_folder)
    try:
        model = train(cell, folder, tokens, checkpoint_every=checkpoint_every)
        if gather.rank() == 0:
            embed(model, folder, tokens, next(model.parameters()).device)
            trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
            store.write_json(folder / "trained.json", {"parameters": trained})
    except Exception as error:
        store.write_json(folder / f"failed.{gather.rank()}.json", stages.report(error))
        raise SystemExit(1) from error
    gather.part()


def _end_with_parent() -> None:
    """Its standard input ends with the process that began this one, however that ended."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
