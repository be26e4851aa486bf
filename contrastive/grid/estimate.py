"""Estimate the seconds and memory of cells from the finished cells of this home with the same encoder.

Work counts tokens × blocks × passes of the encoder, backward passes included. Seconds are work times a rate: the median
seconds per unit of work of the finished cells, of those with the same tuning if there are any. If there are no finished
cells, a few timed steps (contrastive/training/probe.py) give the rate.

From the seconds follow the order in which cells train, and how long all of them take.
"""

import heapq
import math
from collections.abc import Hashable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from contrastive.config.cell import Cell, Encoder, Scratch
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.data import locate, tokens
from contrastive.grid import frozen_readers
from contrastive.grid.identity import calibration_settings, evaluation_key, numeric_settings, token_settings
from contrastive.runs import claim, fingerprint, provenance, store

FLOAT = 4  # bytes of a number
TRAINED = 16  # bytes per trained parameter: itself, its gradient, AdamW's two moments
PROCESS = 600 * 2**20  # bytes of a process that has imported everything
BATCH = 60  # overhead of a batch and its step, in tokens
UNKNOWN_TEXTS = 20_000  # assumed size of data that has not been counted yet
UNKNOWN_SECONDS = 1e12
LATEST = 200  # number of finished cells that are read


class Sizes(NamedTuple):
    """Size of an encoder; `parameters` includes the embeddings of a pretrained one."""

    blocks: int
    hidden: int
    parameters: int


@cache
def sizes(encoder: Encoder) -> Sizes:
    blocks, hidden = locate.shape(encoder)
    if encoder.model.startswith("scratch:"):
        return Sizes(blocks, hidden, 12 * hidden**2 * blocks)
    weights = sum(path.stat().st_size for path in locate.model_folder(encoder.model).glob("model*.safetensors"))
    return Sizes(blocks, hidden, weights // FLOAT)


class Texts(NamedTuple):
    """Number of texts of each split, with their mean and longest length in tokens; `counted`: not assumed."""

    counts: dict[str, int]
    length: float
    longest: int
    counted: bool


def texts_of(cell: Cell) -> Texts:
    """Return the prepared texts of a cell; before they are prepared, each is assumed to have max_length tokens."""
    names, longest = ("train", "validation", "test"), most_tokens(cell)
    try:
        folder = store.cache_folder("tokens", tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed()))
        if store.finished(folder):
            lengths = {name: np.diff(np.load(folder / f"{name}.offsets.npy")) for name in names}
            every = np.concatenate(list(lengths.values()))
            counts = {name: len(each) for name, each in lengths.items()}
            if cell.data.images is not None:
                return Texts(counts, longest, longest, True)
            return Texts(counts, float(every.mean()), int(every.max()), True)
    except (OSError, ValueError, EOFError):  # damaged, or the data cannot be found, which is reported elsewhere
        pass
    asked = {name: getattr(cell.data, name) for name in names}
    counts = {name: count if isinstance(count, int) else UNKNOWN_TEXTS for name, count in asked.items()}
    return Texts(counts, longest, longest, False)


def most_tokens(cell: Cell) -> int:
    """Return the most tokens of a text, or the number of those that an encoder makes of an image."""
    if cell.data.images is None:
        return cell.data.max_length
    patch = locate.configuration(cell.encoder).get("patch_size")
    return 1 + (cell.data.images.size // (patch if isinstance(patch, int) else Scratch().patch)) ** 2


def trained_blocks(cell: Cell) -> int:
    """Return the number of blocks that a gradient passes through."""
    blocks, last = sizes(cell.encoder).blocks, cell.encoder.tune.last_blocks
    return blocks if last is None else min(blocks, last)


def encoder_passes(cell: Cell) -> tuple[int, int]:
    """Return the encoder passes per text: over the unchanged text and its partners, and over changed texts."""
    facts = cell.objective.view_facts()
    partners = len(cell.data.partners()) if facts.partners else 0
    return facts.passes + partners, facts.changed_passes + cell.objective.reads_guesses()


def training_work(cell: Cell, tokens: float, batches: int, *, stored: bool = False) -> float:
    """Return the work of training on these tokens. `stored`: the output of frozen blocks is read."""
    blocks, upper, (plain, changed) = sizes(cell.encoder).blocks, trained_blocks(cell), encoder_passes(cell)
    backward = 1 if cell.encoder.tune.lora is not None else 2
    passes = (blocks + backward * upper) * (plain + changed) + blocks * cell.objective.view_facts().slow_passes
    return (tokens + BATCH * batches) * (passes - (frozen_readers.separable_blocks(cell) * plain if stored else 0))


def memory_of_cell(cell: Cell, longest: int) -> int:
    """Return the bytes of the process that trains a cell, before any was measured. `longest`: tokens of a text."""
    size, upper, training = sizes(cell.encoder), trained_blocks(cell), cell.training
    whole = cell.encoder.tune.last_blocks is None
    trained = size.parameters if whole else 12 * size.hidden**2 * upper
    if cell.encoder.tune.lora is not None:
        trained = 0
    copies = 1 + len({"slow", "twin"} & set(cell.objective.view_entry().tools))
    at_once = training.token_budget or (training.micro_batch or training.batch_size) * longest
    kept = FLOAT * (18 + 3 * longest / 64) * size.hidden * (upper + 1)  # bytes per token for the gradient
    batch = at_once / training.processes * sum(encoder_passes(cell)) * kept
    return PROCESS + FLOAT * copies * size.parameters + (TRAINED - FLOAT) * trained + int(batch)


class FinishedCell(NamedTuple):
    """A finished cell, whether it read a frozen store, and its cost."""

    cell: Cell
    stored: bool
    seconds: float
    memory: int  # 0 if it was not measured
    evaluation_key: str
    evaluation_seconds: float


class CostEstimator:
    """Estimates seconds and bytes of cells; seconds are None without a finished cell of the encoder or timed steps."""

    def __init__(self, evaluation: Evaluation, speed: Speed, *, on_gpu: bool):
        self.evaluation, self.speed, self.on_gpu = evaluation, speed, on_gpu
        self._texts: dict[Hashable, Texts] = {}
        self._timed: dict[Hashable, float | None] = {}
        self._work: dict[Hashable, float] = {}
        self.finished = list(finished_cells())
        self.rates = medians((past.cell, past.seconds / self.work(past.cell, past.stored)) for past in self.finished)
        measured = (past for past in self.finished if past.memory)
        self.memory_ratios = medians((past.cell, past.memory / self._memory(past.cell)) for past in measured)

    def seconds(self, cell: Cell) -> float | None:
        """Return seconds of training and embedding."""
        rate = self._rate(cell)
        return None if rate is None else rate * self.work(cell)

    def total_seconds(self, cells: Iterable[Cell]) -> float | None:
        """Return seconds of all cells in sequence; None if any is unknown."""
        each = [self.seconds(cell) for cell in cells]
        known = [seconds for seconds in each if seconds is not None]
        return sum(known, 0.0) if len(known) == len(each) else None

    def work(self, cell: Cell, stored: bool | None = None) -> float:
        """Return the work of training and embedding, at least 1. `stored`: whether training read the output of frozen
        blocks from a store; None: as `speed` says."""
        key = cell.model_copy(update={"seed": 0}), stored
        if key not in self._work:
            reads = frozen_readers.trains_from_store(cell, self.speed) if stored is None else stored
            self._work[key] = self._count_work(cell, reads)
        return self._work[key]

    def _count_work(self, cell: Cell, stored: bool) -> float:
        texts, training = self.texts(cell), cell.training
        epoch = training_work(cell, texts.length * texts.counts["train"], self.batches(cell), stored=stored)
        embeds = frozen_readers.embeds_from_store(cell, self.speed)
        blocks = sizes(cell.encoder).blocks - (frozen_readers.separable_blocks(cell) if embeds else 0)
        embedding = blocks * texts.length * self._texts_in(cell, self.evaluation.embedded())
        return max(1.0, epoch * training.epochs / training.processes + embedding)

    def evaluation_seconds(self, cell: Cell) -> float | None:
        rate = self._evaluation_rate
        return None if rate is None else rate * self._texts_in(cell, self.evaluation.splits)

    def embedding_seconds(self, cell: Cell, texts: int) -> float | None:
        """Return seconds to embed that many texts."""
        rate = self._rate(cell)
        return None if rate is None else rate * sizes(cell.encoder).blocks * self.texts(cell).length * texts

    def memory(self, cell: Cell) -> int:
        """Return the peak bytes of the process that trains a cell."""
        return int(self._memory(cell) * (most_similar(self.memory_ratios, cell) or 1.0))

    def _memory(self, cell: Cell) -> int:
        return memory_of_cell(cell, self.texts(cell).longest)

    def predicted(self, cell: Cell) -> dict[str, float] | None:
        """Return the estimate that is recorded in the run folder; memory is that of the whole process."""
        seconds = self.seconds(cell)
        return None if seconds is None else {"seconds": round(seconds, 3), "memory_bytes": self.memory(cell)}

    def basis(self, cell: Cell) -> str:
        """Return the evidence for the seconds: "finished" cells, a "calibration", or "" for none."""
        if most_similar(self.rates, cell) is not None:
            return "finished"
        return "calibration" if self._rate(cell) is not None else ""

    def texts(self, cell: Cell) -> Texts:
        key = token_settings(cell)
        if key not in self._texts:
            self._texts[key] = texts_of(cell)
        return self._texts[key]

    def batches(self, cell: Cell) -> int:
        """Return the number of batches of an epoch."""
        texts, budget = self.texts(cell), cell.training.token_budget
        count = texts.counts["train"]
        return math.ceil(count / cell.training.batch_size if budget is None else count * texts.length / budget)

    def steps(self, cell: Cell) -> int:
        """Return the number of optimizer steps of the training."""
        return math.ceil(self.batches(cell) * cell.training.epochs / cell.training.accumulate)

    def _rate(self, cell: Cell) -> float | None:
        """Return seconds per unit of work."""
        if (rate := most_similar(self.rates, cell)) is not None:
            return rate
        key = rate_keys(cell)[-1]
        if key not in self._timed:
            self._timed[key] = read_rate(calibration_file(cell, self.on_gpu))
        return self._timed[key]

    def _texts_in(self, cell: Cell, splits: Iterable[str]) -> int:
        counts = self.texts(cell).counts
        if self.evaluation.test is not None:
            counts = counts | {"test": self.evaluation.test}
        return max(1, sum(counts[name] for name in splits))

    @cached_property
    def _evaluation_rate(self) -> float | None:
        """Seconds per text, from finished cells with the same evaluation settings."""
        key, splits = evaluation_key(self.evaluation), self.evaluation.splits
        same = [past for past in self.finished if past.evaluation_key == key]
        return median(past.evaluation_seconds / self._texts_in(past.cell, splits) for past in same) if same else None


def rate_keys(cell: Cell) -> tuple[Hashable, ...]:
    """Return what cells with one rate share: how the encoder computes and is tuned; if none is, how it computes."""
    return (cell.encoder, *numeric_settings(cell).values()), tuple(calibration_settings(cell).values())


def medians(values: Iterable[tuple[Cell, float]]) -> dict[Hashable, float]:
    """Return the median of the values of the cells with each rate."""
    by_key: dict[Hashable, list[float]] = {}
    for cell, value in values:
        for key in rate_keys(cell):
            by_key.setdefault(key, []).append(value)
    return {key: median(each) for key, each in by_key.items()}


def most_similar(values: dict[Hashable, float], cell: Cell) -> float | None:
    return next((values[key] for key in rate_keys(cell) if key in values), None)


def calibration_file(cell: Cell, on_gpu: bool) -> Path:
    """Return the file with the timed steps of such cells on this hardware."""
    machine = {"processor": provenance.processor(), "device": "gpu" if on_gpu else "cpu"}
    key = fingerprint.key(
        "calibration", unit="tokens without padding", machine=machine, cell=calibration_settings(cell)
    )
    return store.cache_folder("calibration", f"{key}.json")


def read_rate(path: Path) -> float | None:
    """Return seconds per unit of work from timed steps; None if there are none or the file is damaged."""
    try:
        return float(store.read_json(path)["rate"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def finished_cells() -> Iterator[FinishedCell]:
    """Yield the cells that finished last; folders that cannot be read are skipped."""
    done = sorted((store.home() / "runs").glob("*/DONE"), key=lambda path: path.stat().st_mtime_ns)
    for folder in (marker.parent for marker in done[-LATEST:]):
        try:
            config, noted = store.read_json(folder / "config.json"), store.read_json(folder / "provenance.json")
            tries = claim.attempts(folder)
            ended = [each for each in tries if (each.get("stage"), each.get("outcome")) == ("evaluate", "done")]
            cell = Cell.model_validate(config["cell"])
            if not cell.encoder.model.startswith("scratch:") and locate.local_model_folder(cell.encoder.model) is None:
                continue  # without the model its size is unknown
            yield FinishedCell(
                cell,
                (noted.get("speed") or {}).get("reuse", "none") != "none",
                float(noted["wall_seconds"]),
                int(noted.get("peak_memory_bytes") or 0),
                store.read_json(folder / "scores.json")["key"] if ended else "",
                ended[-1]["ended"] - ended[-1]["began"] if ended else 0.0,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue


def in_order(cells: Iterable[Cell], fit: CostEstimator) -> list[Cell]:
    """Sort by total time of the same data and encoder, then by time, longest first; unknown times come first.

    Cells of the same data and encoder follow one another, so that a process can reuse what it has loaded.
    """
    families: dict[Hashable, list[tuple[float, Cell]]] = {}
    for cell in cells:
        seconds = fit.seconds(cell)
        rank = UNKNOWN_SECONDS + fit.work(cell) if seconds is None else seconds
        families.setdefault((cell.data, cell.encoder.model), []).append((rank, cell))
    longest_first = sorted(families.values(), key=lambda family: sum(rank for rank, _ in family), reverse=True)
    return [cell for family in longest_first for _, cell in sorted(family, key=lambda ranked: ranked[0], reverse=True)]


class CellTime(NamedTuple):
    """Seconds of training and evaluation of a cell, and the devices and threads per device of its training."""

    train: float
    evaluate: float
    devices: int = 1
    threads: int = 1


def makespan(times: Iterable[CellTime], slots: int, evaluators: int = 0) -> float:
    """Return seconds from the first start to the last end, with cells in this order. `evaluators`: number of slots for
    evaluation alone; 0 if it occupies a training slot."""
    free, evaluate = [0.0] * slots, 0.0
    for time in times:
        taken = [heapq.heappop(free) for _ in range(min(time.devices, slots))]
        for _ in taken:
            heapq.heappush(free, max(taken) + time.train + (0.0 if evaluators else time.evaluate))
        evaluate += time.evaluate
    return max(*free, evaluate / evaluators) if evaluators else max(free)
