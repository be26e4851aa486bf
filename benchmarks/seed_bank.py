"""Which of 6 000 test texts each of eight recipes has right, at 24 seeds each: real studies can be drawn from it.

ablate run benchmarks/seed_bank.yaml
python -m benchmarks.seed_bank    # reads the runs below ABLATE_HOME, writes benchmarks/seed_bank.npz

Another bank, on the same texts and seeds: ablate run benchmarks/quickstart_bank.yaml, and then with
--experiment benchmarks/quickstart_bank.yaml --into benchmarks/quickstart_bank.npz
"""

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from benchmarks import one_cell
from contrastive.grid.identity import cell_id, identity
from contrastive.runs import store

FILE = Path(__file__).with_name("seed_bank.npz")
EXPERIMENT = Path(__file__).with_name("seed_bank.yaml")


@dataclass(frozen=True)
class Bank:
    """`seconds`: the median of what a training took; a machine that paused makes no recipe slower."""

    right: Bool[ndarray, "recipes seeds texts"]
    recipes: tuple[str, ...]  # the first is the baseline of all
    seeds: tuple[int, ...]
    seconds: Float[ndarray, " recipes"]


def load(file: Path = FILE) -> Bank:
    with np.load(file) as arrays:
        right = np.unpackbits(arrays["right"], axis=-1, count=int(arrays["texts"])).astype(bool)
        recipes, seeds = tuple(map(str, arrays["recipes"])), tuple(map(int, arrays["seeds"]))
        return Bank(right, recipes, seeds, arrays["seconds"])


def save(bank: Bank, file: Path = FILE) -> None:
    np.savez_compressed(
        file,
        right=np.packbits(bank.right, axis=-1),
        texts=bank.right.shape[2],
        recipes=bank.recipes,
        seeds=bank.seeds,
        seconds=bank.seconds,
    )


def collect(experiment: Path = EXPERIMENT) -> Bank:
    """The finished cells of the experiment, in its order, at the seeds that all recipes have."""
    runs: dict[str, dict[int, Path]] = defaultdict(dict)
    for cell in one_cell.read(str(experiment))[1]:
        folder = store.run_folder(cell_id(identity(cell)))
        if store.finished(folder):
            recipe = store.read_json(folder / "config.json")["name"].rsplit(" · seed ", 1)[0]
            runs[recipe][cell.seed] = folder
    if not runs:
        raise SystemExit(f"seed_bank: no finished cell of {experiment.name} below {store.home()}: ablate run it first")
    seeds = tuple(sorted(set[int].intersection(*map(set, runs.values()))))
    right = np.array([[right_of(folders[seed]) for seed in seeds] for folders in runs.values()])
    seconds = np.array([np.median([seconds_of(folders[seed]) for seed in seeds]) for folders in runs.values()])
    return Bank(right, tuple(runs), seeds, seconds)


def right_of(folder: Path) -> Bool[ndarray, " texts"]:
    with np.load(folder / "examples.npz") as examples:
        return np.asarray(examples["test.accuracy"])


def seconds_of(folder: Path) -> float:
    return float(store.read_json(folder / "provenance.json")["wall_seconds"])


def main() -> None:
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.seed_bank", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--experiment", type=Path, default=EXPERIMENT)
    command.add_argument("--into", type=Path, default=FILE)
    asked = command.parse_args()
    bank, into = collect(asked.experiment), asked.into
    save(bank, into)
    print(f"{into}: {len(bank.recipes)} recipes, {len(bank.seeds)} seeds, {bank.right.shape[2]} texts")


if __name__ == "__main__":
    main()
