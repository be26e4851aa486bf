"""How long cells will take, from what finished cells of this home took."""

from collections.abc import Iterable
from statistics import median

from contrastive import store
from contrastive.config import Cell

TWO_PASSES = {"two_stage"}


def work(cell: Cell) -> float:
    """The size of a cell, in tokens of forward passes: what its time grows with."""
    texts = cell.data.train or 20_000
    passes = 2 if cell.objective.view in TWO_PASSES else 1
    return float(cell.training.epochs * texts * passes * cell.data.max_length)


def rates(latest: int = 200) -> dict[str, float]:
    """Encoder model → seconds a unit of work: the median over the latest finished cells."""
    runs = store.home() / "runs"
    folders = sorted(runs.glob("*/DONE"), key=lambda path: path.stat().st_mtime_ns)[-latest:] if runs.is_dir() else []
    seen: dict[str, list[float]] = {}
    for done in folders:
        try:
            cell = Cell.model_validate(store.read_json(done.parent / "config.json")["cell"])
            seconds = float(store.read_json(done.parent / "provenance.json")["wall_seconds"])
        except (OSError, ValueError, KeyError):
            continue
        seen.setdefault(cell.encoder.model, []).append(seconds / work(cell))
    return {model: median(values) for model, values in seen.items()}


def seconds(cells: Iterable[Cell]) -> float | None:
    """Expected seconds of all cells one after another; None when nothing comparable has finished yet."""
    known = rates()
    total = 0.0
    for cell in cells:
        if cell.encoder.model not in known:
            return None
        total += work(cell) * known[cell.encoder.model]
    return total
