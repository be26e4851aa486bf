"""Measurements that are a process of their own each, and take turns: a slow minute of the machine hits all alike.

A benchmark has `measure(variant, …)`, which imports what it measures, and `main(…)`, whose process stays small: Linux
lets a process begin with the peak of memory of the one that started it.
"""

import json
import os
import resource
import subprocess
import sys
import time
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
    return found


def timed(step: Callable[[], None]) -> Run:
    """Seconds of one step, and by how much it raised the peak of this process's memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    step()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def ratios(runs: list[Run], others: list[Run], key: str) -> list[float]:
    """Of the same turn."""
    return [run[key] / other[key] for run, other in zip(runs, others, strict=True)]


def start(main: Callable[..., None], measure: Callable[..., Run]) -> None:
    """As the command line says: one measurement, or all of them."""
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(*json.loads(sys.argv[2]))))
    else:
        main(*(int(argument) for argument in sys.argv[1:]))
