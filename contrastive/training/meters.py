"""What a piece of work took: the energy of its GPUs by NVIDIA's own counters, and the most memory at a time."""

import ctypes
import resource
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pynvml

CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


def gpu_joules(devices: str | None) -> float | None:
    """What GPUs have used since their driver was loaded, whoever was on them; None where there are none that count.

    `devices` are named as in CUDA_VISIBLE_DEVICES; None: all of the machine.
    """
    try:
        pynvml.nvmlInit()
        names = map(str, range(pynvml.nvmlDeviceGetCount())) if devices is None else devices.split(",")
        handles = [
            pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdecimal() else pynvml.nvmlDeviceGetHandleByUUID(name)
            for name in names
            if name
        ]
        return float(sum(map(pynvml.nvmlDeviceGetTotalEnergyConsumption, handles))) / 1000 or None
    except pynvml.NVMLError:
        return None


class Peak:
    """Watches while it is entered; `bytes` then says what was taken: on a GPU by its tensors, else by the process."""

    def __init__(self) -> None:
        self.bytes = 0

    def __enter__(self) -> "Peak":
        import torch

        self.on_gpu = torch.cuda.is_available()
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        else:
            reset_peak()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        import torch

        self.bytes = torch.cuda.max_memory_allocated() if self.on_gpu else resident("VmHWM")


def reset_peak() -> None:
    """Give back what earlier work left unused, and let the system's mark of the largest size begin again; where it does
    not, there is only that of the whole life of the process."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        CLEAR.write_text("5")


def resident(mark: str) -> int:
    """Bytes of this process in memory: `VmRSS` now, `VmHWM` at the most."""
    try:
        lines = STATUS.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{mark}:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
