"""Measurements that are a process of their own each, and take turns: a slow minute of the machine hits all alike.

A benchmark has `measure(variant, …)`, which imports what it measures, and `main(…)`, whose process stays small: Linux
lets a process begin with the peak of memory of the one that started it.
"""

import argparse
import inspect
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

Run = dict[str, float]


def take_turns(
    module: str, variants: Iterable[str], arguments: list[Any], repeats: int, environment: dict[str, str] | None = None
) -> dict[str, list[Run]]:
    """What `measure(variant, *arguments)` of the module gave, for each variant in each turn."""
    found: dict[str, list[Run]] = {variant: [] for variant in variants}
    for _ in range(repeats):
        for variant, runs in found.items():
            command = [sys.executable, "-m", module, "measure", json.dumps([variant, *arguments])]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | (environment or {}))
            runs.append(json.loads(done.stdout.splitlines()[-1]))  # Ray says things before it
            print(f"{variant}: {runs[-1]}", file=sys.stderr, flush=True)  # kept if the next one stops us
    return found


def ratios(runs: list[Run], others: list[Run], key: str) -> list[float]:
    """Of the same turn."""
    return [run[key] / other[key] for run, other in zip(runs, others, strict=True)]


def spread(values: list[float], digits: int = 2) -> str:
    """The median, and where there are several the smallest and the largest of them."""
    shown = f"{statistics.median(values):.{digits}f}"
    return shown if len(values) == 1 else f"{shown} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def start(main: Callable[..., None], measure: Callable[..., Run], quick: tuple[Any, ...] = ()) -> None:
    """As the command line says: one measurement, or all of them; `quick` are the sizes of --quick."""
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(*json.loads(sys.argv[2]))))
        return
    command = argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [p for p in inspect.signature(main).parameters.values() if isinstance(p.default, int)]
    for size in sizes:
        command.add_argument(size.name, type=int, nargs="?", default=size.default, help=f"{size.default} if left out")
    if quick:
        command.add_argument("--quick", action="store_true", help="sizes of seconds, to see that it runs")
    given = command.parse_args()
    main(*(quick if quick and given.quick else [getattr(given, size.name) for size in sizes]))
