"""Little cells of several processes: launched one by one, or many in the same processes, begun once for all of them."""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.data import tokens as token_store
from contrastive.training.job import TrainRequest
from tests.contrastive.conftest import WORDS
from tests.contrastive.training import trained

MORE = Evaluation(splits=("test", "train"), metrics=("accuracy", "alignment"), vectors=("cls", "first_last"))


def write_sources(folder: Path) -> tuple[str, str]:
    """Texts, and an encoder without any dropout, with which one process and two must agree."""
    random = np.random.default_rng(0)
    texts = [f"{' '.join(random.choice(WORDS[i % 2 :: 2], size=random.integers(2, 9)))} {i}" for i in range(160)]
    rows = [f"{text},{'ab'[i % 2]},{text} too,{text} not" for i, text in enumerate(texts)]
    (folder / "texts.csv").write_text("\n".join(["text,label,same,other", *rows]) + "\n")
    torch.manual_seed(0)
    words = token_store.train_tokenizer(texts, 300)
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(vocab_size=len(words), pad_token_id=0, **sizes, **still)
    BertForMaskedLM(config).save_pretrained(folder / "bert")
    words.save_pretrained(folder / "bert")
    return f"file:{folder / 'texts.csv'}", f"file:{folder / 'bert'}"


def make(
    sources: tuple[str, str], processes: int, training: dict | None = None, tune: dict | None = None, **objective
) -> Cell:
    source, encoder = sources
    return trained.make(
        source,
        encoder={"model": encoder, "scratch": None, "dropout": 0.0, "tune": tune or {}},
        data={"train": 60, "positive": "same"},
        training={"epochs": 2, "processes": processes} | (training or {}),
        **{"loss": "ce+simcse", "view": "pair"} | objective,
    )


def of_images(processes: int, training: dict | None = None) -> Cell:
    return trained.make(
        "package:digits",
        encoder={"model": "scratch:convnet", "dropout": 0.0},
        data={"images": {"size": 8, "channels": 1}, "train": 60},
        training={"epochs": 2, "processes": processes, "augment": {"rotate": 20.0}} | (training or {}),
        loss="ce+supcon",
        view="multicrop",
        crops=2,
        area=(0.2, 0.5),
    )


def run(cell: Cell, checkpoint_every: int = 1000) -> tuple[Path, dict | None]:
    from contrastive.training.failures import run_stage
    from contrastive.training.train_cell import train_cell

    folder = trained.folder_of(cell)
    return folder, run_stage(train_cell, folder, TrainRequest(cell, "a cell", checkpoint_every, MORE))


def nothing() -> None:
    pass


@dataclass
class Case:
    name: str  # of the folder it is trained into
    cell: Cell
    before: Callable[[], None] = nothing
    each_step: Callable[[], None] = nothing


def train_in_two(cases: list[Case], into: Path, patience: float = 240) -> None:
    """Each case in the same two processes, one after another; what goes wrong is in its folder's failed.RANK."""
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=_share, args=(rank, cases, into)) for rank in (0, 1)]
    for process in started:
        process.start()
    for process in started:
        process.join(patience)
        process.kill()
        process.join()
    assert [process.exitcode for process in started] == [0, 0], (into / "said.0").read_text()[-2000:]


def _share(rank: int, cases: list[Case], into: Path) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    said = os.open(into / f"said.{rank}", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    from contrastive import losses
    from contrastive.training import gather
    from contrastive.training.job import prepare, train_here
    from contrastive.training.train import CellTraining

    gather.init_process_group(str(into / "meeting"), rank, 2)
    usual, steps = dict(losses.LOSSES), CellTraining.steps

    def watched(training: CellTraining) -> Iterator[None]:
        for _ in steps(training):
            case.each_step()
            yield

    CellTraining.steps = watched  # type: ignore[method-assign]
    for case in cases:
        folder = into / case.name
        folder.mkdir(exist_ok=True)
        os.environ.pop("ACCELERATE_USE_DEEPSPEED", None)  # a process that trains one cell never sees it again
        losses.LOSSES.update(usual)
        case.before()
        try:
            asked = TrainRequest(case.cell, "a cell", 3, MORE)
            train_here(asked, case.cell.training, folder, *prepare(asked))
        except BaseException:
            (folder / f"failed.{rank}").write_text(traceback.format_exc())
    os._exit(0)
