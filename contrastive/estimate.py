"""How long cells will take, fitted on what finished cells of this home took."""

from collections.abc import Callable, Hashable, Iterable
from statistics import median

from contrastive import registry, store
from contrastive.config import Cell

# What finished cells are looked up by, the most alike first; seconds a unit of work are the median among them.
ALIKE: tuple[Callable[[Cell], Hashable], ...] = (
    lambda cell: cell.model_copy(update={"seed": 0}),
    lambda cell: (cell.encoder.model, cell.objective.loss, cell.objective.view),
    lambda cell: cell.encoder.model,
)


def work(cell: Cell) -> float:
    """The size of a cell, in tokens of forward passes: what its time grows with."""
    texts = cell.data.train or 20_000
    return float(cell.training.epochs * texts * passes(cell.objective.view) * cell.data.max_length)


def passes(view: str | None) -> int:
    """Passes of the encoder over a text: a view of two vectors encodes it twice, but for the one that draws masks."""
    return 2 if view != "one_stage" and registry.literal("contrastive.views", "VECTORS").get(view) == 2 else 1


class Fit:
    """Expected seconds of a cell; None where nothing comparable has finished yet."""

    def __init__(self, latest: int = 200):
        runs = store.home() / "runs"
        done = sorted(runs.glob("*/DONE"), key=lambda path: path.stat().st_mtime_ns) if runs.is_dir() else []
        seen: dict[Hashable, list[float]] = {}
        for marker in done[-latest:]:
            try:
                cell = Cell.model_validate(store.read_json(marker.parent / "config.json")["cell"])
                seconds = float(store.read_json(marker.parent / "provenance.json")["wall_seconds"])
            except (OSError, ValueError, KeyError):
                continue
            for alike in ALIKE:
                seen.setdefault(alike(cell), []).append(seconds / work(cell))
        self.rates = {key: median(rates) for key, rates in seen.items()}

    def seconds(self, cell: Cell) -> float | None:
        known = (self.rates[key] for alike in ALIKE if (key := alike(cell)) in self.rates)
        rate = next(known, None)
        return None if rate is None else rate * work(cell)


def seconds(cells: Iterable[Cell]) -> float | None:
    """Expected seconds of all cells one after another; None when one of them is like none that has finished."""
    fit = Fit()
    each = [fit.seconds(cell) for cell in cells]
    known = [expected for expected in each if expected is not None]
    return sum(known, 0.0) if len(known) == len(each) else None


def longest_first(cells: Iterable[Cell]) -> list[Cell]:
    """By their expected seconds; those of an encoder that nothing is known of first, the largest of them first."""
    fit = Fit()

    def order(cell: Cell) -> tuple[bool, float]:
        expected = fit.seconds(cell)
        return expected is None, work(cell) if expected is None else expected

    return sorted(cells, key=order, reverse=True)
