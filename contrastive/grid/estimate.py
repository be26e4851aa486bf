"""Expected seconds and bytes of cells: what finished cells of this home took, scaled by how much work a cell is.

Work counts tokens × blocks × passes of the encoder, backward passes included. Within one encoder all else is nearly the
same, so that the median of seconds a unit of work over the finished cells that are most alike says how long one takes.
Where none has finished, a few timed steps do (planning/probe.py).
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

FLOAT = 4  # bytes
TRAINED = 16  # bytes a trained number: itself, its gradient, AdamW's two moments
PROCESS = 600 * 2**20  # bytes of a process that has imported everything
BATCH = 60  # tokens that take as long as the calls of a batch and its step
GUESSES = 3  # blocks that take as long as the head for hidden words
UNKNOWN_TEXTS = 20_000  # texts of data that nobody has counted yet
# what training and evaluation, which load torch, say of themselves
LOOK_EVERY = registry.literal("contrastive.training.train", "LOOK_EVERY")
DROPOUT_SAMPLE = registry.literal("contrastive.evaluation.embed", "DROPOUT_SAMPLE")


class Sizes(NamedTuple):
    """Of an encoder; `parameters` with those below its blocks."""

    blocks: int
    hidden: int
    parameters: int

    def of_block(self) -> int:
        """Parameters of one block."""
        return 12 * self.hidden**2 + 13 * self.hidden


BASE = Sizes(12, 768, 110_000_000)  # of an encoder that is not on this machine yet


@cache
def sizes(encoder: Encoder) -> Sizes:
    if encoder.model.startswith("scratch:"):
        own = locate.scratch_sizes(encoder)
        size = Sizes(own["layers"], own["hidden"], own["hidden"] * (own["vocabulary"] + locate.SCRATCH_POSITIONS))
        return size._replace(parameters=size.parameters + size.blocks * size.of_block())
    folder = locate.local_model_folder(encoder.model)
    if folder is None:
        return BASE
    weights = sum(path.stat().st_size for path in folder.glob("model*.safetensors"))
    return Sizes(*locate.shape(encoder), (weights or FLOAT * BASE.parameters) // FLOAT)


class Batches(NamedTuple):
    """Of the training texts, once through: how many batches, and their tokens, padding included."""

    number: int
    tokens: int
    longest: int  # tokens of the largest batch
    length: int  # of its texts


def predicted_batches(lengths: npt.NDArray[np.integer], size: int, bucket: int, budget: int | None = None) -> Batches:
    """As contrastive/views/batches.py makes them, but for which texts meet."""
    drawn = lengths[np.random.default_rng(0).permutation(len(lengths))]
    groups = np.split(drawn, range(size * bucket, len(drawn), size * bucket))
    if budget is not None:
        groups = np.array_split(drawn, max(1, math.ceil(len(drawn) / (size * bucket))))
    made = [shape for group in groups for shape in _cut(np.sort(group)[::-1].tolist(), size, budget)]
    texts, longest = max(made, key=lambda shape: shape[0] * shape[1], default=(0, 0))
    return Batches(len(made), sum(n * s for n, s in made), texts * longest, longest)


def _cut(group: list[int], size: int, budget: int | None) -> list[tuple[int, int]]:
    """Texts of each batch and the length of its longest, of lengths that come longest first."""
    batches, begin = [], len(group) % size if budget is None else 0
    if begin:  # the longest texts are the last ones of a group by number
        batches.append((begin, group[0]))
    while begin < len(group):
        count = min(size if budget is None else max(1, budget // group[begin]), len(group) - begin)
        batches.append((count, group[begin]))
        begin += count
    return batches


class Texts(NamedTuple):
    """Lengths of the texts of a cell's data, in tokens; `counted` where they were counted."""

    splits: dict[str, npt.NDArray[np.int64]]
    counted: bool

    def measured(self, evaluation: Evaluation, split: str) -> npt.NDArray[np.int64]:
        """Lengths of the texts that an evaluation measures; more test texts than the cell's own are taken for alike."""
        lengths = self.splits[split]
        return np.resize(lengths, evaluation.test) if split == "test" and evaluation.test is not None else lengths


def lengths_of_texts(cell: Cell) -> Texts:
    """From the prepared tokens; before there are any, every text is taken for as long as it may be."""
    names = ("train", "validation", "test")
    try:
        folder = store.cache_folder("tokens", tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed()))
        if store.finished(folder):
            return Texts({name: np.diff(np.load(folder / f"{name}.offsets.npy")) for name in names}, True)
    except (OSError, ValueError, EOFError):  # damaged, or the data cannot be found, which is said elsewhere
        pass
    counts = {name: getattr(cell.data, name) for name in names}
    counts = {name: count if isinstance(count, int) else UNKNOWN_TEXTS for name, count in counts.items()}
    return Texts({name: np.full(count, cell.data.max_length) for name, count in counts.items()}, False)


def encoder_passes(cell: Cell) -> tuple[int, int]:
    """Of the encoder over a text: as it is, with its partners in pairs, and changed."""
    facts = cell.objective.view_facts()
    partners = len(cell.data.partners()) if facts.partners else 0
    return facts.passes + partners, facts.changed_passes + cell.objective.reads_guesses()


def trained_blocks(cell: Cell) -> int:
    """Blocks that a gradient goes through."""
    blocks, last = sizes(cell.encoder).blocks, cell.encoder.tune.last_blocks
    return blocks if last is None else min(blocks, last)


def training_work(cell: Cell, made: Batches, *, stored: bool = False, together: int = 1) -> float:
    """Of these batches, once. `stored`: the frozen blocks' part is read; else `together` cells compute it once."""
    blocks, upper, (plain, changed) = sizes(cell.encoder).blocks, trained_blocks(cell), encoder_passes(cell)
    objective, backward = cell.objective, 1 if cell.encoder.tune.lora is not None else 2
    frozen = (blocks - upper) * (plain + changed) - separable_blocks(cell) * plain * (
        1.0 if stored else 1 - 1 / together
    )
    looks = len(objective.terms()) / LOOK_EVERY  # a term is asked for its own gradient now and then
    trained = upper * (plain + changed) * (1 + backward * (1 + looks))
    guesses = GUESSES if objective.reads_guesses() else 0
    tokens_and_calls = made.tokens + BATCH * made.number
    return tokens_and_calls * (frozen + trained + guesses + blocks * objective.view_facts().slow_passes)


class FinishedCell(NamedTuple):
    """A finished cell, and how it was computed: beside how many others in turns, and whether frozen blocks came from a
    store."""

    cell: Cell
    together: int
    stored: bool
    seconds: float
    memory: int | None
    evaluation_key: str
    evaluation_seconds: float | None


class CostEstimator:
    """Expected seconds and bytes of cells; seconds are None where nothing was measured that compares."""

    def __init__(
        self,
        latest: int = 200,
        *,
        evaluation: Evaluation | None = None,
        speed: Speed | None = None,
        device: str = "cpu",
    ):
        self.evaluation, self.speed, self.device = evaluation or Evaluation(), speed or Speed(), device
        self._kept: dict[Hashable, Any] = {}
        self.finished = list(finished_cells(latest))
        rates: dict[Hashable, list[float]] = {}
        memory: dict[Hashable, list[float]] = {}
        for seen in self.finished:
            work = self.work(seen.cell, seen.stored, seen.together)
            expected = self.shared(seen.cell) + seen.together * self._memory(seen.cell)[1]
            for key in similarity_keys(seen.cell):
                rates.setdefault(key, []).append(seen.seconds / work)
                if seen.memory:
                    memory.setdefault(key, []).append(seen.memory / expected)
        self.rates = {key: median(each) for key, each in rates.items()}
        self.memory_ratios = {key: median(each) for key, each in memory.items()}

    def seconds(self, cell: Cell, together: int = 1) -> float | None:
        """Of training and of embedding afterwards; without the frozen blocks' part that a store keeps for many, and
        with its share of what cells that take turns compute once."""
        rate = self._rate(cell)
        stored = frozen_readers.trains_from_store(cell, self.speed)
        return None if rate is None else rate * self.work(cell, stored, together)

    def work(self, cell: Cell, stored: bool = False, together: int = 1) -> float:
        """Of training and of embedding afterwards; at least that of one token."""

        def count() -> float:
            training = training_work(cell, self.batches(cell), stored=stored, together=together)
            embeds = frozen_readers.embeds_from_store(cell, self.speed)
            blocks = sizes(cell.encoder).blocks - (separable_blocks(cell) if embeds else 0)
            splits = [self.texts(cell).measured(self.evaluation, name) for name in self.evaluation.embedded()]
            if self.evaluation.drops_twice():
                splits += [lengths[:DROPOUT_SAMPLE] for lengths in splits for _ in range(2)]
            embedding = blocks * sum(int(lengths.sum()) for lengths in splits)
            return max(1.0, training * cell.training.epochs / cell.training.processes + embedding)

        return self._once(("work", *work_settings(cell), stored, together), count)

    def prefix_seconds(self, cell: Cell, split: str) -> float:
        """Of what a store keeps of a split: once for all cells that read it."""
        return (self._rate(cell) or 0.0) * separable_blocks(cell) * int(self.texts(cell).splits[split].sum())

    def evaluation_seconds(self, cell: Cell) -> float | None:
        rate = self._evaluation_rate
        return None if rate is None else rate * self._evaluated(cell)

    def embedding_seconds(self, cell: Cell, texts: int) -> float | None:
        """Of so many texts, as long as the cell's test texts are."""
        rate, lengths = self._rate(cell), np.resize(self.texts(cell).splits["test"], texts)
        return None if rate is None else rate * sizes(cell.encoder).blocks * int(lengths.sum())

    def memory(self, cell: Cell) -> int:
        """Bytes of one cell alone, at its peak."""
        return self.shared(cell) + self.own(cell)

    def shared(self, cell: Cell) -> int:
        """Of the process and the frozen weights: once for all cells that train in one process."""
        return self._memory(cell)[0]

    def own(self, cell: Cell) -> int:
        """Of trained weights, gradients, moments and a batch."""
        shared, own = self._memory(cell)
        ratio = _first(self.memory_ratios, cell)
        return own if ratio is None else max(0, int(ratio * (shared + own)) - shared)

    def _memory(self, cell: Cell) -> tuple[int, int]:
        return self._once(("memory", *work_settings(cell)), lambda: memory_of_cell(cell, self.batches(cell)))

    def predicted(self, cell: Cell, together: int = 1) -> dict[str, float] | None:
        """What a run folder notes of it beside what is measured then; of memory, that of its process."""
        seconds = self.seconds(cell, together)
        if seconds is None:
            return None
        return {"seconds": round(seconds, 3), "memory_bytes": self.shared(cell) + together * self.own(cell)}

    def basis(self, cell: Cell) -> str:
        """What the seconds rest on: `finished` cells, a `calibration`, or nothing."""
        if _first(self.rates, cell) is not None:
            return "finished"
        return "calibration" if self._timed(cell) is not None else ""

    def texts(self, cell: Cell) -> Texts:
        return self._once(("texts", *token_settings(cell)), lambda: lengths_of_texts(cell))

    def batches(self, cell: Cell) -> Batches:
        filled = cell.training.batch_size, cell.training.bucket, cell.training.token_budget
        return self._once(
            ("batches", *batch_settings(cell)), lambda: predicted_batches(self.texts(cell).splits["train"], *filled)
        )

    def steps(self, cell: Cell) -> int:
        """Optimizer steps of its training."""
        return math.ceil(self.batches(cell).number * cell.training.epochs / cell.training.accumulate)

    def _once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        if key not in self._kept:
            self._kept[key] = make()
        value: Value = self._kept[key]
        return value

    def _rate(self, cell: Cell) -> float | None:
        """Seconds a unit of work."""
        rate = _first(self.rates, cell)
        return self._timed(cell) if rate is None else rate

    def _timed(self, cell: Cell) -> float | None:
        return self._once(
            ("timed", *calibration_settings(cell).values()), lambda: read_rate(calibration_file(cell, self.device))
        )

    def _evaluated(self, cell: Cell) -> int:
        return max(1, sum(len(self.texts(cell).measured(self.evaluation, name)) for name in self.evaluation.splits))

    @cached_property
    def _evaluation_rate(self) -> float | None:
        """Seconds a text, of finished cells that were measured alike."""
        key = evaluation_key(self.evaluation)
        rates = [
            seen.evaluation_seconds / self._evaluated(seen.cell)
            for seen in self.finished
            if seen.evaluation_seconds is not None and seen.evaluation_key == key
        ]
        return median(rates) if rates else None


def _first(ratios: dict[Hashable, float], cell: Cell) -> float | None:
    """Of the finished cells that are most alike."""
    candidates = (ratios.get(key) for key in similarity_keys(cell)) if ratios else ()
    return next((ratio for ratio in candidates if ratio is not None), None)


def memory_of_cell(cell: Cell, made: Batches) -> tuple[int, int]:
    """Bytes that cells of one process share, the frozen weights among them, and bytes of the cell's own."""
    size, tune, upper = sizes(cell.encoder), cell.encoder.tune, trained_blocks(cell)
    tools = cell.objective.line_of_view().tools
    if tune.lora is not None:
        trained = upper * (len(tune.lora.targets) or 2) * 2 * size.hidden * tune.lora.r
    else:
        trained = size.parameters if tune.last_blocks is None else upper * size.of_block()
        trained *= 1 + ("twin" in tools)
    everything = (1 + len({"slow", "twin"} & set(tools))) * size.parameters
    frozen = max(0, everything - (trained if tune.lora is None else 0))
    share = min(1.0, (cell.training.micro_batch or cell.training.batch_size) / cell.training.batch_size)
    kept = FLOAT * (18 + 3 * made.length / 64) * size.hidden  # a token and block for the gradient; heads have 64 each
    passing = kept + FLOAT * size.hidden * size.blocks  # one frozen block at a time, and its output
    for_gradient = kept * (0.8 if tune.lora is not None else 1.0) * upper
    batch = made.longest * share / cell.training.processes * sum(encoder_passes(cell)) * (for_gradient + passing)
    return PROCESS + FLOAT * frozen, TRAINED * trained + int(batch)


def calibration_file(cell: Cell, device: str) -> Path:
    """Where the timed steps of cells like this one are kept, on hardware like this."""
    machine = {"processor": provenance.processor(), "device": device}
    key = fingerprint.key("calibration", machine=machine, cell=calibration_settings(cell))
    return store.cache_folder("calibration", f"{key}.json")


def read_rate(path: Path) -> float | None:
    """Seconds a unit of work as timed steps said; None where there were none, or the file is damaged."""
    try:
        return float(store.read_json(path)["rate"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def finished_cells(latest: int) -> Iterator[FinishedCell]:
    """The cells that finished last; a folder that cannot be read tells nothing."""
    runs = store.home() / "runs"
    done = sorted(runs.glob("*/DONE"), key=lambda path: path.stat().st_mtime_ns) if runs.is_dir() else []
    for folder in (marker.parent for marker in done[-latest:]):
        try:
            config, noted = store.read_json(folder / "config.json"), store.read_json(folder / "provenance.json")
            speed = noted.get("speed") or {}
            yield FinishedCell(
                Cell.model_validate(config["cell"]),
                int(speed.get("together", 1)),
                speed.get("reuse", "none") != "none",
                float(noted["wall_seconds"]),
                int(noted.get("peak_memory_bytes") or 0) or None,
                *_evaluation_of(folder),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue


def _evaluation_of(folder: Path) -> tuple[str, float | None]:
    """By which settings a cell was measured, and for how long."""
    attempts = [
        each for each in claim.attempts(folder) if (each.get("stage"), each.get("outcome")) == ("evaluate", "done")
    ]
    if not attempts:
        return "", None
    return store.read_json(folder / "scores.json")["key"], attempts[-1]["ended"] - attempts[-1]["began"]


def total_seconds(cells: Iterable[Cell], fit: CostEstimator | None = None) -> float | None:
    """Expected seconds of all cells one after another; None if any has neither a finished cell like it nor timed
    steps."""
    fit = fit or CostEstimator()
    each = [fit.seconds(cell) for cell in cells]
    seconds = [expected for expected in each if expected is not None]
    return sum(seconds, 0.0) if len(seconds) == len(each) else None
