"""How long cells will take and how much memory: formulas (planning/cost.py), with what this machine needs for each of
their amounts as a calibration measured it, corrected by what finished cells of this home took."""

import math
from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from contrastive.cells.identity import evaluation_key
from contrastive.cells.projections import (
    batch_settings,
    calibration_settings,
    expectations,
    token_settings,
    work_amounts,
)
from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.speed import Speed
from contrastive.planning import calibration, cost
from contrastive.planning.calibration import Calibration
from contrastive.reuse import frozen_readers
from contrastive.runs import claim, store

# Seconds a GFLOP where nothing was measured: time grows with products alone, and finished cells say how fast.
NOMINAL = Calibration("", cost.Work(0.02, 0.02, 0.0, 0.0, 0.0), 0.0, 600 * 2**20, 1.0, {})


class Seen(NamedTuple):
    """A finished cell, and how it was computed: beside how many others in turns, and whether frozen blocks came from a
    store."""

    cell: Cell
    together: int
    stored: bool
    seconds: float
    memory: int | None
    evaluation_key: str
    evaluation_seconds: float | None


class Fit:
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
        self._texts: dict[Hashable, cost.Texts] = {}
        self._batches: dict[Hashable, cost.Batches] = {}
        self._calibrations: dict[Path, Calibration | None] = {}
        self._sizes: dict[Hashable, float] = {}
        self._memories: dict[Hashable, tuple[int, int]] = {}
        self._paths: dict[Hashable, Path] = {}
        self.finished = list(finished_cells(latest))
        self.ratios: dict[Hashable, float] = {}
        self.memory_ratios: dict[Hashable, float] = {}
        times: dict[Hashable, list[float]] = {}
        bytes_: dict[Hashable, list[float]] = {}
        for seen in self.finished:
            formula = self.size(seen.cell, seen.stored) - self._saved(seen.cell, seen.together, seen.stored)
            expected = self.shared(seen.cell) + seen.together * self.own(seen.cell)
            for key in expectations(seen.cell):
                if formula > 0:
                    times.setdefault(key, []).append(seen.seconds / formula)
                if seen.memory:
                    bytes_.setdefault(key, []).append(seen.memory / expected)
        self.ratios = {key: median(ratios) for key, ratios in times.items()}
        self.memory_ratios = {key: median(ratios) for key, ratios in bytes_.items()}

    def seconds(self, cell: Cell, together: int = 1) -> float | None:
        """Of training and of embedding afterwards; without the frozen blocks' part that a store keeps for many, and
        with its share of what cells that take turns compute once."""
        ratio = self._ratio(cell)
        if ratio is None:
            return None
        stored = frozen_readers.trains_from_store(cell, self.speed)
        return ratio * (self.size(cell, stored) - self._saved(cell, together, stored))

    def size(self, cell: Cell, stored: bool) -> float:
        """Seconds by the formulas alone."""
        key = (*work_amounts(cell), stored)
        if key not in self._sizes:
            embeds = frozen_readers.embeds_from_store(cell, self.speed)
            work = cost.work(cell, self.texts(cell), self.batches(cell), self.evaluation, stored, embeds)
            self._sizes[key] = work.seconds(self.calibration(cell).rates)
        return self._sizes[key]

    def _saved(self, cell: Cell, together: int, stored: bool) -> float:
        if together == 1 or stored:
            return 0.0
        common = cost.common(cell, self.batches(cell)) * self.calibration(cell).rates.forward
        return common * (together - 1) / together

    def prefix_seconds(self, cell: Cell, split: str) -> float:
        """Of what a store keeps of a split: once for all cells that read it."""
        rate = (self._ratio(cell) or 1.0) * self.calibration(cell).rates.forward
        return rate * cost.store_work(cell, self.texts(cell), split)

    def evaluation_seconds(self, cell: Cell) -> float | None:
        rate = self._evaluation_rate
        if rate is None:
            rate = self.calibration(cell).evaluation.get(self._key)
        return None if rate is None else rate * _evaluated(self.texts(cell), self.evaluation)

    def embedding_seconds(self, cell: Cell, texts: int) -> float | None:
        """Of so many texts, as long as the cell's test texts are."""
        ratio = self._ratio(cell)
        if ratio is None:
            return None
        lengths = np.resize(self.texts(cell).splits["test"], texts)
        return ratio * cost.embedding_work(cell, lengths) * self.calibration(cell).rates.forward

    def memory(self, cell: Cell) -> int:
        """Bytes of one cell alone, at its peak."""
        return self.shared(cell) + self.own(cell)

    def shared(self, cell: Cell) -> int:
        """Of the process and the frozen weights: once for all cells that train in one process."""
        return self._memory(cell)[0]

    def own(self, cell: Cell) -> int:
        """Of trained weights, gradients, moments and a batch."""
        shared, own = self._memory(cell)
        ratio = self._first(self.memory_ratios, cell)
        return own if ratio is None else max(0, int(ratio * (shared + own)) - shared)

    def _memory(self, cell: Cell) -> tuple[int, int]:
        if (key := work_amounts(cell)) not in self._memories:
            calibrated, memory = self.calibration(cell), cost.memory_of_cell(cell, self.batches(cell))
            own = memory.own - memory.batch + int(calibrated.batch * memory.batch)
            self._memories[key] = calibrated.base + memory.shared, own
        return self._memories[key]

    def predicted(self, cell: Cell, together: int = 1) -> dict[str, float] | None:
        """What a run folder notes of it beside what is measured then; of memory, that of its process."""
        seconds = self.seconds(cell, together)
        if seconds is None:
            return None
        return {"seconds": round(seconds, 3), "memory_bytes": self.shared(cell) + together * self.own(cell)}

    def basis(self, cell: Cell) -> str:
        """What the seconds rest on: `finished` cells, a `calibration`, or nothing."""
        if self._alike(cell) is not None:
            return "finished"
        return "calibration" if self.calibration(cell) is not NOMINAL else ""

    def calibration(self, cell: Cell) -> Calibration:
        path = self._path(cell)
        if path not in self._calibrations:
            self._calibrations[path] = calibration.read_calibration(path)
        return self._calibrations[path] or NOMINAL

    def texts(self, cell: Cell) -> cost.Texts:
        key = token_settings(cell)
        if key not in self._texts:
            self._texts[key] = cost.lengths_of_texts(cell)
        return self._texts[key]

    def batches(self, cell: Cell) -> cost.Batches:
        if (key := batch_settings(cell)) not in self._batches:
            training = cell.training
            filled = training.batch_size, training.bucket, training.token_budget
            self._batches[key] = cost.predicted_batches(self.texts(cell).splits["train"], *filled)
        return self._batches[key]

    def steps(self, cell: Cell) -> int:
        """Optimizer steps of its training."""
        return math.ceil(self.batches(cell).number * cell.training.epochs / cell.training.accumulate)

    def _ratio(self, cell: Cell) -> float | None:
        alike = self._alike(cell)
        return alike if alike is not None else 1.0 if self.calibration(cell) is not NOMINAL else None

    def _alike(self, cell: Cell) -> float | None:
        return self._first(self.ratios, cell)

    def _first(self, ratios: dict[Hashable, float], cell: Cell) -> float | None:
        """Of the cells that are most alike."""
        candidates = (ratios.get(key) for key in expectations(cell)) if ratios else ()
        return next((ratio for ratio in candidates if ratio is not None), None)

    def _path(self, cell: Cell) -> Path:
        key = tuple(calibration_settings(cell).values())
        if key not in self._paths:
            self._paths[key] = calibration.calibration_file(cell, self.device)
        return self._paths[key]

    @cached_property
    def _key(self) -> str:
        return evaluation_key(self.evaluation)

    @cached_property
    def _evaluation_rate(self) -> float | None:
        """Seconds a text, of finished cells that were measured alike."""
        rates = [
            seen.evaluation_seconds / _evaluated(self.texts(seen.cell), self.evaluation)
            for seen in self.finished
            if seen.evaluation_seconds is not None and seen.evaluation_key == self._key
        ]
        return median(rates) if rates else None


def _evaluated(texts: cost.Texts, evaluation: Evaluation) -> int:
    return max(1, sum(len(cost.lengths_measured(texts, evaluation, split)) for split in evaluation.splits))


def finished_cells(latest: int) -> Iterator[Seen]:
    """The cells that finished last; a folder that cannot be read tells nothing."""
    runs = store.home() / "runs"
    done = sorted(runs.glob("*/DONE"), key=lambda path: path.stat().st_mtime_ns) if runs.is_dir() else []
    for folder in (marker.parent for marker in done[-latest:]):
        try:
            config, provenance = store.read_json(folder / "config.json"), store.read_json(folder / "provenance.json")
            speed = provenance.get("speed") or {}
            yield Seen(
                Cell.model_validate(config["cell"]),
                int(speed.get("together", 1)),
                speed.get("reuse", "none") != "none",
                float(provenance["wall_seconds"]),
                int(provenance.get("peak_memory_bytes") or 0) or None,
                *_evaluation_of(folder),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue


def _evaluation_of(folder: Path) -> tuple[str, float | None]:
    """By which settings a cell was measured, and for how long."""
    attempts = [
        attempt
        for attempt in claim.attempts(folder)
        if attempt.get("stage") == "evaluate" and attempt.get("outcome") == "done"
    ]
    if not attempts:
        return "", None
    return store.read_json(folder / "scores.json")["key"], attempts[-1]["ended"] - attempts[-1]["began"]


def total_seconds(cells: Iterable[Cell], fit: Fit | None = None) -> float | None:
    """Expected seconds of all cells one after another; None when one of them is like none that has finished, and
    nothing was calibrated."""
    fit = fit or Fit()
    each = [fit.seconds(cell) for cell in cells]
    seconds = [expected for expected in each if expected is not None]
    return sum(seconds, 0.0) if len(seconds) == len(each) else None
