"""Estimate the seconds and memory of cells from finished cells of this home, scaled by the amount of work.

Work counts tokens × blocks × passes of the encoder, backward passes included. Seconds per unit of work are nearly
constant within one encoder, so the estimate uses their median over the most similar finished cells. Where none has
finished, a few timed steps replace them (contrastive/training/probe.py).
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from contrastive.config import registry
from contrastive.config.cell import Cell, Encoder
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.data import locate, tokens
from contrastive.data.locate import separable_blocks
from contrastive.grid import frozen_readers
from contrastive.grid.identity import (
    batch_settings,
    calibration_settings,
    evaluation_key,
    similarity_keys,
    token_settings,
    work_settings,
)
from contrastive.runs import claim, fingerprint, provenance, store

Value = TypeVar("Value")

FLOAT = 4  # bytes of a number
TRAINED = 16  # bytes per trained parameter: itself, its gradient, AdamW's two moments
PROCESS = 600 * 2**20  # bytes of a process that has imported everything
BATCH = 60  # overhead of a batch and its step, in tokens
GUESSES = 3  # cost of the masked-language-model head, in blocks
UNKNOWN_TEXTS = 20_000  # assumed size of data that has not been counted yet
# constants of modules that import torch, read from their source
CHECK_EVERY = registry.literal("contrastive.training.train", "CHECK_EVERY")
DROPOUT_SAMPLE = registry.literal("contrastive.evaluation.embed", "DROPOUT_SAMPLE")


class Sizes(NamedTuple):
    """Size of an encoder; `parameters` includes the embeddings."""

    blocks: int
    hidden: int
    parameters: int

    def of_block(self) -> int:
        """Return the number of parameters of one block."""
        return 12 * self.hidden**2 + 13 * self.hidden


BASE = Sizes(12, 768, 110_000_000)  # assumed for an encoder that is not on this machine yet


@cache
def sizes(encoder: Encoder) -> Sizes:
    if encoder.model.startswith("scratch:"):
        scratch = locate.scratch_sizes(encoder)
        embeddings = scratch["hidden"] * (scratch["vocabulary"] + locate.SCRATCH_POSITIONS)
        size = Sizes(scratch["layers"], scratch["hidden"], embeddings)
        return size._replace(parameters=size.parameters + size.blocks * size.of_block())
    folder = locate.local_model_folder(encoder.model)
    if folder is None:
        return BASE
    weights = sum(path.stat().st_size for path in folder.glob("model*.safetensors"))
    return Sizes(*locate.shape(encoder), (weights or FLOAT * BASE.parameters) // FLOAT)


class Batches(NamedTuple):
    """Batches of one epoch: their number and tokens, padding included."""

    number: int
    tokens: int
    longest: int  # tokens of the largest batch
    length: int  # tokens of its longest text


def predicted_batches(lengths: npt.NDArray[np.integer], size: int, bucket: int, budget: int | None = None) -> Batches:
    """Predict the batches of contrastive/views/batches.py from text lengths, with another random order."""
    drawn = lengths[np.random.default_rng(0).permutation(len(lengths))]
    groups = np.split(drawn, range(size * bucket, len(drawn), size * bucket))
    if budget is not None:
        groups = np.array_split(drawn, max(1, math.ceil(len(drawn) / (size * bucket))))
    shapes = [shape for group in groups for shape in _batch_shapes(np.sort(group)[::-1].tolist(), size, budget)]
    texts, longest = max(shapes, key=lambda shape: shape[0] * shape[1], default=(0, 0))
    return Batches(len(shapes), sum(n * s for n, s in shapes), texts * longest, longest)


def _batch_shapes(group: list[int], size: int, budget: int | None) -> list[tuple[int, int]]:
    """Return number of texts and longest length of each batch, given lengths sorted longest first."""
    batches, begin = [], len(group) % size if budget is None else 0
    if begin:  # the longest texts form the incomplete batch of a group
        batches.append((begin, group[0]))
    while begin < len(group):
        count = min(size if budget is None else max(1, budget // group[begin]), len(group) - begin)
        batches.append((count, group[begin]))
        begin += count
    return batches


class Texts(NamedTuple):
    """Lengths in tokens of the texts of each split; `counted` is False if they are assumed."""

    splits: dict[str, npt.NDArray[np.int64]]
    counted: bool

    def measured(self, evaluation: Evaluation, split: str) -> npt.NDArray[np.int64]:
        """Return the lengths of the evaluated texts; further test texts are assumed as long as those of the cell."""
        lengths = self.splits[split]
        return np.resize(lengths, evaluation.test) if split == "test" and evaluation.test is not None else lengths


def lengths_of_texts(cell: Cell) -> Texts:
    """Return how many tokens each text has, and whether they were counted; else each is assumed to have max_length."""
    names = ("train", "validation", "test")
    try:
        folder = store.cache_folder("tokens", tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed()))
        if store.finished(folder):
            return Texts({name: np.diff(np.load(folder / f"{name}.offsets.npy")) for name in names}, True)
    except (OSError, ValueError, EOFError):  # damaged, or the data cannot be found, which is reported elsewhere
        pass
    counts = {name: getattr(cell.data, name) for name in names}
    counts = {name: count if isinstance(count, int) else UNKNOWN_TEXTS for name, count in counts.items()}
    return Texts({name: np.full(count, cell.data.max_length) for name, count in counts.items()}, False)


def encoder_passes(cell: Cell) -> tuple[int, int]:
    """Return the encoder passes per text: over the unchanged text and its partners, and over changed texts."""
    facts = cell.objective.view_facts()
    partners = len(cell.data.partners()) if facts.partners else 0
    return facts.passes + partners, facts.changed_passes + cell.objective.reads_guesses()


def trained_blocks(cell: Cell) -> int:
    """Return the number of blocks that a gradient passes through."""
    blocks, last = sizes(cell.encoder).blocks, cell.encoder.tune.last_blocks
    return blocks if last is None else min(blocks, last)


def training_work(cell: Cell, batches: Batches, *, stored: bool = False) -> float:
    """Return the work of one epoch. `stored`: the output of frozen blocks is read."""
    blocks, upper, (plain, changed) = sizes(cell.encoder).blocks, trained_blocks(cell), encoder_passes(cell)
    objective, backward = cell.objective, 1 if cell.encoder.tune.lora is not None else 2
    frozen = (blocks - upper) * (plain + changed) - (separable_blocks(cell) * plain if stored else 0)
    looks = len(objective.term_weights()) / CHECK_EVERY  # the gradient of each term is measured now and then
    trained = upper * (plain + changed) * (1 + backward * (1 + looks))
    guesses = GUESSES if objective.reads_guesses() else 0
    tokens_and_calls = batches.tokens + BATCH * batches.number
    return tokens_and_calls * (frozen + trained + guesses + blocks * objective.view_facts().slow_passes)


class FinishedCell(NamedTuple):
    """A finished cell, whether it read a frozen store, and its cost."""

    cell: Cell
    stored: bool
    seconds: float
    memory: int | None
    evaluation_key: str
    evaluation_seconds: float | None


class CostEstimator:
    """Estimates seconds and bytes of cells; seconds are None without a similar finished cell or calibration."""

    def __init__(
        self,
        latest: int = 200,
        *,
        evaluation: Evaluation | None = None,
        speed: Speed | None = None,
        device: str = "cpu",
    ):
        self.evaluation, self.speed, self.device = evaluation or Evaluation(), speed or Speed(), device
        self._cache: dict[Hashable, Any] = {}
        self.finished = list(finished_cells(latest))
        rates: dict[Hashable, list[float]] = {}
        memory: dict[Hashable, list[float]] = {}
        for past in self.finished:
            work, expected = self.work(past.cell, past.stored), self._memory(past.cell)
            for key in similarity_keys(past.cell):
                rates.setdefault(key, []).append(past.seconds / work)
                if past.memory:
                    memory.setdefault(key, []).append(past.memory / expected)
        self.rates = {key: median(each) for key, each in rates.items()}
        self.memory_ratios = {key: median(each) for key, each in memory.items()}

    def seconds(self, cell: Cell) -> float | None:
        """Return seconds of training and embedding, without stored passes."""
        rate = self._rate(cell)
        stored = frozen_readers.trains_from_store(cell, self.speed)
        return None if rate is None else rate * self.work(cell, stored)

    def work(self, cell: Cell, stored: bool = False) -> float:
        """Return the work of training and embedding, at least 1."""

        def count() -> float:
            training = training_work(cell, self.batches(cell), stored=stored)
            embeds = frozen_readers.embeds_from_store(cell, self.speed)
            blocks = sizes(cell.encoder).blocks - (separable_blocks(cell) if embeds else 0)
            splits = [self.texts(cell).measured(self.evaluation, name) for name in self.evaluation.embedded()]
            if self.evaluation.needs_dropout_pairs():
                splits += [lengths[:DROPOUT_SAMPLE] for lengths in splits for _ in range(2)]
            embedding = blocks * sum(int(lengths.sum()) for lengths in splits)
            return max(1.0, training * cell.training.epochs / cell.training.processes + embedding)

        return self._cached(("work", *work_settings(cell), stored), count)

    def prefix_seconds(self, cell: Cell, split: str) -> float:
        """Return seconds to fill the frozen store of a split, once for all cells that read it."""
        return (self._rate(cell) or 0.0) * separable_blocks(cell) * int(self.texts(cell).splits[split].sum())

    def evaluation_seconds(self, cell: Cell) -> float | None:
        rate = self._evaluation_rate
        return None if rate is None else rate * self._evaluated_texts(cell)

    def embedding_seconds(self, cell: Cell, texts: int) -> float | None:
        """Return seconds to embed that many texts, as long as the test texts of the cell."""
        rate, lengths = self._rate(cell), np.resize(self.texts(cell).splits["test"], texts)
        return None if rate is None else rate * sizes(cell.encoder).blocks * int(lengths.sum())

    def memory(self, cell: Cell) -> int:
        """Return the peak bytes of the process that trains a cell."""
        return int(self._memory(cell) * (_most_similar(self.memory_ratios, cell) or 1.0))

    def _memory(self, cell: Cell) -> int:
        return self._cached(("memory", *work_settings(cell)), lambda: memory_of_cell(cell, self.batches(cell)))

    def predicted(self, cell: Cell) -> dict[str, float] | None:
        """Return the estimate that is recorded in the run folder; memory is that of the whole process."""
        seconds = self.seconds(cell)
        return None if seconds is None else {"seconds": round(seconds, 3), "memory_bytes": self.memory(cell)}

    def basis(self, cell: Cell) -> str:
        """Return the evidence for the seconds: "finished" cells, a "calibration", or "" for none."""
        if _most_similar(self.rates, cell) is not None:
            return "finished"
        return "calibration" if self._calibrated_rate(cell) is not None else ""

    def texts(self, cell: Cell) -> Texts:
        return self._cached(("texts", *token_settings(cell)), lambda: lengths_of_texts(cell))

    def batches(self, cell: Cell) -> Batches:
        sizes_of_batches = cell.training.batch_size, cell.training.bucket, cell.training.token_budget
        return self._cached(
            ("batches", *batch_settings(cell)),
            lambda: predicted_batches(self.texts(cell).splits["train"], *sizes_of_batches),
        )

    def steps(self, cell: Cell) -> int:
        """Return the number of optimizer steps of the training."""
        return math.ceil(self.batches(cell).number * cell.training.epochs / cell.training.accumulate)

    def _cached(self, key: Hashable, make: Callable[[], Value]) -> Value:
        if key not in self._cache:
            self._cache[key] = make()
        value: Value = self._cache[key]
        return value

    def _rate(self, cell: Cell) -> float | None:
        """Return seconds per unit of work."""
        rate = _most_similar(self.rates, cell)
        return self._calibrated_rate(cell) if rate is None else rate

    def _calibrated_rate(self, cell: Cell) -> float | None:
        return self._cached(
            ("timed", *calibration_settings(cell).values()), lambda: read_rate(calibration_file(cell, self.device))
        )

    def _evaluated_texts(self, cell: Cell) -> int:
        return max(1, sum(len(self.texts(cell).measured(self.evaluation, name)) for name in self.evaluation.splits))

    @cached_property
    def _evaluation_rate(self) -> float | None:
        """Seconds per text, from finished cells with the same evaluation settings."""
        key = evaluation_key(self.evaluation)
        rates = [
            past.evaluation_seconds / self._evaluated_texts(past.cell)
            for past in self.finished
            if past.evaluation_seconds is not None and past.evaluation_key == key
        ]
        return median(rates) if rates else None


def _most_similar(ratios: dict[Hashable, float], cell: Cell) -> float | None:
    """Return the ratio of the most similar finished cells."""
    candidates = (ratios.get(key) for key in similarity_keys(cell)) if ratios else ()
    return next((ratio for ratio in candidates if ratio is not None), None)


def memory_of_cell(cell: Cell, batches: Batches) -> int:
    """Return the bytes of the process that trains a cell, before any was measured."""
    size, tune, upper = sizes(cell.encoder), cell.encoder.tune, trained_blocks(cell)
    tools = cell.objective.view_entry().tools
    if tune.lora is not None:
        trained = upper * (len(tune.lora.targets) or 2) * 2 * size.hidden * tune.lora.r
    else:
        trained = size.parameters if tune.last_blocks is None else upper * size.of_block()
        trained *= 1 + ("twin" in tools)
    everything = (1 + len({"slow", "twin"} & set(tools))) * size.parameters
    frozen = max(0, everything - (trained if tune.lora is None else 0))
    share = min(1.0, (cell.training.micro_batch or cell.training.batch_size) / cell.training.batch_size)
    # bytes per token and block for the gradient; 64 dimensions per head
    kept = FLOAT * (18 + 3 * batches.length / 64) * size.hidden
    passing = kept + FLOAT * size.hidden * size.blocks  # one frozen block at a time, and its output
    for_gradient = kept * (0.8 if tune.lora is not None else 1.0) * upper
    batch = batches.longest * share / cell.training.processes * sum(encoder_passes(cell)) * (for_gradient + passing)
    return PROCESS + FLOAT * frozen + TRAINED * trained + int(batch)


def calibration_file(cell: Cell, device: str) -> Path:
    """Return the file with the timed steps of such cells on this hardware."""
    machine = {"processor": provenance.processor(), "device": device}
    key = fingerprint.key("calibration", machine=machine, cell=calibration_settings(cell))
    return store.cache_folder("calibration", f"{key}.json")


def read_rate(path: Path) -> float | None:
    """Return seconds per unit of work from timed steps; None if there are none or the file is damaged."""
    try:
        return float(store.read_json(path)["rate"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def finished_cells(latest: int) -> Iterator[FinishedCell]:
    """Yield the cells that finished last; folders that cannot be read are skipped."""
    runs = store.home() / "runs"
    done = sorted(runs.glob("*/DONE"), key=lambda path: path.stat().st_mtime_ns) if runs.is_dir() else []
    for folder in (marker.parent for marker in done[-latest:]):
        try:
            config, noted = store.read_json(folder / "config.json"), store.read_json(folder / "provenance.json")
            speed = noted.get("speed") or {}
            if speed.get("together", 1) != 1:  # of an earlier version, in which cells shared passes
                continue
            yield FinishedCell(
                Cell.model_validate(config["cell"]),
                speed.get("reuse", "none") != "none",
                float(noted["wall_seconds"]),
                int(noted.get("peak_memory_bytes") or 0) or None,
                *_evaluation_of(folder),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue


def _evaluation_of(folder: Path) -> tuple[str, float | None]:
    """Return the evaluation key of a cell and the seconds that its evaluation took."""
    attempts = [
        each for each in claim.attempts(folder) if (each.get("stage"), each.get("outcome")) == ("evaluate", "done")
    ]
    if not attempts:
        return "", None
    return store.read_json(folder / "scores.json")["key"], attempts[-1]["ended"] - attempts[-1]["began"]


def total_seconds(cells: Iterable[Cell], fit: CostEstimator | None = None) -> float | None:
    """Return expected seconds of all cells in sequence; None if any has neither a similar finished cell nor a
    calibration."""
    fit = fit or CostEstimator()
    each = [fit.seconds(cell) for cell in cells]
    seconds = [expected for expected in each if expected is not None]
    return sum(seconds, 0.0) if len(seconds) == len(each) else None
