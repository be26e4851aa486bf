"""Energy that a cell used, where the machine's own counters can be read: of processors by RAPL, of GPUs by NVML.

RAPL counts for the whole machine; a cell is given the share of it that it had of the processors' time. It begins again
from 0 after minutes, so it is looked at every half one. NVML counts for a whole GPU, whoever else is on it.
"""

import ctypes
import os
import resource
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

POWERCAP = Path("/sys/class/powercap")
STAT = Path("/proc/stat")
NVML = "libnvidia-ml.so.1"
EVERY = 30.0  # seconds


class Meter:
    """Counts while it is entered; `joules` then says what each kind of counter told, and of others nothing.

    `devices` are GPUs as CUDA_VISIBLE_DEVICES names them; left out, those that this process sees.
    """

    def __init__(self, devices: str = "") -> None:
        self.devices = devices or os.environ.get("CUDA_VISIBLE_DEVICES")
        self.zones = [zone for zone in sorted(POWERCAP.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        self.machine, self.last = 0.0, [microjoules(zone) for zone in self.zones]
        self.ended, self.lock = threading.Event(), threading.Lock()
        self.joules: dict[str, float] = {}

    def __enter__(self) -> "Meter":
        self.busy, self.own, self.gpus = busy_seconds(), own_seconds(), gpu_joules(self.devices)
        if self.readable():
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ended.set()
        self.look()
        busy, now = busy_seconds() - self.busy, gpu_joules(self.devices)
        if self.readable() and busy > 0:
            self.joules["cpu"] = self.machine * min(1.0, (own_seconds() - self.own) / busy)
        if self.gpus is not None and now is not None:
            self.joules["gpu"] = now - self.gpus

    def readable(self) -> bool:
        return bool(self.last) and all(value is not None for value in self.last)

    def look(self) -> None:
        """Add what the machine has used since the last look."""
        with self.lock:
            now = [microjoules(zone) for zone in self.zones]
            for zone, before, after in zip(self.zones, self.last, now, strict=True):
                if before is not None and after is not None:
                    around = microjoules(zone, "max_energy_range_uj") or 0 if after < before else 0
                    self.machine += (after - before + around) / 1e6
            self.last = now

    def _watch(self) -> None:
        while not self.ended.wait(EVERY):
            self.look()


def microjoules(zone: Path, name: str = "energy_uj") -> int | None:
    """None where the kernel shows it to nobody but the administrator, or not at all."""
    try:
        return int((zone / name).read_text())
    except (OSError, ValueError):
        return None


def busy_seconds() -> float:
    """Of all processors together, since the machine began; what was idle or waiting is not counted."""
    try:
        user, nice, system, _idle, _waiting, *rest = map(int, STAT.read_text().partition("\n")[0].split()[1:8])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Of this process and of those that it started, as far as they have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def gpu_joules(devices: str | None) -> float | None:
    """Of some GPUs, or of all, since their driver was loaded; None where there are none that count."""
    try:
        library = ctypes.CDLL(NVML)
        if library.nvmlInit_v2():
            return None
        return sum(map(joules_of, handles(library, devices))) or None
    except (OSError, AttributeError, ValueError):  # no driver, one of before there were counters, or an odd name
        return None


def handles(library: ctypes.CDLL, devices: str | None) -> list[tuple[ctypes.CDLL, ctypes.c_void_p]]:
    count = ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    all_of_them = ",".join(map(str, range(count.value)))
    names = [name for name in (all_of_them if devices is None else devices).split(",") if name]
    nvml_handles = []
    for name in names:
        handle = ctypes.c_void_p()
        if name.isdecimal():
            failed = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(handle))
        else:
            failed = library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
        if failed:
            raise ValueError(name)
        nvml_handles.append((library, handle))
    return nvml_handles


def joules_of(device: tuple[ctypes.CDLL, ctypes.c_void_p]) -> float:
    library, handle = device
    millijoules = ctypes.c_ulonglong()
    if library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules)):
        raise ValueError("a GPU without a counter")
    return millijoules.value / 1000


CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


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
