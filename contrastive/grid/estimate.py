"""Estimate the seconds of cells from the finished cells of this home with the same encoder.

Work counts tokens × blocks × passes of the encoder, backward passes included. Seconds are work times a rate: the median
seconds per unit of work of the finished cells, evaluation included, of those with the same tuning if there are any.
Until a cell of the encoder has finished, seconds are unknown, and cells are ordered by their work.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import suppress
from statistics import median
from typing import NamedTuple

import numpy as np

from contrastive.config import registry
from contrastive.config.cell import Cell, Encoder, Scratch
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.data import locate, tokens
from contrastive.grid import frozen_readers
from contrastive.grid.identity import numeric_settings, token_settings
from contrastive.runs import claim, store

BATCH = 60  # overhead of a batch and its step, in tokens
UNKNOWN_TEXTS = 20_000  # assumed size of data that has not been counted yet
UNKNOWN_SECONDS = 1e12
LATEST = 200  # number of finished cells that are read


class Texts(NamedTuple):
    """Number of texts of each split, with their mean length in tokens; `counted`: not assumed."""

    counts: dict[str, int]
    length: float
    counted: bool


def texts_of(cell: Cell) -> Texts:
    """Return the prepared texts of a cell; before they are prepared, each is assumed to have max_length tokens."""
    names = ("train", "validation", "test")
    with suppress(OSError, ValueError):  # data that cannot be found is reported elsewhere
        folder = store.cache_folder("tokens", tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed()))
        if store.finished(folder):
            offsets = {name: np.load(folder / f"{name}.offsets.npy") for name in names}
            counts = {name: len(each) - 1 for name, each in offsets.items()}
            mean = sum(int(each[-1]) for each in offsets.values()) / sum(counts.values())
            return Texts(counts, mean if cell.data.images is None else most_tokens(cell), True)
    asked = {name: getattr(cell.data, name) for name in names}
    counts = {name: count if isinstance(count, int) else UNKNOWN_TEXTS for name, count in asked.items()}
    return Texts(counts, most_tokens(cell), False)


def most_tokens(cell: Cell) -> int:
    """Return the most tokens of a text, or the number of those that an encoder makes of an image."""
    if cell.data.images is None:
        return cell.data.max_length
    patch = locate.configuration(cell.encoder).get("patch_size")
    return 1 + (cell.data.images.size // (patch if isinstance(patch, int) else Scratch().patch)) ** 2


def encoder_passes(cell: Cell) -> tuple[int, int]:
    """Return the encoder passes per text: over the unchanged text and its partners, and over changed texts."""
    facts = cell.objective.view_facts()
    partners = len(cell.data.partners()) + cell.objective.mine if facts.partners else 0
    return facts.passes + partners, facts.changed_passes + cell.objective.reads_guesses()


def training_work(cell: Cell, tokens: float, batches: int, *, stored: bool = False) -> float:
    """Return the work of training on these tokens. `stored`: the output of frozen blocks is read."""
    blocks, last = locate.shape(cell.encoder)[0], cell.encoder.tune.last_blocks
    trained = blocks if last is None else min(blocks, last)  # blocks that a gradient passes through
    plain, changed = encoder_passes(cell)
    backward = 1 if cell.encoder.tune.lora is not None else 2
    passes = (blocks + backward * trained) * (plain + changed) + blocks * cell.objective.view_facts().slow_passes
    return (tokens + BATCH * batches) * (passes - (frozen_readers.separable_blocks(cell) * plain if stored else 0))


class CostEstimator:
    """Estimates seconds of cells; they are None without a finished cell of the encoder."""

    def __init__(self, evaluation: Evaluation, speed: Speed):
        self.evaluation, self.speed = evaluation, speed
        self._texts, self._work = dict[Hashable, Texts](), dict[Hashable, float]()
        per_work = defaultdict[Hashable, list[float]](list)
        for cell, seconds in finished_cells():
            for key in rate_keys(cell):
                per_work[key].append(seconds / self.work(cell))
        self.rates = {key: median(each) for key, each in per_work.items()}

    def seconds(self, cell: Cell) -> float | None:
        """Return seconds of training and evaluation."""
        rate = next((self.rates[key] for key in rate_keys(cell) if key in self.rates), None)
        return None if rate is None else rate * self.work(cell)

    def guide_seconds(self, cells: Iterable[Cell]) -> float:
        """Return the seconds to encode the training texts with the guides of these cells, which have known times."""
        total = 0.0
        for cell in cells:
            guide, texts = Encoder(model=str(cell.objective.guide)), self.texts(cell)
            if not guide.model.endswith(locate.VECTORS):
                own = rate_keys(cell.model_copy(update={"encoder": guide}))
                rates = (self.rates.get(key) for key in (*own, *rate_keys(cell)))
                partners = len(cell.data.partners())
                work = locate.shape(guide)[0] * texts.length * texts.counts["train"] * (1 + partners)
                total += work * next(rate for rate in rates if rate is not None)
        return total

    def work(self, cell: Cell) -> float:
        """Return the work of training and embedding, at least 1; finished cells count as trained with this `speed`."""
        key = cell.model_copy(update={"seed": 0})
        if key in self._work:
            return self._work[key]
        texts, training, stored = self.texts(cell), cell.training, frozen_readers.trains_from_store(cell, self.speed)
        if cell.soup:
            training = training.model_copy(update={"epochs": 0})
        epoch = training_work(cell, texts.length * texts.counts["train"], self.batches(cell), stored=stored)
        embeds = frozen_readers.embeds_from_store(cell, self.speed)
        blocks = locate.shape(cell.encoder)[0] - (frozen_readers.separable_blocks(cell) if embeds else 0)
        counts = texts.counts if self.evaluation.test is None else texts.counts | {"test": self.evaluation.test}
        embedding = blocks * texts.length * max(1, sum(counts[name] for name in self.evaluation.embedded()))
        self._work[key] = max(1.0, epoch * training.epochs / training.processes + embedding)
        return self._work[key]

    def texts(self, cell: Cell) -> Texts:
        key = token_settings(cell)
        if key not in self._texts:
            self._texts[key] = texts_of(cell)
        return self._texts[key]

    def batches(self, cell: Cell) -> int:
        """Return the number of batches of an epoch."""
        return math.ceil(self.texts(cell).counts["train"] / cell.training.batch_size)

    def steps(self, cell: Cell) -> int:
        """Return the number of optimizer steps of the training."""
        return 0 if cell.soup else math.ceil(self.batches(cell) * cell.training.epochs / cell.training.accumulate)


def rate_keys(cell: Cell) -> tuple[Hashable, Hashable]:
    """Return what cells with one rate share: how the encoder computes and is tuned; if none is, how it computes."""
    numeric = tuple(numeric_settings(cell).values())
    return (cell.encoder, numeric), (cell.encoder.model, cell.encoder.scratch, numeric)


def finished_cells() -> Iterator[tuple[Cell, float]]:
    """Yield the cells that finished last, with their seconds; folders that cannot be read are skipped."""
    done = sorted((store.home() / "runs").glob("*/DONE"), key=lambda path: path.stat().st_mtime_ns)
    for folder in (marker.parent for marker in done[-LATEST:]):
        try:
            config, noted = store.read_json(folder / "config.json"), store.read_json(folder / "provenance.json")
            tries = claim.attempts(folder)
            ended = [each for each in tries if (each.get("stage"), each.get("outcome")) == ("evaluate", "done")]
            evaluation = ended[-1]["ended"] - ended[-1]["began"] if ended else 0.0
            if {*config["cell"].get("plugins", ())} - {*map(registry.copy_name, registry.PLUGINS.values())}:
                continue  # reading it would make files of other experiments known
            cell = Cell.model_validate(config["cell"])
            if not cell.encoder.model.startswith("scratch:") and locate.local_model_folder(cell.encoder.model) is None:
                continue  # without the model its size is unknown
            if not cell.soup:
                yield cell, float(noted["wall_seconds"]) + evaluation
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


def makespan(times: Iterable[tuple[float, int]], slots: int) -> float:
    """Return seconds from the first start to the last end, with cells in this order. `times`: seconds and devices of
    each cell."""
    free = [0.0] * slots
    for seconds, devices in times:
        taken = [heapq.heappop(free) for _ in range(min(devices, slots))]
        for _ in taken:
            heapq.heappush(free, max(taken) + seconds)
    return max(free)
