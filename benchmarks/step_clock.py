"""The times at which a trainer of transformers begins and ends its steps."""

import time
from typing import Any

from transformers import TrainerCallback


class Clock(TrainerCallback):
    """The times of the begin and the end of each step, in turn."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())

    def seconds(self) -> float:
        """Return the time from the first step's begin to the last one's end."""
        return self.times[-1] - self.times[0]
