"""Verdicts for runs that this project did not train: compare the rows of any table of scores, and report them.

import ablate
verdicts = ablate.judge(frame, row="model", seed="seed", score="accuracy", baseline="bert")
print(verdicts)
verdicts.report("report")

`ablate.load("experiment.yaml")` plans and runs an experiment, and returns its results (flows/python.py).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ablate.verdicts import Verdicts, judge, judge_table

__all__ = ["Verdicts", "judge", "judge_table", "load"]


def __getattr__(name: str) -> Any:
    """Import what is asked for only now: it loads pandas and the reports, which `ablate judge` does not need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("flows.python" if name == "load" else "ablate.verdicts"), name)


def __dir__() -> list[str]:
    return __all__
