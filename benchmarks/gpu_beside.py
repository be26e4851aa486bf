"""Train a short cell on a GPU in several ways at once, each in a process, and compare the losses with one process's."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from flows.gpu_check import (
    MINILM,
    MODES,
    NEEDS_GPU,
    TINY,
    Row,
    Sizes,
    cell,
    described,
    home,
    made_up_words,
    modes,
    steps_of,
    texts,
    trained,
    tried,
    weights,
)

# The processes that train a short cell all at once: their CUDA_VISIBLE_DEVICES and settings of training.
BESIDE: dict[str, tuple[str | None, Row]] = {
    "on the CPU": ("", {}),
    "several at once": (None, {}),
    "FSDP": (None, {"sharding": "fsdp"}),
    "DeepSpeed ZeRO 3": (None, {"sharding": "deepspeed:zero3.json"}),
}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def everything(sizes: Sizes, more: dict[str, Row]) -> Iterator[Row]:
    """Train a cell in each mode, and a short one here and in processes of their own, all at once."""
    with home() as folder:
        running = started(folder, sizes)
        try:
            yield from modes(sizes, MODES | more, folder)
            os.environ["ABLATE_HOME"] = str(folder / "memory")
            yield tried("out of memory, halved", partial(out_of_memory, sizes, folder))
            yield from compared(running, folder, sizes)
        finally:
            for process in running.values():
                process.kill()
                process.communicate()


def out_of_memory(sizes: Sizes, folder: Path) -> Row:
    """Train a batch that does not fit in the share of the GPU's memory that this process may use."""
    import torch

    if not torch.cuda.is_available():
        return {"error": NEEDS_GPU}
    torch.cuda.empty_cache()
    memory = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (2 if sizes.quick else 4) * 2**30 / memory))
    try:
        count = sizes.of(320, 32)
        source, length = folder / "texts.csv", sizes.of(510, 16)
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
        environment = os.environ | {"PYTHONPATH": modules}
        if gpus is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpus
        command = [sys.executable, "-m", "benchmarks.gpu_beside", name, json.dumps([sizes.quick, training])]
        pipes: Row = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
        running[name] = subprocess.Popen(command, cwd=folder, env=environment, **pipes)
    return running


def encoder_without_dropout(folder: Path, sizes: Sizes) -> None:
    """Write a random encoder; with dropout, a CPU and a GPU would draw different numbers."""
    import torch
    from transformers import BertConfig, BertModel

    shape = TINY if sizes.quick else MINILM
    write_tokenizer(folder)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(made_up_words()), num_hidden_layers=shape["layers"], hidden_size=shape["hidden"],
        num_attention_heads=shape["heads"], intermediate_size=4 * shape["hidden"],
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of the made-up words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *made_up_words()]) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}', encoding="utf-8")


def trained_short(folder: Path, name: str, sizes: Sizes, training: Row) -> Row:
    """Train a short cell without dropout; return what its files say, and the loss of each step."""
    os.environ["ABLATE_HOME"] = str(folder / name)
    encoder = {"model": f"file:{folder / 'encoder'}", "dropout": 0.0}
    run = trained(cell(folder / "short.csv", encoder, 32, sizes.of(160, 32), training))
    return described(run) | {"weights": weights(run), "losses": [step["loss"] for step in steps_of(run)]}


def compared(running: dict[str, "subprocess.Popen[str]"], folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Train the short cell in this process, then say how far the other processes' losses are from its own."""
    here = tried("short cell", partial(trained_short, folder, "here", sizes, {}))
    expected, digest = np.array(here.pop("losses", [])), here.pop("weights", "")
    yield here
    for name in BESIDE:
        if name not in running:
            yield {"name": name, "error": "needs the package deepspeed"}
            continue
        row = tried(name, partial(answer, running[name]))
        same, losses = row.pop("weights", None) == digest, np.array(row.pop("losses", []))
        if name == "several at once" and "error" not in row:
            row["equal bits"] = same
        elif len(expected) and "error" not in row:
            row["difference of losses"] = float((np.abs(losses - expected) / np.abs(expected)).max())
        yield row


def answer(process: "subprocess.Popen[str]") -> Row:
    """Return the row that a process prints last; raise RuntimeError with its last words if it fails."""
    printed, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors.strip()[-600:] or f"the process ended with {process.returncode}")
    row: Row = json.loads(printed.splitlines()[-1])
    return row


def main() -> None:
    name, settings = sys.argv[1:]
    quick, training = json.loads(settings)
    print(json.dumps(trained_short(Path.cwd(), name, Sizes(quick), training)))


if __name__ == "__main__":
    main()
