"""Each measure, and the SVM and the picture of all texts beside scikit-learn: seconds, memory and values.

    python -m benchmarks.measures EMBEDDINGS.npz [--texts N] [--repeats 1]

EMBEDDINGS.npz holds `test` and `test.labels`, see benchmarks/embeddings.py. Each is a process of its own with two
threads, and they take turns. Both ways have the same folds. The head's logits and the vectors of a second dropout mask
are made up. Pictures are judged in benchmarks/pictures.py.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.turns import Run, start, take_turns, timed

FOLDS, THREADS, TWICE = 5, 2, 1000
ALL = "all of them"


def measure(variant: str, path: str, texts: int) -> Run:
    """Variants are the names of measures, `picture` and `all of them`, and with `plain ` before it scikit-learn's."""
    with np.load(path) as stored:
        vectors, labels = stored["test"][:texts], stored["test.labels"][:texts]
    found: dict[str, Any] = {}
    plain, name = variant.startswith("plain "), variant.removeprefix("plain ")
    way = PLAIN[name](vectors, labels) if plain else ours(name, vectors, labels)
    run = timed(lambda: found.update(way()))
    points = found.pop("points", None)
    if points is not None and name == "picture":
        from benchmarks.pictures import judge

        found |= judge(vectors, points)
    return run | found


def ours(name: str, vectors: Any, labels: Any) -> Callable[[], dict[str, Any]]:
    from contrastive.evaluation import metrics, parallel, picture
    from contrastive.evaluation.metrics.types import Inputs

    generator = np.random.default_rng(0)
    logits = 3 * np.eye(labels.max() + 1, dtype=np.float32)[labels]
    logits += generator.normal(size=logits.shape).astype(np.float32)
    first = vectors[:TWICE]
    twice = np.stack([first, first + 0.1 * first.std() * generator.normal(size=first.shape).astype(np.float32)], 1)
    names = metrics.METRICS if name == ALL else [] if name == "picture" else [name]
    inputs = Inputs(vectors, labels, logits, FOLDS, twice)

    def run() -> dict[str, Any]:
        with parallel.thread_limit(THREADS):
            found: dict[str, Any] = {score.name: score.value for score in metrics.measure(names, inputs)}
            if name in (ALL, "picture"):
                found["points"] = picture.tsne(picture.scaled(vectors))
        return found

    return run


def svm(vectors: Any, labels: Any) -> Callable[[], dict[str, Any]]:
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    model, splitter = make_pipeline(StandardScaler(), LinearSVC()), StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return lambda: {"svm_accuracy": float(cross_val_score(model, vectors, labels, cv=splitter).mean())}


def tsne(vectors: Any, labels: Any) -> Callable[[], dict[str, Any]]:
    from sklearn.manifold import TSNE

    return lambda: {"points": TSNE(random_state=0, n_jobs=THREADS).fit_transform(vectors)}


PLAIN = {"svm": svm, "picture": tsne}


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("embeddings", type=Path)
    command.add_argument("--texts", type=int, default=10**9, help="the first so many; left out: all")
    command.add_argument("--repeats", type=int, default=1)
    command.add_argument("--only", nargs="*", help="these measures, or `picture`")
    asked = command.parse_args()
    names = asked.only or [*measured(), "picture", ALL]
    beside(asked.embeddings, names, asked.texts, asked.repeats)


def measured() -> list[str]:
    from contrastive.config import registry

    return list(registry.entries("contrastive.evaluation.metrics", "METRICS"))


def beside(path: Path, names: list[str], texts: int, repeats: int) -> None:
    variants = [variant for name in names for variant in (name, *([f"plain {name}"] if name in PLAIN else []))]
    threads = {"OMP_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": str(THREADS), "PYTHONWARNINGS": "ignore"}
    found = take_turns("benchmarks.measures", variants, [str(path), texts], repeats, threads)
    with np.load(path) as stored:
        shape = stored["test"][:texts].shape
    print(f"{shape[0]} × {shape[1]}, {THREADS} threads, {repeats} runs each (median seconds, largest MiB)\n")
    print("| measure | seconds | plain | × | MiB | plain | values | plain |\n|---|---|---|---|---|---|---|---|")
    for name in names:
        mine, others = found[name], found.get(f"plain {name}")
        seconds, mib = typical(mine)
        if others is None:
            print(f"| {name} | {seconds:.2f} | | | {mib:.0f} | | {'' if name == ALL else values(mine[0])} | |")
            continue
        plain_seconds, plain_mib = typical(others)
        print(f"| {name} | {seconds:.2f} | {plain_seconds:.2f} | {plain_seconds / seconds:.1f} | {mib:.0f} | "
              f"{plain_mib:.0f} | {values(mine[0])} | {values(others[0])} |")  # fmt: skip
    both = [name for name in names if name in PLAIN]
    sums = [sum(typical(found[kind + name])[0] for name in both) for kind in ("", "plain ")]
    print(f"| sum of {len(both)} | {sums[0]:.2f} | {sums[1]:.2f} | {sums[1] / sums[0]:.1f} | | | | |")


def typical(runs: list[Run]) -> tuple[float, float]:
    return statistics.median(run["seconds"] for run in runs), max(run["mib"] for run in runs)


def values(run: Run) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in run.items() if name not in ("seconds", "mib"))


if __name__ == "__main__":
    start(main, measure) if sys.argv[1:2] == ["measure"] else main()
