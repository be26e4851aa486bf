"""Train small cells of made-up texts on a GPU, in each mode: for `ablate doctor --gpu` and `python -m benchmarks.gpu`.

Without a GPU the cells train on the CPU, except for what needs a GPU. Nothing but `contrastive` is used, so that this
also runs on a machine without Prefect and MLflow.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
MINILM = {"layers": 6, "hidden": 384, "heads": 12, "vocabulary": 4000}
TINY = {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 300}
MODES: dict[str, Row] = {
    "fp32": {},
    "fp32 again": {},
    "bf16": {"training": {"precision": "bf16"}},
    "bf16 again": {"training": {"precision": "bf16"}},
    "fp16": {"training": {"precision": "fp16"}},
    "LoRA": {"encoder": {"tune": {"lora": {"r": 8}}}, "training": {"encoder_lr": 1e-2}},
    "frozen blocks with dropout": {"encoder": {"tune": {"last_blocks": 1}}},
    "frozen blocks from the store": {"encoder": {"tune": {"last_blocks": 1, "frozen_dropout": False}}},
}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NEEDS_GPU = "needs a GPU"
# The processes that train a short cell all at once: their CUDA_VISIBLE_DEVICES and settings of training.
BESIDE: dict[str, tuple[str | None, Row]] = {
    "on the CPU": ("", {}),
    "several at once": (None, {}),
    "FSDP": (None, {"sharding": "fsdp"}),
    "DeepSpeed ZeRO 3": (None, {"sharding": "deepspeed:zero3.json"}),
}


@dataclass(frozen=True)
class Sizes:
    """The sizes of cells: those that a GPU trains in seconds, or tiny ones."""

    quick: bool

    def encoder(self, kind: str = "bert", shape: Row | None = None, **settings: Any) -> Row:
        return {"model": f"scratch:{kind}", "scratch": TINY if self.quick else shape or MINILM} | settings

    def of(self, full: int, quick: int) -> int:
        return quick if self.quick else full


def everything(sizes: Sizes, more: dict[str, Row]) -> Iterator[Row]:
    """Train a cell in each mode, and a short one here and in processes of their own, all at once."""
    with home() as folder:
        running = started(folder, sizes)
        try:
            yield from modes(sizes, MODES | {"token views": token_views()} | more, folder)
            yield from compared(running, folder, sizes)
        finally:
            for process in running.values():
                process.kill()
                process.communicate()


def modes(sizes: Sizes, given: dict[str, Row], folder: Path) -> Iterator[Row]:
    """Train one cell in each mode; a mode named `again` must give the bits of the one before it."""
    import torch

    long = sizes.of(510, 16)
    source = texts(folder / "texts.csv", sizes.of(400, 80), long)
    before = ""
    for name, settings in given.items():
        if name == "fp16" and not torch.cuda.is_available():
            yield {"name": name, "error": NEEDS_GPU}
            continue
        os.environ["ABLATE_HOME"] = str(folder / name)

        def work(settings: Row = settings) -> Row:
            options: Row = {"encoder": {}, "training": {}} | settings
            encoder, training = sizes.encoder(**options.pop("encoder")), options.pop("training")
            done = trained(cell(source, encoder, long, sizes.of(320, 32), training, **options))
            return described(done) | {"weights": weights(done)}

        row = tried(name, work)
        digest = row.pop("weights", "none")
        both = name.endswith("again") and "none" not in (digest, before)
        yield row | ({"equal bits": digest == before} if both else {})
        before = digest
    os.environ["ABLATE_HOME"] = str(folder / "memory")
    yield tried("out of memory, halved", lambda: out_of_memory(sizes, source, long))


def token_views() -> Row:
    """Return the settings of a view of tokens that attention chooses."""
    from contrastive.config import registry

    of_classes = next(name for name, entry in registry.loss_entries().items() if entry.facts.positives == "class")
    view = next(name for name, entry in registry.views().items() if entry.facts.attention)
    return {"loss": f"{supervised_loss()}+{of_classes}", "view": view, "k": 4}


def supervised_loss() -> str:
    from contrastive.config import registry

    return next(name for name, entry in registry.loss_entries().items() if entry.facts.supervised)


def out_of_memory(sizes: Sizes, source: Path, length: int) -> Row:
    """Train a batch that does not fit in the share of the GPU's memory that this process may use."""
    import torch

    if not torch.cuda.is_available():
        return {"error": NEEDS_GPU}
    torch.cuda.empty_cache()
    memory = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (2 if sizes.quick else 4) * 2**30 / memory))
    try:
        count = sizes.of(320, 32)
        return described(trained(cell(source, sizes.encoder(), length, count, {"batch_size": count})))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def started(folder: Path, sizes: Sizes) -> dict[str, "subprocess.Popen[str]"]:
    """Start the processes of `BESIDE` in this folder, which holds what they read; DeepSpeed only if it is installed."""
    encoder_without_dropout(folder / "encoder", sizes)
    texts(folder / "short.csv", sizes.of(200, 80), 32)
    (folder / "zero3.json").write_text('{"zero_optimization": {"stage": 3}}', encoding="utf-8")
    modules = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    running = {}
    for name, (gpus, training) in BESIDE.items():
        if name.startswith("DeepSpeed") and find_spec("deepspeed") is None:
            continue
        own = {"PYTHONPATH": modules} | ({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus})
        running[name] = subprocess.Popen(
            [sys.executable, "-m", "flows.gpu_check", name, json.dumps([sizes.quick, training])], cwd=folder,
            env=os.environ | own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
    return running


def encoder_without_dropout(folder: Path, sizes: Sizes) -> None:
    """Write a random encoder; with dropout, a CPU and a GPU would draw different numbers."""
    import torch
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    shape = TINY if sizes.quick else MINILM
    write_tokenizer(folder)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(made_up_words()), num_hidden_layers=shape["layers"], hidden_size=shape["hidden"],
        num_attention_heads=shape["heads"], intermediate_size=4 * shape["hidden"],
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    config.save_pretrained(folder)
    weights = BertModel(config, add_pooling_layer=False).state_dict()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of the made-up words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *made_up_words()]) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}', encoding="utf-8")


def trained_short(folder: Path, name: str, sizes: Sizes, training: Row) -> Row:
    """Train a short cell without dropout; return what its files say, and the loss of each step."""
    os.environ["ABLATE_HOME"] = str(folder / name)
    encoder = {"model": f"file:{folder / 'encoder'}", "dropout": 0.0}
    done = trained(cell(folder / "short.csv", encoder, 32, sizes.of(160, 32), training))
    lines = (done / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return described(done) | {"weights": weights(done), "losses": [json.loads(line)["loss"] for line in lines]}


def compared(running: dict[str, "subprocess.Popen[str]"], folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Train the short cell in this process, then say how far the other processes' losses are from its own."""
    here = tried("short cell", lambda: trained_short(folder, "here", sizes, {}))
    expected, digest = np.array(here.pop("losses", [])), here.pop("weights", "")
    yield here
    for name in BESIDE:
        if name not in running:
            yield {"name": name, "error": "needs the package deepspeed"}
            continue
        row = tried(name, partial(answer, running[name]))
        same, losses = row.pop("weights", None) == digest, np.array(row.pop("losses", []))
        if "error" not in row and not len(expected):
            row["error"] = "nothing to compare with, as the short cell failed in this process"
        elif "error" not in row and name == "several at once":
            row["equal bits"] = same
        elif "error" not in row:
            row["difference of losses"] = float((np.abs(losses - expected) / np.abs(expected)).max())
        yield row


def answer(process: "subprocess.Popen[str]") -> Row:
    """Return the row that a process prints last; raise RuntimeError with its last words if it fails."""
    printed, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors.strip()[-600:] or f"the process ended with {process.returncode}")
    row: Row = json.loads(printed.splitlines()[-1])
    return row


def made_up_words() -> np.ndarray:
    generator = np.random.default_rng(0)
    return np.array(["".join(generator.choice(list("abcdefghijklmnopqrstuvwxyz"), 5)) for _ in range(2000)])


def texts(file: Path, count: int, words: int) -> Path:
    """Write made-up texts of two classes, whose words differ in part; most have exactly so many words."""
    generator, vocabulary = np.random.default_rng(0), made_up_words()
    lines = ["text,label"]
    for number in range(count):
        own = generator.integers(0, 1000, words) + 500 * (number % 2)
        length = words if number % 4 else max(4, words // 2)
        lines.append(f"{' '.join(vocabulary[own[:length]])},{'ab'[number % 2]}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def cell(file: Path, encoder: Row, length: int, train: int, training: Row, seed: int = 0, **objective: Any) -> Any:
    from contrastive.config.cell import Cell, Data, Encoder, Training
    from contrastive.config.objective import Objective

    return Cell(
        data=Data(source=f"file:{file}", train=train, test=32, max_length=length),
        encoder=Encoder.model_validate(encoder),
        objective=Objective(**{"loss": supervised_loss(), **objective}),
        training=Training(**{"epochs": 1, "batch_size": train // 10, "head_lr": 1e-3, "encoder_lr": 1e-4, **training}),
        seed=seed,
    ).canonical()


@contextmanager
def home() -> Iterator[Path]:
    """Give run folders and caches a temporary place."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ABLATE_HOME"] = folder
        yield Path(folder)


def trained(asked: Any) -> Path:
    """Train a cell as a grid does; return its folder."""
    from contrastive.grid.identity import cell_id, identity
    from contrastive.runs import store
    from contrastive.training.job import TrainRequest
    from contrastive.training.train_cell import train_cell

    folder = store.run_folder(cell_id(identity(asked)))
    train_cell(folder, TrainRequest(asked, "a cell", 10**9))
    return folder


def described(folder: Path) -> Row:
    """Return what a trained cell's files say of it."""
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    row: Row = {
        "seconds": provenance["wall_seconds"],
        "steps": len(lines),
        "texts/s": statistics.median(line["examples_per_second"] for line in lines),
        "first loss": lines[0]["loss"],
        "last loss": lines[-1]["loss"],
        "peak MiB": int(max(line.get("memory_mib", 0) for line in lines))
        or (provenance["peak_memory_bytes"] or 0) // 2**20,
    }
    if provenance["micro_batch"]:
        row["micro-batch"] = provenance["micro_batch"]
    if provenance["energy_joules"]:
        row["joules"] = provenance["energy_joules"]["gpu"]
    return row


def weights(folder: Path) -> str:
    from contrastive.runs import store

    return store.digest_file(folder / "checkpoint" / "weights.safetensors")


def tried(name: str, work: Callable[[], Row]) -> Row:
    """Return the row of some work, with its error if it fails."""
    try:
        return {"name": name} | work()
    except Exception as error:
        traceback.print_exc()
        return {"name": name, "error": f"{type(error).__name__}: {error}"[-600:]}


def main() -> None:
    name, asked = sys.argv[1:]
    quick, training = json.loads(asked)
    print(json.dumps(trained_short(Path.cwd(), name, Sizes(quick), training)))


if __name__ == "__main__":
    main()
